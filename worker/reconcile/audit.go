package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/rebuild"
)

// Records is what Redis has, read whole: package counters.
type Records interface {
	Built(ctx context.Context, places ...string) (map[string]bool, error)
	Pools(ctx context.Context) ([]string, error)
	Status(ctx context.Context, place string) (account.Status, error)
	Bindings(ctx context.Context, pool string) iter.Seq2[account.NamedRecord, error]
	Runtimes(ctx context.Context, pool string) iter.Seq2[account.NamedRuntime, error]
	Places(ctx context.Context, bucket string) iter.Seq2[account.NamedPlace, error]
}

// Repairer brings Redis in line: package counters. Each method looks again whether
// what it was told is still so, and reports whether it changed anything.
type Repairer interface {
	Recount(ctx context.Context, pool, binding string) (bool, error)
	Restore(ctx context.Context, pool, runtime string, was, rt account.Runtime, should account.Record) (bool, error)
	DropAdopted(ctx context.Context, pool, runtime, binding string) (bool, error)
	Doubt(ctx context.Context, pool, binding string, generation int64) (bool, error)
	DrainIdle(ctx context.Context, pool, binding string, generation int64) (bool, error)
	Raise(ctx context.Context, pool string, sequence int64) (bool, error)
	Locate(ctx context.Context, runtime, pool string) (account.Place, error)
	ForgetPlace(ctx context.Context, runtime string, p account.Place) (bool, error)
	ReleaseRuntime(ctx context.Context, pool, runtime string) (account.Departure, error)
	TakeBack(ctx context.Context, pool, runtime, request string) error
	Observe(ctx context.Context, pool string, l account.Label) (account.Observation, error)
}

// Reader reads one binding at its source.
type Reader interface {
	// Get gives an engine.Error with CodeUnknownBinding for one that is not there.
	Get(ctx context.Context, name string) (engine.Binding, error)
}

// Ledger is the ledger as an audit uses it: package events.
type Ledger interface {
	rebuild.Ledger
	// End returns the highest sequence that the ledger ever gave a reply.
	End(ctx context.Context) (uint64, error)
	// OfRuntime visits every stored reply of a runtime.
	OfRuntime(ctx context.Context, runtimeID string, visit func(events.Stored) error) error
	// After visits the replies that were stored after a sequence.
	After(ctx context.Context, sequence uint64, visit func(events.Stored) error) error
}

// Audit holds Redis against ledger, labels and Shoots.
type Audit struct {
	Records   Records
	Repairer  Repairer
	Ledger    Ledger
	Inventory rebuild.Inventory
	Reader    Reader
	Room      rebuild.Room
	// Pause is the time between the two readings. Defaults to 2 s.
	Pause time.Duration
	// Progress, if set, is told what is done next.
	Progress func(string)
}

// Finding is what an audit has found.
type Finding struct {
	Drifts   []account.Drift
	NotBuilt []string // pools and buckets; nothing is compared in them
	Replies  int      // of the ledger, that speak of a runtime
	Runtimes int      // assigned in Redis
	Bindings int      // that Redis has a record of
}

func (a *Audit) say(format string, args ...any) {
	if a.Progress != nil {
		a.Progress(fmt.Sprintf(format, args...))
	}
}

// Verify compares twice where the first look finds anything, and returns the drifts that
// both show, without those that the second look may owe to an event in motion. Such an
// event was not settled when the second look began, or was published later. Of the
// latter each is answered in the ledger, not settled, or waits when the look is over.
func (a *Audit) Verify(ctx context.Context) (Finding, error) {
	first, before, err := a.look(ctx)
	if err != nil || len(first.Drifts) == 0 {
		return first, err
	}
	a.say("%d drifts at first sight; looking again", len(first.Drifts))
	pause := a.Pause
	if pause == 0 {
		pause = 2 * time.Second
	}
	select {
	case <-ctx.Done():
		return Finding{}, context.Cause(ctx)
	case <-time.After(pause):
	}
	end, err := a.Ledger.End(ctx)
	if err != nil {
		return Finding{}, err
	}
	moving := motion{runtimes: map[string]bool{}, bindings: map[string]bool{}}
	if err := moving.read(ctx, a.Ledger, a.Room); err != nil {
		return Finding{}, err
	}
	second, after, err := a.look(ctx)
	if err != nil {
		return Finding{}, err
	}
	seen := make(map[[4]string]account.Drift, len(first.Drifts))
	for _, d := range first.Drifts {
		seen[key(d)] = d
	}
	second.Drifts = slices.DeleteFunc(second.Drifts, func(d account.Drift) bool {
		was, known := seen[key(d)]
		return !known || !d.Is(was)
	})
	if len(second.Drifts) == 0 {
		return second, nil
	}
	// An event that is settled between these two readings is answered in the ledger.
	if err := moving.read(ctx, a.Ledger, a.Room); err != nil {
		return Finding{}, err
	}
	if err := moving.answered(ctx, a.Ledger, end); err != nil {
		return Finding{}, err
	}
	moving.follow(before)
	moving.follow(after)
	second.Drifts = slices.DeleteFunc(second.Drifts, func(d account.Drift) bool {
		return moving.runtimes[d.Runtime] || moving.bindings[d.Binding]
	})
	return second, a.noteRefused(ctx, second.Drifts)
}

