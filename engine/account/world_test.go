package account_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
	"github.com/hap-worker/hap-worker/engine/seedtest"
)

// TestProtocolInAWorldThatFails lets workers that follow docs/protocol.md settle
// events on the model, in random order: they pause and die between any two steps,
// events are delivered twice, suggestions are stale, replies of Kubernetes get
// lost, others write labels, Redis loses everything and is rebuilt. After each
// step it looks for a broken invariant, and names it with the seed that leads there.
func TestProtocolInAWorldThatFails(t *testing.T) {
	t.Parallel()
	first, worlds := seedtest.Of(t), *worldsFlag
	if *seedFlag != 0 {
		first, worlds = *seedFlag, 1
	}
	for seed := first; seed < first+worlds; seed++ {
		w := newWorld(seed)
		w.run(150)
		w.quiet()
		w.stopAll()
		if w.broken != "" {
			t.Fatalf("%s\nto see it again: -account.seed=%d\n%s", w.broken, seed, w)
		}
	}
}

var (
	worldsFlag = flag.Uint64("account.worlds", 3000, "how many random worlds to look at")
	seedFlag   = flag.Uint64("account.seed", 0, "the one world to look at")
)

const pool = "p"

// label is the state of a binding in Kubernetes.
type label struct {
	tenant     string
	dirty      bool
	generation int64
	epoch      string
	releasedBy string
	version    int
}

func (l label) unclaimed() bool { return l.tenant == "" && !l.dirty }

// event is a message of a publisher, with its reply.
type event struct {
	id, kind         string // kind: provision, deprovision, release
	runtime, tenant  string
	binding          string
	generation       int64
	settled, waiting bool
	reply            account.Answer
	status           string // "" for none; of a release it is the outcome
	stored           int    // sequence of the subject's last message
}

func (e *event) final() bool { return e.status != "" && e.status != "waiting" && e.status != "sealed" }

// world is everything except the workers.
type world struct {
	ctx     context.Context
	m       accounttest.Model
	labels  map[string]label
	cache   map[string]label
	events  []*event
	shoots  map[string]string // runtime -> binding
	born    map[string]bool   // runtimes that had a Shoot
	workers []*handler
	terms   map[string]account.Terms
	written int
	tokens  int

	rnd                           *rand.Rand
	losses, crashes, others, lost int // how often each may still happen
	twice                         bool
	broken                        string
}

func newWorld(seed uint64) *world {
	w := &world{
		ctx: context.Background(), rnd: rand.New(rand.NewPCG(seed, 0)), m: accounttest.NewModel(),
		labels: map[string]label{}, shoots: map[string]string{}, born: map[string]bool{}, terms: map[string]account.Terms{},
	}
	for n := range 1 + w.rnd.IntN(3) {
		w.labels[fmt.Sprintf("b%d", n)] = label{}
	}
	for _, tenant := range []string{"ga-1", "ga-2"} {
		w.terms[tenant] = account.Terms{Several: w.oneIn(2), Limit: 1 + w.rnd.IntN(2)}
	}
	// Few kinds of trouble in one world lead deeper than all of them at once.
	w.losses, w.crashes, w.others, w.lost = w.rnd.IntN(3), w.rnd.IntN(3), w.rnd.IntN(2), w.rnd.IntN(3)
	w.twice = w.oneIn(2)
	w.m.Pool(pool).BeginRebuild("e0", time.Time{}, 0)
	w.m.Pool(pool).Install("e0", account.Snapshot{})
	w.readCache()
	return w
}

// oneIn returns true once in n times.
func (w *world) oneIn(n int) bool { return w.rnd.IntN(n) == 0 }

// run lets things happen, mostly steps of workers.
func (w *world) run(steps int) {
	for range steps {
		switch w.rnd.IntN(16) {
		case 0:
			w.publish()
		case 1, 2, 3:
			w.deliver()
		case 4:
			w.shoot()
		case 5, 6:
			w.sweep()
		case 7:
			w.trouble()
		default:
			w.step()
		}
		if w.check(); w.broken != "" {
			return
		}
	}
}

func (w *world) trouble() {
	switch w.rnd.IntN(4) {
	case 0:
		w.crash()
	case 1:
		w.lose()
	case 2:
		w.other()
	default:
		w.readCache()
	}
}

func (w *world) readCache() { w.cache = maps.Clone(w.labels) }

// errConflict and errUnknown are the errors of a patch.
var (
	errConflict = errors.New("409")
	errUnknown  = errors.New("the reply of Kubernetes got lost")
)

// patch writes a label unless it has changed since it was read. The result may be lost.
func (w *world) patch(name string, read, next label) error {
	if w.labels[name].version != read.version {
		return errConflict
	}
	w.written++
	next.version = w.written
	w.labels[name] = next
	if w.lost > 0 && w.oneIn(6) {
		w.lost--
		return errUnknown
	}
	return nil
}

// errLast means that another publish was faster.
var errLast = errors.New("wrong last sequence")

// store publishes a reply if the subject's last message is the expected one.
func (w *world) store(e *event, expect int, status string, r account.Answer) error {
	if e.stored != expect {
		return errLast
	}
	if e.final() {
		w.broken = fmt.Sprintf("I7 OneAnswer: %s was %s and is answered %s", e.id, e.status, status)
	}
	w.written++
	e.stored, e.status, e.reply = w.written, status, r
	return nil
}

// handler is a worker that settles one event; it can be stopped between any two steps.
type handler struct {
	name string
	key  string // what it works on: two with the same key are a second delivery
	next func() (string, bool)
	stop func()
}

