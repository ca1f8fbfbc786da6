package simulation

import (
	"context"
	"maps"
	"slices"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
	"github.com/hap-worker/hap-worker/worker/simulation/promises"
)

const (
	// calm, in moments, is longer than two sweeps of each pool and than the pauses of retries. Changes in
	// Redis alone do not restart it, except installs.
	calm = 45
	// patience is how many moments the world may take to come to rest: more than the longest deadline.
	patience = 1000
	// tireless is how many steps the world may take to come to rest.
	tireless = 30_000
)

// rest ends all faults, plays on until nothing changes, and checks that nothing is left undone.
func (w *world) rest() {
	w.heal()
	w.comeToRest()
	if w.wanted() && w.violation == "" {
		w.comeToRest()
	}
	synctest.Wait()
	if w.violation == "" {
		w.atRest()
	}
}

// wanted triggers work that nothing else may trigger, and reports whether there was any. A pass over the network
// ranges finds blocks that a handler acquired for a runtime that left meanwhile, and could not return. An audit takes
// back what a rejected request holds (rule 11), if its event was deleted before a worker could do so. Workers
// need not rebuild a pool without bindings before it is asked for. wanted also deletes the Shoots of runtimes that
// were deprovisioned since the faults ended.
func (w *world) wanted() bool {
	if w.truth.unread {
		w.alive()[0].audit()
	}
	for _, p := range w.alive() {
		if w.plan.Networks {
			passes{p}.Wanted()
		}
	}
	empty := slices.DeleteFunc(slices.Clone(w.pools), func(pool engine.Pool) bool {
		return len(w.bindings(func(b engine.Binding) bool { return b.Pool() == pool })) > 0
	})
	for _, pool := range empty {
		asker{w.alive()[0]}.Wanted(pool.Name())
	}
	left := w.leftShoots()
	w.deleteShoots(left...)
	return w.plan.Networks || w.truth.unread || len(empty)+len(left) > 0
}

// comeToRest plays on until nothing has changed for calm moments, no event is unsettled and no request may still
// move, or until an invariant is violated. It reports a violation of I8 if that takes too long.
func (w *world) comeToRest() {
	began, steps := w.moments, w.steps
	w.truth.changed = w.moments
	for w.violation == "" {
		if more := w.step(); !more && w.moments-w.truth.changed > calm && w.unsettled() == 0 && !w.moving() {
			break
		}
		if w.moments-began > patience || w.steps-steps > tireless {
			w.bad("I8 NothingLost", "after %s and %d steps without faults %d events are not settled", (time.Duration(w.moments-began) * moment).Round(time.Second), w.steps-steps, w.unsettled())
		}
	}
}

// unsettled is the number of events in their stream.
func (w *world) unsettled() uint64 {
	state, err := w.broker.State(context.Background(), events.StreamEvents)
	w.must(err)
	return state.Msgs
}

// moving reports whether a recent request waits for a pool that its rule no longer leads to: it may still
// move (rule 16).
func (w *world) moving() bool {
	return slices.ContainsFunc(w.waiting(), func(r storage.WaitingRequest) bool {
		return r.Pool != w.leads(r.Event.Provision.Plan) && time.Since(r.Entered) < 2*time.Minute
	})
}

// heal ends all faults, and deletes the Shoots of runtimes that were deprovisioned.
func (w *world) heal() {
	synctest.Wait()
	w.note("", "all faults end", "", "")
	w.healing = true
	w.armed = nil
	w.gate.AllUp()
	clear(w.barred)
	w.gate.Moment(1 << 20)
	w.must(w.broker.Setup())
	w.former = append(w.former, w.masters[1:]...)
	w.masters = w.masters[:1]
	if w.settings.Timeout == 0 {
		w.settings.Timeout = time.Minute
		w.reconfigure(plans.Item{M: 1})
	}
	for _, p := range w.alive() {
		p.takeUp()
		p.lagging = 0
		p.redis.Store(w.masters[0])
		p.skew.Store(0)
	}
	w.deleteShoots(w.leftShoots()...)
	if len(w.alive()) == 0 {
		w.processes = append(w.processes, w.start(1))
	}
}