func key(d account.Drift) [4]string { return [4]string{string(d.Kind), d.Pool, d.Binding, d.Runtime} }

// look reads everything once. Redis is read last: what happens meanwhile is then
// known to Redis and not yet to the ledger, never the other way round.
func (a *Audit) look(ctx context.Context) (Finding, map[string]account.Snapshot, error) {
	var f Finding
	a.say("reading ledger, labels and Shoots")
	gathered, read, err := rebuild.Gather(ctx, a.Ledger, a.Inventory)
	if err != nil {
		return f, nil, err
	}
	f.Replies = read.Replies
	a.say("reading Redis")
	have, places, err := a.readRedis(ctx, gathered.Pools(), &f)
	if err != nil {
		return f, nil, err
	}
	for _, s := range have {
		for _, rt := range s.Runtimes {
			if rt.State == account.RuntimeAssigned {
				f.Runtimes++
			}
		}
	}
	if slices.ContainsFunc(f.NotBuilt, account.IsBucket) {
		return f, have, nil // nothing can be said of what the bucket would hold
	}
	f.Drifts = gathered.Compare(have, places)
	return f, have, nil
}

// readRedis reads all pools and the directory, and notes in f what is not built.
func (a *Audit) readRedis(ctx context.Context, labelled []string, f *Finding) (map[string]account.Snapshot, map[string]account.Place, error) {
	have, places := map[string]account.Snapshot{}, map[string]account.Place{}
	names, err := a.places(ctx, labelled)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if account.IsBucket(name) {
			for p, failed := range a.Records.Places(ctx, name) {
				if err = failed; err == nil {
					places[p.Runtime] = p.Place
				}
			}
		} else {
			var s account.Snapshot
			if s, err = a.pool(ctx, name); err == nil {
				have[name] = s
				f.Bindings += len(s.Bindings)
			}
		}
		switch {
		case errors.Is(err, account.ErrNotBuilt):
			f.NotBuilt = append(f.NotBuilt, name)
		case err != nil:
			return nil, nil, err
		}
	}
	return have, places, nil
}

// places are all buckets and pools: those of Redis and those of the labels.
func (a *Audit) places(ctx context.Context, labelled []string) ([]string, error) {
	names, err := a.Records.Pools(ctx)
	if err != nil {
		return nil, err
	}
	for _, pool := range labelled {
		if !slices.Contains(names, pool) {
			names = append(names, pool)
		}
	}
	for n := range account.Buckets {
		names = append(names, account.BucketName(n))
	}
	return names, nil
}

func (a *Audit) pool(ctx context.Context, pool string) (account.Snapshot, error) {
	s := account.Snapshot{Bindings: map[string]account.Record{}, Runtimes: map[string]account.Runtime{}}
	for b, err := range a.Records.Bindings(ctx, pool) {
		if err != nil {
			return s, err
		}
		s.Bindings[b.Binding] = b.Record
	}
	for rt, err := range a.Records.Runtimes(ctx, pool) {
		if err != nil {
			return s, err
		}
		s.Runtimes[rt.ID] = rt.Runtime
	}
	status, err := a.Records.Status(ctx, pool)
	if err == nil && !status.Built {
		err = account.ErrNotBuilt
	}
	s.Sequence = status.Sequence
	return s, err
}

// motion is the runtimes and bindings of events that an audit and the workers may see
// in different states.
type motion struct{ runtimes, bindings map[string]bool }

// read adds those of the events that are not settled or wait.
func (m *motion) read(ctx context.Context, archive rebuild.Ledger, room rebuild.Room) error {
	err := archive.Unsettled(ctx, func(e events.Event, _ uint64, _ error) error {
		m.add(e.RuntimeID, e.Binding)
		return nil
	})
	if err == nil {
		err = room.Addresses(ctx, "", func(a events.WaitingAddress, _ *events.Foreign) error {
			m.add(a.RuntimeID, "")
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("read what is not settled: %w", err)
	}
	return nil
}

// add takes a runtime and a binding, "" for none.
func (m *motion) add(runtime, binding string) {
	if runtime != "" {
		m.runtimes[runtime] = true
	}
	if binding != "" {
		m.bindings[binding] = true
	}
}

// answered adds those of the replies that were stored after a sequence of the ledger.
func (m *motion) answered(ctx context.Context, ledger Ledger, after uint64) error {
	err := ledger.After(ctx, after, func(s events.Stored) error {
		if fact := s.Reply.Fact(); s.Foreign == nil {
			m.add(fact.RuntimeID, fact.Binding)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read what was answered meanwhile: %w", err)
	}
	return nil
}

// follow adds the bindings that runtimes in motion are, or were, on.
func (m *motion) follow(have map[string]account.Snapshot) {
	for _, s := range have {
		for id := range m.runtimes {
			if rt := s.Runtimes[id]; rt.Binding != "" {
				m.bindings[rt.Binding] = true
			}
		}
	}
}
