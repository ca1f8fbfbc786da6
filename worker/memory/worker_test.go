package memory_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/terms"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker"
	"github.com/hap-worker/hap-worker/worker/audit"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/memory/memorytest"
	"github.com/hap-worker/hap-worker/worker/ranges"
	"github.com/hap-worker/hap-worker/worker/rebuild"
	"github.com/hap-worker/hap-worker/worker/reconcile"
	"github.com/hap-worker/hap-worker/worker/retention"
)

// The types of package memory implement the worker's ports.
var (
	_ worker.Counters      = (*memory.Counters)(nil)
	_ rebuild.Builder      = (*memory.Counters)(nil)
	_ audit.Records        = (*memory.Counters)(nil)
	_ audit.Repairer       = (*memory.Counters)(nil)
	_ reconcile.Follower   = (*memory.Counters)(nil)
	_ retention.Records    = (*memory.Counters)(nil)
	_ ranges.Allocator     = (*memory.Ranges)(nil)
	_ rebuild.RangeBuilder = (*memory.Ranges)(nil)
	_ ranges.Keeper        = (*memory.Ranges)(nil)
	_ ranges.Notes         = (*memory.Notes)(nil)
	_ retention.Blocks     = (*memory.Ranges)(nil)
	_ worker.Gardener      = (*memory.Gardener)(nil)
	_ rebuild.Inventory    = (*memory.Gardener)(nil)
	_ reconcile.Cache      = (*memory.Gardener)(nil)
	_ retention.Inventory  = (*memory.Gardener)(nil)
	_ reconcile.Reader     = (*memory.Gardener)(nil)
)

// world is a worker with everything around it, in a bubble.
type world struct {
	t        *testing.T
	subjects events.Subjects
	broker   *memory.Broker
	ledger   *storage.Ledger
	room     *storage.WaitingRoom
	counters *memory.Counters
	gardener *memory.Gardener
	requests []events.Event
}

// start starts a worker with the default configuration.
func start(t *testing.T, bindings ...engine.Binding) *world {
	t.Helper()
	c := config.Default()
	decisions, err := c.Decisions()
	if err != nil {
		t.Fatal(err)
	}
	broker, subjects := memorytest.Streams(t)
	consumer, err := broker.Consumer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, subjects: subjects, broker: broker, ledger: storage.NewLedgerOn(broker, subjects, "/hap-worker"),
		room: storage.NewWaitingRoomOn(broker, subjects), counters: memory.NewCounters(),
		gardener: memory.NewGardener("garden-kyma", "CredentialsBinding", bindings...),
	}
	rebuild := &rebuild.Rebuilder{Builder: w.counters, Inventory: w.gardener, Ledger: w.ledger, Waiting: w.room.Addresses, Subjects: subjects}
	works := worker.New(worker.Options{
		Consumer: consumer, Subjects: subjects, Ledger: w.ledger, Dead: dead.NewLettersOn(broker, subjects), Room: w.room,
		Copies: w.ledger, Counters: w.counters, Gardener: w.gardener, Rebuild: rebuild, Rules: terms.NewLive(decisions),
		Namespace: "garden-kyma", Kind: "CredentialsBinding", Concurrency: 4,
	})
	ctx, cancel := context.WithCancel(context.Background())
	rebuilt := make(chan struct{})
	go func() { rebuild.Run(ctx); close(rebuilt) }()
	if err := works.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		works.Stop()
		cancel()
		<-rebuilt
		broker.Close()
	})
	return w
}

// ask publishes a request, and lets virtual time pass until it is answered.
func (w *world) ask(e events.Event) {
	w.t.Helper()
	e.Source = "/keb"
	msg, err := events.Publication(w.subjects, e)
	if err == nil {
		_, err = w.broker.Publish(w.t.Context(), msg)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.requests = append(w.requests, e)
	time.Sleep(10 * time.Second) // virtual
}

func (w *world) provision(id, runtime, tenant string) {
	w.t.Helper()
	w.ask(events.Event{Type: events.TypeProvision, ID: id, RuntimeID: runtime, Provision: &events.Provision{RuntimeID: runtime, GlobalAccountID: tenant, Plan: "aws"}})
}

// is compares all replies, and the bindings in Gardener.
func (w *world) is(what string, want ...string) {
	w.t.Helper()
	var got []string
	for _, e := range w.requests {
		stored, found, err := w.ledger.Last(w.t.Context(), e.ReplySubject(w.subjects))
		if err != nil || !found {
			w.t.Fatalf("%s: %s has no reply, %v", what, e.ID, err)
		}
		said := e.ID + " " + string(stored.Reply.Status)
		if stored.Reply.Binding != nil {
			said += " " + stored.Reply.Binding.Name
		}
		got = append(got, said)
	}
	for b := range w.gardener.All() {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s of %q, generation %d, dirty %t", b.Name, b.Tenant, b.Generation, b.Dirty)))
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The whole life of an account, with the worker's code on package memory.
func TestWorkerInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := start(t, engine.Binding{Name: "b-1", HyperscalerType: "aws"})
		w.provision("p-1", "rt-1", "ga-1") // finds nothing built: the worker rebuilds
		w.is("provisioned", "p-1 assigned b-1", `b-1 of "ga-1", generation 1, dirty false`)
		w.provision("p-2", "rt-2", "ga-1")
		w.provision("p-3", "rt-3", "ga-2")
		w.is("the pool is empty", "p-1 assigned b-1", "p-2 assigned b-1", "p-3 waiting", `b-1 of "ga-1", generation 1, dirty false`)
		if err := w.counters.Lose(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, runtime := range []string{"rt-1", "rt-2"} {
			w.ask(events.Event{Type: events.TypeDeprovision, ID: "d-" + runtime, RuntimeID: runtime, Deprovision: &events.Deprovision{RuntimeID: runtime, GlobalAccountID: "ga-1"}})
		}
		w.is("empty", "p-1 assigned b-1", "p-2 assigned b-1", "p-3 waiting", "d-rt-1 released b-1", "d-rt-2 released b-1", `b-1 of "ga-1", generation 1, dirty true`)
		w.ask(events.Event{Type: events.TypeRelease, ID: "r-1", Binding: "b-1", Release: &events.Release{Binding: "b-1"}})
		w.is("returned and given to who waits", "p-1 assigned b-1", "p-2 assigned b-1", "p-3 assigned b-1", "d-rt-1 released b-1", "d-rt-2 released b-1",
			"r-1 returned b-1", `b-1 of "ga-2", generation 2, dirty false`)
		record, err := w.counters.Binding(t.Context(), "aws", "b-1")
		if err != nil || record.Count != 1 || record.State != account.InUse {
			t.Errorf("the binding is %+v, %v", record, err)
		}
		backlog, err := w.ledger.Backlog(t.Context())
		if err != nil || backlog.First <= backlog.Last {
			t.Errorf("not settled are %+v, %v", backlog, err)
		}
		if err := w.room.Each(t.Context(), func(r storage.WaitingRequest) error { return fmt.Errorf("%s waits", r.Event.ID) }); err != nil {
			t.Error(err)
		}
	})
}