// atRest checks what must hold when nothing is in flight: every request is answered, waits or is a dead
// letter, none waits that could be served (I8), and Redis, labels, ledger and network ranges agree (I1, I5,
// I6, I9). The checks in truth.go cover I7, whenever a reply is stored.
func (w *world) atRest() {
	t := &w.truth
	for _, q := range t.requests {
		if _, final := t.final[q.subject]; !final && !q.excused && !t.buried[q.sequence] && !w.waits(q) {
			w.bad("I8 NothingLost", "%s %s has no final answer, does not wait and is no dead letter", q.event.Type, q.event.ID)
		}
	}
	facts, built := w.facts()
	if !built {
		return
	}
	facts.Counts(w.bad)
	facts.Labels(w.bad)
	facts.Blocks(w.bad)
	w.waitingAtRest()
}

// facts reads all stores, and the replies from truth. built is false if a pool or the network ranges are not built (I8).
func (w *world) facts() (f promises.Facts, built bool) {
	ctx, t, m := context.Background(), &w.truth, w.masters[0]
	f = promises.Facts{
		InForce: map[string]events.Reply{}, Answered: map[promises.Claim]bool{}, Bindings: map[string]engine.Binding{},
		Records: map[promises.In]account.Record{}, Runtimes: map[string][]promises.Runtime{},
		Exceptions: promises.Exceptions{Edited: t.edited, Excused: t.excused, Waits: map[string]bool{}, Passed: map[string]bool{}},
	}
	for _, b := range w.bindings(func(engine.Binding) bool { return true }) {
		f.Bindings[b.Name] = b
	}
	w.must(w.garden.Shoots(ctx, func(s engine.Shoot) error {
		f.Shoots = append(f.Shoots, s)
		return nil
	}))
	for _, pool := range w.pools {
		err := m.Counters.Each(ctx, pool.Name(), func(name string, rec account.Record) { f.Records[promises.In{Pool: pool.Name(), Binding: name}] = rec }, func(id string, rt account.Runtime) {
			f.Runtimes[id] = append(f.Runtimes[id], promises.Runtime{Pool: pool.Name(), Runtime: rt})
		})
		if err != nil {
			w.bad("I8 NothingLost", "pool %s is not built", pool.Name())
			return f, false
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.force)) {
		if r := t.force[id]; r.Status == events.StatusAssigned {
			f.InForce[id] = r
			f.Given = append(f.Given, t.given[id]...)
		}
	}
	for _, l := range t.all {
		if l.leaves && !t.excused[l.runtime] && !t.edited[l.binding] {
			f.Answered[promises.Claim{Binding: l.binding, Generation: l.generation}] = true
		}
	}
	if w.plan.Networks {
		state, err := m.Ranges.State(ctx)
		if err != nil {
			w.bad("I8 NothingLost", "the network ranges are not built")
			return f, false
		}
		// A rule may be removed before its block is answered. The runtime keeps the block until it leaves.
		f.Held = slices.DeleteFunc(promises.Held(state), func(b promises.Block) bool {
			given := slices.Contains(f.Given, b) || slices.ContainsFunc(w.Config().Rules, func(r network.Rule) bool { return r.ID == b.Rule })
			return f.InForce[b.Runtime].Binding != nil && !given
		})
	}
	for _, r := range w.waiting() {
		id := r.Event.RuntimeID
		f.Waits[id] = f.Waits[id] || w.networkFull(id)
		f.Passed[id] = f.Passed[id] || w.passedOver(id)
	}
	return f, true
}

func (w *world) waits(q *request) bool {
	if q.event.Provision == nil {
		return false
	}
	for _, r := range w.waiting() {
		if r.Event.ID == q.event.ID && r.Event.RuntimeID == q.event.RuntimeID {
			return true
		}
	}
	return false
}

func (w *world) waiting() (all []storage.WaitingRequest) {
	room := storage.NewWaitingRoomOn(w.broker, w.subjects)
	w.must(room.Each(context.Background(), func(r storage.WaitingRequest) error {
		all = append(all, r)
		return nil
	}))
	return all
}

