package simulation

import (
	"context"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
)

const (
	// calm is longer than two looks at the labels of each pool, and every pause of a retry, in moments: what changes in Redis alone
	// does not begin it anew.
	calm = 45
	// patience is how many moments everything may take to come to rest: more than the longest waiting.
	patience = 1000
	// tireless is how many steps it may take.
	tireless = 30_000
)

// rest ends all faults, lets everything come to rest, and checks that nothing is left undone.
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

// wanted asks for what nothing else asks for, and reports whether there is any: blocks that a
// handling took for a runtime which went meanwhile, and could not return, are found by a pass
// over the network ranges; a pool whose last binding is gone is built when a request asks for it. A
// cluster is deleted whose deprovision was accepted since the faults ended.
func (w *world) wanted() bool {
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
	return w.plan.Networks || len(empty)+len(left) > 0
}

// comeToRest plays on until nothing changes any more.
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

// unsettled is how many events are in their stream.
func (w *world) unsettled() uint64 {
	state, err := w.broker.State(context.Background(), events.StreamEvents)
	w.must(err)
	return state.Msgs
}

// moving reports whether a request came in too lately for a pool that its rule does not lead to, and so may
// still leave it (rule 16).
func (w *world) moving() bool {
	return slices.ContainsFunc(w.waiting(), func(r events.WaitingRequest) bool {
		return r.Pool != w.leads(r.Event.Provision.Plan) && time.Since(r.Entered) < 2*time.Minute
	})
}

