package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/suggest"
	"github.com/hap-worker/hap-worker/engine/terms"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker"
	"github.com/hap-worker/hap-worker/worker/audit"
	"github.com/hap-worker/hap-worker/worker/fence"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/ranges"
	"github.com/hap-worker/hap-worker/worker/rebuild"
	"github.com/hap-worker/hap-worker/worker/reconcile"
	"github.com/hap-worker/hap-worker/worker/retention"
	"github.com/hap-worker/hap-worker/worker/simulation/gate"
	"github.com/hap-worker/hap-worker/worker/simulation/servers"
	"github.com/hap-worker/hap-worker/worker/simulation/trace"
)

// Only this file knows how a worker is wired: a small cmd/hap-worker.

const (
	opRenew   = "renew rebuild"
	opAsk     = trace.Ask
	opDeliver = "take"
	opAck     = "acknowledge"
	opNak     = "hand back"
	opTerm    = "end"
	opInfo    = trace.Info
	opReopen  = "reopen the consumer"
	opParents = "set parents" // begins a pass over the network ranges
	opBuilt   = trace.Built
	opAssign  = "assign"
	opInstall = "install"
	opPools   = trace.Pools
	opState   = "state of"

	opLocateAndAssign = "locate and assign"
)

const (
	handlers     = 3
	budget       = 21 * time.Second // 14 moments less 14 ns: practically no random pause of a retry ends between the two
	drain        = 6 * time.Second
	serveEvery   = 6 * time.Second // between calls of Look, instead of Options.ServeEvery: select would choose at random between its timer and a wake
	never        = 100_000 * time.Hour
	sweepEvery   = 15 * time.Second
	rebuildPause = 3 * time.Second  // upper bound of the pause after a failed attempt of a rebuild
	rangesPause  = 15 * time.Second // upper bound of the pause after a failed pass over network ranges
	keep         = 3 * time.Minute  // how long the replies of a released runtime are kept (rule 14)
)

// process is one worker process, from its start until it stops or dies.
type process struct {
	world           *world
	name            string // worker and incarnation
	looks, rebuilds string // the actors of its fence and of its rebuilder, which runs several goroutines
	extends         string // the actor of its passes over network ranges
	dead            atomic.Bool
	ended           atomic.Bool // it was stopped
	redis           atomic.Pointer[servers.Master]
	skew            atomic.Int64 // of its clock, in nanoseconds

	fence     *fence.Fence
	worker    *worker.Worker
	rebuilder *rebuild.Rebuilder
	live      *terms.Live // the configuration
	behind    bool        // the world's settings have changed, and live has the former ones
	garden    *landscape
	late      *ranges.Reconciler
	iterator  *iterator
	ctx       context.Context
	cancel    context.CancelFunc

	watched []watched // events that its watch has not delivered yet
	lagging int       // moments during which its watch delivers nothing

	asks       asks
	labels     *reconcile.Labels
	sweeping   sweeping
	sweeps     int
	rebuilding bool      // its rebuild has changed something
	stumbled   bool      // a call of its pass over network ranges has failed
	soon       time.Time // when a cluster was last asked for that a pass has to serve soon
	looked     int       // the number of the last sweep that has asked for the pools
	sweepPool  engine.Pool
	nextSweep  time.Time
	nextServe  time.Time
	mu         sync.Mutex        // protects marks and handled
	marks      map[string]vacant // bindings that a sweep wants marked
	passes     int               // the number of the last audit or the like, to name its actor
	handled    map[string]int    // deliveries by event, to name their actors
}

// sweeping is the last sweep over all labels of a pool that has begun.
type sweeping struct {
	actor string
	stop  context.CancelFunc
}

type vacant struct {
	pool, tenant string
	generation   int64
}

// watched is one event of the watch.
type watched struct {
	binding engine.Binding
	deleted bool
}

func (p *process) now() time.Time { return time.Now().Add(time.Duration(p.skew.Load())) }

