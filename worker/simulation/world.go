package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/simulation/gate"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
	"github.com/hap-worker/hap-worker/worker/simulation/servers"
	"github.com/hap-worker/hap-worker/worker/simulation/trace"
)

// moment is the unit in which time passes. The scheduler sees calls only between moments, so the exact length of a
// random pause within a moment does not matter. The nanosecond keeps moments and time-outs apart.
const moment = 1500*time.Millisecond + time.Nanosecond

// world is everything around the processes, and the scheduler.
type world struct {
	plan    plans.Plan
	random  *rand.Rand
	mutant  string
	gate    *gate.Gate
	moments int
	steps   int

	subjects events.Subjects
	replies  string // how the subjects of replies begin
	broker   *memory.Broker
	ledger   *storage.Ledger // as the checks read it
	garden   *memory.Gardener
	masters  []*servers.Master // new processes connect to the first
	former   []*servers.Master // masters until the faults ended: their decisions may count until a rebuild
	older    *servers.Master   // the copy that was saved last
	settings plans.Settings
	ranges   atomic.Pointer[network.Config]
	pools    []engine.Pool

	processes    []*process
	incarnations int
	armed        []armed        // faults that wait for a call
	barred       map[string]int // by binding: moments until Gardener takes writes on it again
	healing      bool

	truth     truth
	tally     map[string]int // by binding: its count less its runtimes, for consistent
	befell    map[plans.Kind]int
	called    map[string]int          // by operation
	known     map[string]events.Reply // decoded replies, by their bytes
	trace     trace.Trace
	violation string
}

func newWorld(plan plans.Plan, mutant string) *world {
	w := &world{
		plan: plan, mutant: mutant, random: rand.New(rand.NewPCG(plan.Seed, 1)), gate: gate.New(),
		tally: map[string]int{}, befell: map[plans.Kind]int{}, called: map[string]int{}, known: map[string]events.Reply{}, barred: map[string]int{}, masters: []*servers.Master{servers.NewMaster("redis-a")},
		pools:    []engine.Pool{{HyperscalerType: "aws"}, {HyperscalerType: "gcp"}},
		settings: plans.Settings{Limit: plan.Limit, Timeout: 2 * time.Minute},
	}
	w.trace.Steps = make([]trace.Step, 0, 2048)
	w.truth.init()
	var err error
	w.subjects, err = events.NewSubjects("")
	w.must(err)
	w.replies = w.subjects.Prefix() + ".reply."
	// Not a multiple of the interval of in-progress signals: otherwise a signal could come at the instant when
	// the wait ends.
	w.broker, err = memory.NewBroker(storage.Options{AckWait: 30*time.Second + time.Nanosecond})
	w.must(err)
	w.ledger = storage.NewLedgerOn(w.broker, w.subjects, "/simulation")
	if plan.Networks {
		w.ranges.Store(plans.NetworkRules(0))
	}
	w.garden = memory.NewGardener("garden", "CredentialsBinding")
	w.garden.OnChange(w.labelled)
	for n := range plan.Bindings {
		w.garden.Put(engine.Binding{Name: fmt.Sprintf("b-%d", n+1), HyperscalerType: w.pools[min(1, n%3/2)].HyperscalerType})
	}
	w.broker.Listen("_INBOX.>", w.told)
	return w
}

// must panics if err is not nil: such an error is a fault of the simulation itself.
func (w *world) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("seed %d: %v", w.plan.Seed, err))
	}
}

// off reports whether the mutant switches this rule off.
func (w *world) off(rule string) bool { return w.mutant == rule }

// Config is the current network configuration, nil in a plan without network ranges.
func (w *world) Config() *network.Config { return w.ranges.Load() }

// store publishes a message of a process, unless a mutant drops it, and checks a reply that was stored.
func (w *world) store(ctx context.Context, msg *nats.Msg) (*jetstream.PubAck, error) {
	var reply events.Reply
	isReply := strings.HasPrefix(msg.Subject, w.replies)
	if isReply {
		reply = w.decoded(msg.Data)
	}
	if isReply && w.off("expect") { // without rule 11: a reply does not expect the last sequence of its subject
		msg.Header.Del(jetstream.ExpectedLastSubjSeqHeader)
	}
	if isReply && reply.Status == events.StatusSealed && w.off("seal") && reply.For == "" { // without rule 13 (b): no event is sealed
		return &jetstream.PubAck{}, nil
	}
	if isReply && reply.For != "" && w.off("take") { // without rule 11: a deprovision does not take its id
		expected, err := strconv.ParseUint(msg.Header.Get(jetstream.ExpectedLastSubjSeqHeader), 10, 64)
		return &jetstream.PubAck{Sequence: expected}, err
	}
	ack, err := w.broker.Publish(ctx, msg)
	switch {
	case err != nil || ack.Duplicate:
	case isReply:
		w.replied(msg.Subject, reply)
	default:
		w.buried(msg)
	}
	return ack, err
}

// decoded decodes a reply. Results are cached, since the same bytes are decoded several times.
func (w *world) decoded(data []byte) events.Reply {
	reply, known := w.known[string(data)]
	if !known {
		var err error
		reply, err = events.DecodeReply(data)
		w.must(err)
		w.known[string(data)] = reply
	}
	return reply
}

// pass lets some moments of virtual time pass.
func (w *world) pass(moments int) {
	w.moments += moments
	w.note("", trace.Time, "", "")
	time.Sleep(time.Duration(moments) * moment)
	synctest.Wait()
	w.gate.Moment(moments)
	for _, p := range w.processes {
		p.lagging = max(0, p.lagging-moments)
	}
	for b, left := range w.barred {
		w.barred[b] = max(0, left-moments)
	}
}

