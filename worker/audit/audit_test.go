package audit_test

import (
	"context"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/audit"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/memory/memorytest"
	"github.com/hap-worker/hap-worker/worker/rebuild"
)

// passage is an audit of one account, with changes while the audit reads Redis.
type passage struct {
	*memory.Counters
	t        *testing.T
	subjects events.Subjects
	broker   *memory.Broker
	ledger   *storage.Ledger
	during   []func() // by look: runs after the records were read and before the runtimes are
}

func newPassage(t *testing.T) (*passage, *audit.Audit) {
	t.Helper()
	broker, subjects := memorytest.Streams(t)
	p := &passage{Counters: memory.NewCounters(), t: t, subjects: subjects, broker: broker, ledger: storage.NewLedgerOn(broker, subjects, "/hap-worker")}
	landscape := memory.NewGardener("garden-kyma", "CredentialsBinding", engine.Binding{Name: "a", HyperscalerType: "aws", Tenant: "ga"})
	room := storage.NewWaitingRoomOn(broker, subjects)
	rebuilder := &rebuild.Rebuilder{Builder: p.Counters, Inventory: landscape, Ledger: p.ledger, Waiting: room.Addresses, Subjects: subjects}
	if err := rebuilder.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p, &audit.Audit{Records: p, Repairer: p.Counters, Ledger: p.ledger, Inventory: landscape, Reader: landscape, Waiting: room.Addresses}
}

// Runtimes first runs the change in the middle of a look.
func (p *passage) Runtimes(ctx context.Context, pool string) iter.Seq2[account.NamedRuntime, error] {
	if pool == "aws" && len(p.during) > 0 {
		p.during[0]()
		p.during = p.during[1:]
	}
	return p.Counters.Runtimes(ctx, pool)
}

func provisionOf(runtime string) events.Event {
	return events.Event{
		Type: events.TypeProvision, ID: "p-" + runtime, Source: "/keb", RuntimeID: runtime,
		Provision: &events.Provision{RuntimeID: runtime, GlobalAccountID: "ga", Plan: "aws"},
	}
}

// arrives counts a runtime on the account.
func (p *passage) arrives(runtime string) (number int64) {
	p.t.Helper()
	d, err := p.LocateAndAssign(p.t.Context(), "aws", account.Request{
		Runtime: runtime, Request: "p-" + runtime, Tenant: "ga", Terms: account.Terms{}, Seen: []account.Seen{{Binding: "a", Mine: true}},
	})
	if err != nil || d.Binding != "a" {
		p.t.Fatalf("%s is assigned %+v, %v", runtime, d, err)
	}
	return d.Sequence
}

// answered stores the answer of an assignment, as the worker does before it
// acknowledges the event.
func (p *passage) answered(runtime string, number int64) {
	p.t.Helper()
	e := provisionOf(runtime)
	p.stored(e.ReplySubject(p.subjects), events.Reply{
		RequestID: e.ID, RuntimeID: runtime, Status: events.StatusAssigned, GlobalAccountID: "ga",
		Binding: &events.Binding{Name: "a"}, Decision: &events.Decision{Pool: "aws", Sequence: number},
	})
}

// leaves counts a runtime down, and stores the answer.
func (p *passage) leaves(runtime string) {
	p.t.Helper()
	d, err := p.ReleaseRuntime(p.t.Context(), account.Place{Pool: "aws"}, runtime, "")
	if err != nil {
		p.t.Fatal(err)
	}
	e := events.Event{Type: events.TypeDeprovision, ID: "d-" + runtime, RuntimeID: runtime, Deprovision: &events.Deprovision{RuntimeID: runtime}}
	p.stored(e.ReplySubject(p.subjects), events.Reply{
		RequestID: e.ID, RuntimeID: runtime, Status: events.StatusReleased,
		Binding: &events.Binding{Name: "a"}, Decision: &events.Decision{Pool: "aws", Sequence: d.Sequence},
	})
}

func (p *passage) stored(subject string, r events.Reply) {
	p.t.Helper()
	if _, err := p.ledger.Publish(p.t.Context(), subject, r, 0); err != nil {
		p.t.Fatal(err)
	}
}

// TestUnbuiltPool: a pool that is not built hides no bucket, and so no drift of another pool.
func TestUnbuiltPool(t *testing.T) {
	t.Parallel()
	p, a := newPassage(t)
	landscape, _ := a.Inventory.(*memory.Gardener)
	landscape.Put(engine.Binding{Name: "g", HyperscalerType: "gcp"})
	found, err := a.Verify(p.t.Context())
	if err != nil || !slices.Equal(found.NotBuilt, []string{"gcp"}) {
		t.Errorf("not built are %v, %v", found.NotBuilt, err)
	}
}

// If different events during the two looks cause the same difference, that is no drift.
func TestSameDifferenceByTwoEvents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		second func(p *passage) // in the second look
	}{
		{"the second one is answered", func(p *passage) { p.answered("rt-2", p.arrives("rt-2")) }},
		{"the second one is not settled", func(p *passage) {
			msg, err := events.Publication(p.subjects, provisionOf("rt-2"))
			if err == nil {
				_, err = p.broker.Publish(p.t.Context(), msg)
			}
			if err != nil {
				p.t.Fatal(err)
			}
			p.arrives("rt-2")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, audit := newPassage(t)
				p.during = []func(){
					func() {
						p.answered("rt-1", p.arrives("rt-1"))
						time.AfterFunc(time.Second, func() { p.leaves("rt-1") }) // between the looks
					},
					func() { c.second(p) },
				}
				found, err := audit.Verify(t.Context())
				if err != nil || len(p.during) > 0 {
					t.Fatalf("%v, %d looks are left", err, len(p.during))
				}
				if len(found.Drifts) != 0 {
					t.Errorf("the audit finds %+v", found.Drifts)
				}
			})
		})
	}
}