// pace is called between steps. It does not return if the worker dies.
type pace func(step string)

type died struct{}

func (w *world) start(name, key string, run func(pace)) {
	seq := iter.Seq[string](func(yield func(string) bool) {
		defer func() {
			if r := recover(); r != nil && r != any(died{}) {
				panic(r)
			}
		}()
		run(func(step string) {
			if !yield(step) {
				panic(died{})
			}
		})
	})
	next, stop := iter.Pull(seq)
	w.workers = append(w.workers, &handler{name: name, key: key, next: next, stop: stop})
}

func (w *world) stopAll() {
	for _, h := range w.workers {
		h.stop()
	}
	w.workers = nil
}

// advance lets a worker do one step.
func (w *world) advance(n int) {
	if _, goes := w.workers[n].next(); !goes {
		w.workers[n].stop()
		w.workers = slices.Delete(w.workers, n, n+1)
	}
}

func (w *world) step() {
	if len(w.workers) > 0 {
		w.advance(w.rnd.IntN(len(w.workers)))
	}
}

func (w *world) crash() {
	if len(w.workers) == 0 || w.crashes == 0 {
		return
	}
	w.crashes--
	n := w.rnd.IntN(len(w.workers))
	w.workers[n].stop()
	w.workers = slices.Delete(w.workers, n, n+1)
}

// publish puts a new event on the stream, as a publisher may.
func (w *world) publish() {
	if len(w.events) > 6 {
		return
	}
	n := w.rnd.IntN(3)
	e := &event{
		id: fmt.Sprintf("e%d", len(w.events)), kind: []string{"provision", "deprovision", "release"}[w.rnd.IntN(3)],
		runtime: runtimes[n], tenant: tenants[n],
	}
	_, lives := w.shoots[e.runtime]
	if e.kind != "release" && (lives || w.deprovisioned(e.runtime)) {
		return
	}
	if e.kind == "deprovision" && !slices.ContainsFunc(w.events, func(o *event) bool { return o.runtime == e.runtime }) {
		return
	}
	if e.kind == "release" {
		e.runtime, e.tenant, e.binding = "", "", w.anyBinding()
		if e.generation = w.labels[e.binding].generation; !w.labels[e.binding].dirty || w.refers(e.binding) {
			return
		}
	}
	w.events = append(w.events, e)
}

func (w *world) anyBinding() string {
	return slices.Sorted(maps.Keys(w.labels))[w.rnd.IntN(len(w.labels))]
}

func (w *world) deprovisioned(runtime string) bool {
	return slices.ContainsFunc(w.events, func(e *event) bool { return e.kind == "deprovision" && e.runtime == runtime })
}

// deliver hands a worker an event that is not settled or that waits. Now and then another worker already has
// the event.
func (w *world) deliver() {
	var open []*event
	for _, e := range w.events {
		if (!e.settled || e.waiting) && (!w.held(e.id) || w.twice && w.oneIn(4)) {
			open = append(open, e)
		}
	}
	if len(open) == 0 || len(w.workers) > 3 {
		return
	}
	e := open[w.rnd.IntN(len(open))]
	w.take(e, e.waiting && w.oneIn(5))
}

func (w *world) held(key string) bool {
	return slices.ContainsFunc(w.workers, func(h *handler) bool { return h.key == key })
}

// take begins to settle an event.
func (w *world) take(e *event, deadline bool) {
	w.start(e.kind+" "+e.id, e.id, func(p pace) {
		switch e.kind {
		case "provision":
			w.provision(e, deadline, p)
		case "deprovision":
			w.deprovision(e, p)
		default:
			w.release(e, p)
		}
	})
}

// shoot creates a Shoot for an answered runtime, or deletes one.
func (w *world) shoot() {
	runtime := runtimes[w.rnd.IntN(len(runtimes))]
	binding := w.live(runtime)
	if _, there := w.shoots[runtime]; there {
		delete(w.shoots, runtime)
	} else if binding != "" && !w.born[runtime] {
		w.shoots[runtime], w.born[runtime] = binding, true
	}
}

func (w *world) refers(binding string) bool {
	return slices.Contains(slices.Collect(maps.Values(w.shoots)), binding)
}

// live returns the binding that a runtime was answered with, until it is deprovisioned.
func (w *world) live(runtime string) string {
	if w.deprovisioned(runtime) {
		return ""
	}
	for _, e := range w.events {
		if e.kind == "provision" && e.runtime == runtime && e.status == "assigned" {
			return e.reply.Binding
		}
	}
	return ""
}

func (w *world) lose() {
	if w.losses > 0 {
		w.losses--
		_ = w.m.Lose(w.ctx)
	}
}

// other is another writer of labels: it cleans an account by hand, or claims one.
func (w *world) other() {
	name := w.anyBinding()
	l := w.labels[name]
	switch {
	case w.others == 0 || w.refers(name):
		return
	case l.dirty:
		l.tenant, l.dirty = "", false
	case l.unclaimed():
		l.tenant = "ga-2"
	default:
		return
	}
	w.others--
	w.written++
	l.version = w.written
	w.labels[name] = l
}

func (w *world) sweep() {
	if len(w.workers) > 3 {
		return
	}
	if !w.m.Pool(pool).Status().Built {
		if !w.held("rebuild") || w.twice && w.oneIn(4) {
			w.start("rebuild", "rebuild", w.rebuild)
		}
		return
	}
	name := w.anyBinding()
	w.start("sweep "+name, "sweep "+name, func(p pace) { w.sweepBinding(name, p) })
}