// alive returns the running processes, in the order of their starts.
func (w *world) alive() (alive []*process) {
	for _, p := range w.processes {
		if !p.dead.Load() && !p.ended.Load() {
			alive = append(alive, p)
		}
	}
	return alive
}

// step makes one decision of the scheduler. It returns false if nothing could happen, so that only time
// passed.
func (w *world) step() bool {
	w.settle()
	w.steps++
	choices := w.gate.Choices(time.Now())
	beside := w.beside(choices)
	n := len(choices) + len(beside)
	if n == 0 {
		w.pass(1 + w.random.IntN(6))
		return false
	}
	if !w.healing && w.random.IntN(w.plan.Hurry) == 0 {
		w.pass(1)
		return true
	}
	if i := w.random.IntN(n); i < len(choices) {
		w.proceed(choices[i])
	} else {
		beside[i-len(choices)]()
	}
	return true
}

// beside returns the possible steps that are no calls: watch events, sweeps, marks and wakes.
func (w *world) beside(choices []*call) (steps []func()) {
	for _, p := range w.processes {
		if p.dead.Load() || p.ended.Load() || w.gate.Held(p) {
			continue
		}
		sweeping := false
		for _, c := range choices {
			sweeping = sweeping || c.Actor == p.sweeper()
		}
		if len(p.watched) > 0 && p.lagging == 0 && !w.gate.Busy(p.sweeper()) {
			steps = append(steps, func() { w.note(p.name, "sees the label of", p.watched[0].binding.Name, ""); p.bring() })
		}
		if !sweeping && !time.Now().Before(p.nextSweep) {
			steps = append(steps, func() { w.note(p.name, "looks at all labels", "", ""); p.sweep() })
		}
		if !w.healing && !time.Now().Before(p.nextServe) { // at rest, sweeps wake often enough
			steps = append(steps, func() { p.nextServe = time.Now().Add(serveEvery); p.worker.Look() })
		}
		if !sweeping && len(p.marks) > 0 {
			steps = append(steps, func() { w.note(p.name, "marks what drains", "", ""); p.mark() })
		}
	}
	return steps
}

// proceed advances the call that the scheduler has chosen. A call that has taken effect before returns its answer.
// Any other call takes effect, is refused, is lost, or meets a fault.
func (w *world) proceed(c *call) {
	w.called[c.Op]++
	switch {
	case c.Done:
		w.release(c, c.Outcome, "the answer arrives")
	case c.Left && w.random.IntN(2) == 0:
		w.gate.Take(c)
		w.note(c.Actor, c.Op, c.Arg, "is lost, its caller waits no more")
	case c.Left:
		w.gate.Take(c)
		w.befell[plans.EffectLate]++
		w.effect(c, "takes effect after its caller has given up")
	case w.gate.IsDown(c.By, c.Port) && c.Op == opAsk:
		w.gate.Park(c, 1) // what is published does not reach the process
	case w.gate.IsDown(c.By, c.Port):
		w.release(c, c.Port.Refused(), c.Op+" is refused: "+string(c.Port)+" is down")
	case w.full(c):
		if w.off("half") && c.Op == opLocateAndAssign { // without rule 1: a script that fails has written a part
			w.effect(c, "half of it")
		}
		w.release(c, gate.ErrFull, c.Op+" is refused: Redis is full")
	case w.struck(c):
	default:
		w.effect(c, "")
		if w.random.IntN(6) == 0 {
			w.gate.Finish(c)
			return
		}
		w.release(c, c.Outcome, "")
	}
}

// full reports whether Redis refuses the call because its memory is full.
func (w *world) full(c *call) bool {
	return c.Port == gate.Redis && c.Write && w.gate.IsDown(nil, gate.RedisWrites)
}

// effect executes a call.
func (w *world) effect(c *call, how string) {
	c.Outcome = c.Do()
	if c.Outcome != nil {
		how += ": " + c.Outcome.Error()
	}
	w.note(c.Actor, c.Op, c.Arg, how)
	p, _ := c.By.(*process)
	if c.Op == opParents {
		p.again()
	}
	if c.Actor == p.rebuilds {
		p.rebuilding = c.Op != opBuilt && (p.rebuilding || c.Write)
	}
	if c.Port == gate.Redis && c.Write {
		w.consistent(p.redis.Load())
	}
	if c.Op == opAssign || c.Op == opLocateAndAssign || c.Op == opInstall {
		w.located(p.redis.Load())
	}
	if strings.HasPrefix(c.Op, opInstall) {
		w.truth.changed, w.truth.installed = w.moments, w.steps
	}
}

// release lets the caller continue with err.
func (w *world) release(c *call, err error, how string) {
	if how != "" {
		w.note(c.Actor, c.Op, c.Arg, how)
	}
	if p, _ := c.By.(*process); c.Actor == p.extends {
		p.stumbled = p.stumbled || err != nil && !errors.Is(err, jetstream.ErrMsgNotFound)
	}
	w.gate.Release(c, err)
}

// end stops everything that runs in the bubble.
func (w *world) end() {
	w.gate.End()
	var running sync.WaitGroup
	for _, p := range w.processes {
		p.cancel()
		running.Go(p.worker.Stop)
	}
	running.Wait()
	w.broker.Close()
}

// note adds a line to the trace.
func (w *world) note(actor, op, arg, how string) {
	w.trace.Note(trace.Step{At: time.Duration(w.moments) * moment, Actor: actor, Op: op, Arg: arg, How: how})
}

// bad records a violation of an invariant. Violations after the first are ignored.
func (w *world) bad(invariant, format string, args ...any) {
	if w.violation == "" {
		w.violation = invariant + ": " + fmt.Sprintf(format, args...)
		w.note("", w.violation, "", "")
	}
}