// heal ends all faults.
func (w *world) heal() {
	synctest.Wait()
	w.note("", "all faults end", "", "")
	w.healing = true
	w.armed = nil
	w.gate.AllUp()
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

// atRest checks what has to be so where nothing is in work: I6, I7, I8, and that Redis,
// the labels and the ledger say the same.
func (w *world) atRest() {
	t := &w.truth
	for _, q := range t.requests {
		if _, final := t.final[q.subject]; !final && !q.excused && !t.buried[q.sequence] && !w.waits(q) {
			w.bad("I8 NothingLost", "%s %s has no final answer, does not wait and is no dead letter", q.event.Type, q.event.ID)
		}
	}
	w.consistent(w.masters[0])
	for _, pool := range w.pools {
		w.poolAtRest(pool)
	}
	w.runtimesAtRest()
	w.waitingAtRest()
	w.blocksAtRest()
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

func (w *world) waiting() (all []events.WaitingRequest) {
	room := events.NewWaitingRoomOn(w.broker, w.subjects)
	w.must(room.Each(context.Background(), func(r events.WaitingRequest) error {
		all = append(all, r)
		return nil
	}))
	return all
}

// waitingAtRest checks that no waiting request could be served.
func (w *world) waitingAtRest() {
	for _, r := range w.waiting() {
		deadline, told := w.truth.deadlines[r.Event.ReplySubject(w.subjects)]
		if told && time.Now().After(deadline.Add(time.Minute)) {
			w.bad("I8 NothingLost", "%s waits beyond its deadline", r.Event.ID)
		}
		if w.truth.excused[r.Event.RuntimeID] {
			continue
		}
		if led := w.leads(r.Event.Provision.Plan); r.Pool != led {
			w.bad("I8 NothingLost", "%s waits for pool %s, and its rule leads to %s", r.Event.ID, r.Pool, led)
		}
		if w.networkFull(r.Event.RuntimeID) {
			continue
		}
		free := w.bindings(func(b engine.Binding) bool {
			rec, err := w.masters[0].counters.Binding(context.Background(), r.Pool, b.Name)
			return err == nil && b.Pool().Name() == r.Pool && b.Tenant == "" && !b.Dirty && !b.HeldBack() && rec.State == account.Free
		})
		if len(free) > 0 && !w.holdsBack(r) {
			w.bad("I8 NothingLost", "%s waits, and %s is free", r.Event.ID, free[0].Name)
		}
	}
}

// leads is the pool that the rule of a plan names.
func (w *world) leads(plan string) string {
	match, err := w.settings.Decisions().Rules().Match(rule.Request{Plan: plan})
	w.must(err)
	return match.Pool.Name()
}

// networkFull reports whether there are no blocks for a runtime.
func (w *world) networkFull(runtime string) bool {
	if !w.plan.Networks {
		return false
	}
	_, err := w.masters[0].ranges.Copy().Acquire(context.Background(), runtime, "probe", w.Config().Rules)
	return err != nil
}

// holdsBack reports whether rule 3 keeps a tenant from a free account: it may have one
// only, and has one that is cordoned or was taken from under it.
func (w *world) holdsBack(r events.WaitingRequest) bool {
	return slices.ContainsFunc(w.bindings(func(b engine.Binding) bool { return w.truth.edited[b.Name] }), func(b engine.Binding) bool {
		rec, _ := w.masters[0].counters.Binding(context.Background(), r.Pool, b.Name)
		return b.Tenant == r.Event.Provision.GlobalAccountID || rec.Tenant == r.Event.Provision.GlobalAccountID
	})
}

// runtimesAtRest compares the runtimes of Redis with the ledger.
func (w *world) runtimesAtRest() {
	ctx := context.Background()
	inRedis := map[string]string{}
	for _, pool := range w.pools {
		for rt, err := range w.masters[0].counters.Runtimes(ctx, pool.Name()) {
			if err != nil {
				w.bad("I8 NothingLost", "pool %s is not built", pool.Name())
				return
			}
			if rt.State == account.RuntimeAssigned {
				if was := inRedis[rt.ID]; was != "" {
					w.bad("I1 OneBinding", "runtime %s is on %s and on %s in Redis", rt.ID, was, rt.Binding)
				}
				inRedis[rt.ID] = rt.Binding
			}
		}
	}
	for _, id := range plans.Runtimes {
		if w.truth.excused[id] || w.waitsForBlocks(id) { // it may have an account until its deadline: rule 12
			continue
		}
		force := ""
		if r := w.truth.force[id]; r.Status == events.StatusAssigned {
			force = r.Binding.Name
		}
		if inRedis[id] != force {
			w.bad("I6 CountsTrue", "runtime %s is on %q in the ledger and on %q in Redis", id, force, inRedis[id])
		}
	}
}

// waitsForBlocks reports whether a request of a runtime waits, and there are no blocks for it.
func (w *world) waitsForBlocks(runtime string) bool {
	return w.networkFull(runtime) && slices.ContainsFunc(w.waiting(), func(r events.WaitingRequest) bool { return r.Event.RuntimeID == runtime })
}

// heldForBlocks reports whether all runtimes of a binding wait for blocks.
func (w *world) heldForBlocks(binding string) bool {
	on := slices.DeleteFunc(w.runtimesOn(binding), func(rt account.NamedRuntime) bool { return rt.State != account.RuntimeAssigned })
	return len(on) > 0 && !slices.ContainsFunc(on, func(rt account.NamedRuntime) bool { return !w.waitsForBlocks(rt.ID) })
}

// poolAtRest compares the records of a pool with the labels.
func (w *world) poolAtRest(pool engine.Pool) {
	records := map[string]account.Record{}
	for b, err := range w.masters[0].counters.Bindings(context.Background(), pool.Name()) {
		if err != nil {
			return // runtimesAtRest says so
		}
		records[b.Binding] = b.Record
	}
	for _, b := range w.bindings(func(b engine.Binding) bool { return b.Pool() == pool }) {
		r := records[b.Name]
		if (w.truth.edited[b.Name] || w.excusedOn(b.Name)) && r.Count > 0 {
			continue // a drift that is reported
		}
		switch free := r.State == "" || r.State == account.Free; {
		case b.Dirty && r.State != account.Dirtying:
			w.bad("I5 NoDirty", "%s is dirty, its record is %+v", b.Name, r)
		case b.Dirty:
		case r.State == account.Claiming && b.Tenant == "" && w.heldForBlocks(b.Name):
			// Its label is written once there are blocks for a request: rule 12.
		case b.Tenant == "" && !free:
			w.bad("I6 CountsTrue", "%s is unclaimed, its record is %+v", b.Name, r)
		case b.Tenant != "" && (r.Tenant != b.Tenant || free || r.State == account.Dirtying):
			w.bad("I6 CountsTrue", "%s is labelled %s, its record is %+v", b.Name, b.Tenant, r)
		case r.State == account.Draining:
			if !w.shootOn(b.Name) { // rule 8
				w.bad("I8 NothingLost", "%s drains for ever: %+v", b.Name, r)
			}
		case b.Tenant != "" && r.Count == 0 && w.left(b):
			w.bad("I8 NothingLost", "%s is idle for ever, and the last cluster of its claim is gone: %+v", b.Name, r)
		}
	}
}

// left reports whether runtimes were answered with this claim of a binding and are gone.
func (w *world) left(b engine.Binding) bool {
	return !w.truth.edited[b.Name] && slices.ContainsFunc(w.truth.all, func(l *life) bool {
		return l.binding == b.Name && l.tenant == b.Tenant && l.generation == b.Generation && l.leaves && !w.truth.excused[l.runtime]
	})
}

// excusedOn reports whether Redis has a runtime on a binding whose event was taken away
// by hand.
func (w *world) excusedOn(binding string) bool {
	return slices.ContainsFunc(w.runtimesOn(binding), func(rt account.NamedRuntime) bool { return w.truth.excused[rt.ID] })
}

// runtimesOn are those whose records in Redis name a binding.
func (w *world) runtimesOn(binding string) (on []account.NamedRuntime) {
	for _, pool := range w.pools {
		for rt, err := range w.masters[0].counters.Runtimes(context.Background(), pool.Name()) {
			if err == nil && rt.Binding == binding {
				on = append(on, rt)
			}
		}
	}
	return on
}

func (w *world) shootOn(binding string) bool {
	found, err := w.garden.Refers(context.Background(), binding)
	w.must(err)
	return found
}

// blocksAtRest checks that Redis has the network blocks of the runtimes that are there.
func (w *world) blocksAtRest() {
	if !w.plan.Networks {
		return
	}
	state, err := w.masters[0].ranges.State(context.Background())
	if err != nil {
		w.bad("I8 NothingLost", "the network ranges are not built")
		return
	}
	held := map[string]bool{}
	for _, r := range state.Records {
		held[r.Cluster] = true
		if w.passedOver(r.Cluster) {
			continue
		}
		if force := w.truth.force[r.Cluster]; force.Status != events.StatusAssigned && !w.truth.excused[r.Cluster] {
			w.bad("I9 NoOverlap", "runtime %s has blocks in Redis and is not there: %s", r.Cluster, strings.Join(r.Requests, " "))
		}
	}
	for id, force := range w.truth.force {
		if force.Status == events.StatusAssigned && len(force.Network) > 0 && !held[id] && !w.truth.excused[id] {
			w.bad("I9 NoOverlap", "runtime %s has blocks in the ledger and none in Redis", id)
		}
	}
}

// passedOver reports whether a runtime waits behind another of its tenant: no worker looks at
// it before its turn or its deadline, so none returns the blocks of a handling that was stopped.
func (w *world) passedOver(runtime string) bool {
	all := w.waiting()
	at := slices.IndexFunc(all, func(r events.WaitingRequest) bool { return r.Event.RuntimeID == runtime })
	return at >= 0 && slices.ContainsFunc(all, func(r events.WaitingRequest) bool {
		return r.Event.RuntimeID != runtime && r.Pool == all[at].Pool && r.Event.Provision.GlobalAccountID == all[at].Event.Provision.GlobalAccountID
	})
}
