package simulate

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// message is a first delivery of an event.
type message struct {
	jetstream.Msg // the methods that a worker does not call
	of            *nats.Msg
	sequence      uint64
}

func (m message) Subject() string                { return m.of.Subject }
func (m message) Headers() nats.Header           { return m.of.Header }
func (m message) Data() []byte                   { return m.of.Data }
func (message) Ack() error                       { return nil }
func (message) Nak() error                       { return nil }
func (message) NakWithDelay(time.Duration) error { return nil }
func (message) TermWithReason(string) error      { return nil }
func (m message) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Stream: m.sequence}, NumDelivered: 1}, nil
}

// inbox is the subject to which the worker sends a copy of each reply.
const inbox = "_INBOX.simulation"

// replies collects the copies that the worker has sent since the last take.
type replies []events.Reply

// Copy stores a reply.
func (r *replies) Copy(_ context.Context, _ string, reply events.Reply) error {
	*r = append(*r, reply)
	return nil
}

func (r *replies) take() []events.Reply {
	taken := *r
	*r = nil
	return taken
}

// builder builds pools that the state does not have, empty.
type builder struct{ counters *memory.Counters }

// Wanted builds a pool synchronously, so the current event can use it.
func (b builder) Wanted(pool string) {
	if pool != "" {
		_ = installPool(context.Background(), b.counters, pool, account.Snapshot{}) // fails only with its context
	}
}

// unasked ignores requests to serve clusters: a simulation has no passes.
type unasked struct{}

func (unasked) Wanted()     {}
func (unasked) Soon(string) {}
func (unasked) Freed()      {}

// fixed is a policy that never changes.
type fixed struct{ policy *policy.Snapshot }

func (f fixed) Snapshot() *policy.Snapshot { return f.policy }

// faults collects the reasons why events were not answered.
type faults struct{ err error }

func (f *faults) hear(_ context.Context, e observe.Event) {
	if e.Outcome == observe.NakWithDelay || e.Outcome == observe.Nak || e.Outcome == observe.Unsettled {
		f.err = errors.Join(f.err, errors.New(e.Reason))
	}
}

func (f *faults) take() error {
	err := f.err
	f.err = nil
	return err
}