// start starts a process, and creates missing streams and a missing consumer, as with nats.manage.
func (w *world) start(number int) *process {
	w.incarnations++
	p := &process{
		world: w, name: fmt.Sprintf("worker %d (start %d)", number, w.incarnations),
		marks: map[string]vacant{}, handled: map[string]int{}, nextSweep: time.Now(), asks: asks{pools: map[string]bool{}},
	}
	p.live = terms.NewLive(w.settings.Decisions())
	p.looks, p.rebuilds, p.extends = p.name+" looks", p.name+" rebuilds", p.name+" ranges"
	p.sweeping = sweeping{p.name + " sweep 0", func() {}}
	p.redis.Store(w.masters[0])
	p.ctx, p.cancel = context.WithCancel(gate.As(context.Background(), p.name))
	p.garden = &landscape{p: p, cache: suggest.New()}
	for b := range w.garden.All() {
		p.garden.cache.Set(&b)
	}
	w.must(w.broker.Setup())
	source, err := w.broker.Consumer(p.ctx)
	w.must(err)
	ledger := storage.NewLedgerOn(server{p}, w.subjects, "/hap-worker")
	room := storage.NewWaitingRoomOn(server{p}, w.subjects)
	p.fence = fence.New(seen{p, ledger}, observe.Observer{})
	p.rebuilder = &rebuild.Rebuilder{
		Builder: store{p}, Inventory: p.garden, Ledger: w.sealed(ledger), Waiting: room.Addresses, Subjects: w.subjects, Now: p.now,
		Record: &servers.Record{Ledger: ledger}, Reconnect: p.reconnect,
	}
	if w.plan.Seed%2 == 1 {
		p.rebuilder.MostUnknown = -1
	}
	options := worker.Options{
		Consumer: consumer{source, p}, Reopen: p.reopen, Subjects: w.subjects, Ledger: ledger, Dead: dead.NewLettersOn(server{p}, w.subjects),
		Room: room, Copies: ledger, Counters: store{p}, Gardener: p.garden, Rebuild: asker{p}, Rules: p.live, Tracer: tracer{p: p},
		Namespace: "garden", Kind: "CredentialsBinding", Concurrency: handlers, Budget: budget, ServeEvery: never, Drain: drain, Now: p.now,
	}
	if w.plan.Networks {
		p.rebuilder.Ranges, p.rebuilder.Networks = blocks{p}, w.Config
		p.late = &ranges.Reconciler{
			Ranges: blocks{p}, Networks: w.Config, Ledger: ledger, Runtime: lookup{store{p}}.Runtime, Rebuild: asker{p}, Subjects: w.subjects, Keeper: blocks{p},
			Refused: keep - 2*budget, Now: p.now,
		}
		options.Ranges = &ranges.Allotter{Blocks: blocks{p}, Networks: w.Config, Late: passes{p}, Rebuild: asker{p}}
		go p.late.Run(gate.As(p.ctx, p.extends))
	}
	p.worker = worker.New(options)
	w.must(p.worker.Start(p.ctx))
	go p.rebuilder.Run(gate.As(p.ctx, p.rebuilds))
	synctest.Wait() // until the new goroutines are blocked: processes do not start at the same time
	return p
}

// seen is the record of the epochs in force as the fence reads it, under an actor that belongs to no event.
type seen struct {
	p      *process
	ledger *storage.Ledger
}

func (s seen) Epochs(ctx context.Context) (storage.EpochRecord, error) {
	return s.ledger.Epochs(gate.As(ctx, s.p.looks))
}

// inForce asks the fence. about tells the calls of an actor apart: one look of the fence may serve several.
func (p *process) inForce(ctx context.Context, about string, epochs account.Epochs) error {
	if p.world.off("fence") {
		return nil
	}
	err := p.fence.InForce(ctx, epochs)
	p.world.gate.InTurn(p, gate.Actor(ctx)+" "+about)
	p.world.gate.Returned(gate.Actor(ctx)) // the fence may have waited for calls of another actor
	return err
}

// reconnect connects to the current master, unless the process is cut off from it (every second seed).
func (p *process) reconnect() {
	if p.world.plan.Seed%2 == 0 {
		p.redis.Store(p.world.masters[0])
	}
}

// lookup implements the runtime lookup of package ranges.
type lookup struct{ store }

func (l lookup) Runtime(ctx context.Context, id string) (account.Place, account.Runtime, error) {
	place, err := l.Place(ctx, id)
	if err != nil || place.Pool == "" {
		return place, account.Runtime{}, err
	}
	rt, err := l.RuntimeIn(ctx, place.Pool, id)
	return place, rt, err
}

func (p *process) reopen(ctx context.Context) (streams.Consumer, error) {
	source, err := ask(gate.As(ctx, p.name+" takes"), p, call{Port: gate.NATS, Op: opReopen}, func(ctx context.Context) (streams.Consumer, error) {
		if err := p.world.broker.Setup(); err != nil {
			return nil, err
		}
		return p.world.broker.Consumer(ctx)
	})
	if err != nil {
		return nil, err
	}
	return consumer{source, p}, nil
}

// Admission returns when the scheduler may see a call. The production code's pauses of retries and loops are
// random; a call after a pause that may exceed a moment is admitted when the longest pause of its kind is over.
func (p *process) Admission(c *call, last time.Time) time.Time {
	if c.Op == opPools && c.Actor == p.sweeper() {
		if p.looked == p.sweeps {
			return c.Arrived.Add(never) // this sweep never goes on after its pause: the next one starts anew
		}
		p.looked = p.sweeps
		return c.Arrived
	}
	if p.ended.Load() && c.Actor == p.name && strings.HasPrefix(c.Op, "read") && strings.Contains(c.Arg, " from ") {
		return c.Arrived.Add(never) // while the worker stops, a select draws whether it serves its queues once more
	}
	if last.IsZero() || !c.Arrived.After(last) {
		return c.Arrived
	}
	switch c.Op {
	case opBuilt:
		return last.Add(rebuildPause)
	case opReopen:
		return last.Add(7500 * time.Millisecond)
	case opParents:
		return last.Add(rangesPause)
	default:
		return c.Arrived
	}
}