// waitingAtRest checks that each waiting request is in the pool that its rule leads to, that its deadline did
// not pass over a minute ago, and that no free account could serve it. It exempts what the rules permit.
func (w *world) waitingAtRest() {
	for _, r := range w.waiting() {
		deadline, told := w.truth.deadlines[r.Event.ReplySubject(w.subjects)]
		if told && time.Now().After(deadline.Add(time.Minute)) {
			w.bad("I8 NothingLost", "%s waits beyond its deadline", r.Event.ID)
		}
		if w.truth.excused[r.Event.RuntimeID] {
			continue
		}
		if led := w.leads(r.Event.Provision.Plan); r.Pool != led && !w.stays(r) {
			w.bad("I8 NothingLost", "%s waits for pool %s, and its rule leads to %s", r.Event.ID, r.Pool, led)
		}
		if w.networkFull(r.Event.RuntimeID) {
			continue
		}
		free := w.bindings(func(b engine.Binding) bool {
			rec, err := w.masters[0].Counters.Binding(context.Background(), r.Pool, b.Name)
			return err == nil && b.Pool().Name() == r.Pool && b.Tenant == "" && !b.Dirty && !b.HeldBack() && rec.State == account.Free &&
				rec.Count == 0 // else another check says whether the runtimes on it are there (I6)
		})
		if len(free) > 0 && !w.holdsBack(r) {
			w.bad("I8 NothingLost", "%s waits, and %s is free", r.Event.ID, free[0].Name)
		}
	}
}

// stays reports whether the request waits for network blocks, and its runtime has an account in the request's
// pool or is gone there. Such a request moves to no other pool (rule 16): it is answered when there are
// blocks for it, or at its deadline.
func (w *world) stays(r storage.WaitingRequest) bool {
	rt, err := w.masters[0].Counters.RuntimeIn(context.Background(), r.Pool, r.Event.RuntimeID)
	return err == nil && w.networkFull(r.Event.RuntimeID) && (rt.State == account.RuntimeGone || rt.State == account.RuntimeAssigned)
}

// leads returns the pool that a plan's rule leads to.
func (w *world) leads(plan string) string {
	match, err := w.settings.Decisions().Rules().Match(rule.Request{Plan: plan})
	w.must(err)
	return match.Pool.Name()
}

// networkFull reports whether no blocks are left for a runtime.
func (w *world) networkFull(runtime string) bool {
	if !w.plan.Networks {
		return false
	}
	_, err := w.masters[0].Ranges.Copy().Acquire(context.Background(), runtime, "probe", w.Config().Rules)
	return err != nil
}

// holdsBack reports whether rule 3 may keep the tenant from a free account, since an account of the tenant must not
// gain runtimes: it was changed by hand (also cordoned), or a deprovision marked it dirty, and a rebuild counts the
// runtime again because an event of the runtime was deleted by hand.
func (w *world) holdsBack(r storage.WaitingRequest) bool {
	tenant := r.Event.Provision.GlobalAccountID
	barred := func(b engine.Binding) bool {
		return w.truth.edited[b.Name] || b.Dirty && w.countsDeparted(r.Pool, b.Name)
	}
	return slices.ContainsFunc(w.bindings(barred), func(b engine.Binding) bool {
		rec, _ := w.masters[0].Counters.Binding(context.Background(), r.Pool, b.Name)
		return b.Tenant == tenant || rec.Tenant == tenant
	})
}

// countsDeparted reports whether Redis counts on a binding a runtime that leaves and is excused.
func (w *world) countsDeparted(pool, binding string) bool {
	for _, l := range w.truth.all {
		if !l.leaves || !w.truth.excused[l.runtime] {
			continue
		}
		if rt, err := w.masters[0].Counters.RuntimeIn(context.Background(), pool, l.runtime); err == nil && rt.State == account.RuntimeAssigned && rt.Binding == binding {
			return true
		}
	}
	return false
}

// passedOver reports whether a runtime waits, and another runtime of its tenant waits for the same pool.
// Workers may then try this runtime only at its turn or its deadline, so the blocks of an interrupted attempt
// stay acquired until then.
func (w *world) passedOver(runtime string) bool {
	all := w.waiting()
	at := slices.IndexFunc(all, func(r storage.WaitingRequest) bool { return r.Event.RuntimeID == runtime })
	return at >= 0 && slices.ContainsFunc(all, func(r storage.WaitingRequest) bool {
		return r.Event.RuntimeID != runtime && r.Pool == all[at].Pool && r.Event.Provision.GlobalAccountID == all[at].Event.Provision.GlobalAccountID
	})
}