// sweeper is the actor of the current sweep.
func (p *process) sweeper() string { return p.sweeping.actor }

// pass returns a context with a new actor, for work that belongs to no event.
func (p *process) pass(what string) context.Context {
	p.passes++
	return gate.As(p.ctx, fmt.Sprintf("%s %s (%d)", p.name, what, p.passes))
}

// sweep starts a pass over all labels of one pool, and cancels the previous pass.
func (p *process) sweep() {
	p.sweeping.stop()
	synctest.Wait() // the cancelled sweep may still wake the worker: not at the same time as Look below
	p.takeUp()
	p.sweeps++
	p.nextSweep = time.Now().Add(sweepEvery)
	pools := p.world.pools
	p.sweepPool = pools[p.sweeps%len(pools)]
	ctx, cancel := context.WithCancel(p.ctx)
	p.sweeping = sweeping{fmt.Sprintf("%s sweep %d", p.name, p.sweeps), cancel}
	p.labels = &reconcile.Labels{
		Worker: marker{p}, Bindings: p.garden, Rebuild: looksAway{asker{p}}, Budget: 10 * time.Second,
		Follower: onePool{store{p}, p.sweepPool}, Cache: onePoolCache{p.garden, p.sweepPool}, Every: never,
	}
	actor := p.sweeper()
	p.world.gate.Returned(actor)
	go p.labels.Run(gate.As(ctx, actor))
	p.worker.Look() // a worker's rounds look by themselves, equally often
}

// mark starts to mark the bindings dirty that a sweep has found, one after the other.
func (p *process) mark() {
	marks := p.marks
	p.marks = map[string]vacant{}
	ctx := p.pass("marks")
	go func() {
		for _, binding := range slices.Sorted(maps.Keys(marks)) {
			within, cancel := context.WithTimeout(ctx, 10*time.Second)
			v := marks[binding]
			_, _ = p.worker.MarkDirty(within, v.pool, binding, v.tenant, v.generation)
			cancel()
		}
	}()
}

// bring delivers the next event of the watch to the process's cache and to its sweep. There must be one.
func (p *process) bring() {
	next := p.watched[0]
	p.watched = p.watched[1:]
	b := next.binding
	if next.deleted {
		if was, there := p.garden.cache.Cached(b.Name); there && was.Pool() == b.Pool() {
			p.garden.cache.Remove(b.Name)
		}
	} else {
		p.garden.cache.Set(&b)
	}
	if p.labels != nil {
		p.labels.Changed(b, next.deleted)
	}
}

// audit starts to compare Redis with labels, Shoots and ledger once, and to repair it.
func (p *process) audit() {
	ledger := storage.NewLedgerOn(server{p}, p.world.subjects, "/hap-worker")
	a := &audit.Audit{
		Records: store{p}, Repairer: store{p}, Ledger: ledger, Inventory: p.garden, Reader: p.garden,
		Waiting: storage.NewWaitingRoomOn(server{p}, p.world.subjects).Addresses,
	}
	ctx := p.pass("audits")
	go func() {
		found, err := a.Verify(ctx)
		if err == nil {
			_, _ = a.RepairAll(ctx, found.Drifts, false)
		}
	}()
}

// forget starts retention once (rule 14).
func (p *process) forget() {
	ledger := storage.NewLedgerOn(server{p}, p.world.subjects, "/hap-worker")
	r := &retention.Purger{
		Ledger: ledger, Records: oneGone{store{p}}, Gardener: p.garden, Room: storage.NewWaitingRoomOn(server{p}, p.world.subjects),
		Rebuild: asker{p}, Keep: keep, Now: p.now, Observer: observe.Observer{},
	}
	if p.late != nil {
		r.Blocks = blocks{p}
	}
	ctx := p.pass("forgets")
	go r.Once(ctx)
}

// tracer names the actor of an event's goroutine after the event.
type tracer struct {
	noop.Tracer

	p *process
}

func (t tracer) Start(ctx context.Context, name string, options ...oteltrace.SpanStartOption) (context.Context, oteltrace.Span) {
	config := oteltrace.NewSpanStartConfig(options...)
	for _, a := range config.Attributes() {
		if a.Key == "messaging.message.id" {
			event := name + " " + a.Value.AsString()
			t.p.mu.Lock()
			t.p.handled[event]++
			n := t.p.handled[event]
			t.p.mu.Unlock()
			return t.Tracer.Start(gate.As(ctx, fmt.Sprintf("%s handles %s (%d)", t.p.name, event, n)), name, options...)
		}
	}
	return t.Tracer.Start(ctx, name, options...)
}
