package checker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/simulation/promises"
)

const pool = "aws"

func record(binding string) promises.In { return promises.In{Pool: pool, Binding: binding} }

// at is the n-th second of the fabricated run.
func at(n int) time.Time { return time.Unix(int64(1000+n), 0) }

// world returns a consistent system: ga-1 has rt-1 and rt-2 on b-1; ga-2 had rt-3 on b-2, which is cleaned
// and free again.
type world struct{ Facts }

func newWorld() *world {
	w := &world{Facts{
		Replies: map[string]events.Reply{},
		Facts: promises.Facts{
			Bindings: map[string]engine.Binding{
				"b-1": {Name: "b-1", HyperscalerType: pool, Tenant: "ga-1", Generation: 1},
				"b-2": {Name: "b-2", HyperscalerType: pool, Generation: 1},
			},
			Records: map[promises.In]account.Record{
				{Pool: pool, Binding: "b-1"}: {State: account.InUse, Tenant: "ga-1", Generation: 1, Confirmed: true, Count: 2},
			},
			Runtimes: map[string][]promises.Runtime{
				"rt-1": {{Pool: pool, Runtime: account.Runtime{State: account.RuntimeAssigned, Binding: "b-1", Tenant: "ga-1"}}},
				"rt-2": {{Pool: pool, Runtime: account.Runtime{State: account.RuntimeAssigned, Binding: "b-1", Tenant: "ga-1"}}},
				"rt-3": {{Pool: pool, Runtime: account.Runtime{State: account.RuntimeGone, Binding: "b-2", Tenant: "ga-2"}}},
			},
			Shoots: []engine.Shoot{{Name: "c-1", Binding: "b-1", RuntimeID: "rt-1"}, {Name: "c-2", Binding: "b-1", RuntimeID: "rt-2"}},
		},
		Dead:      map[uint64]bool{7: true},
		Published: map[string]map[string]string{},
		Watched: &Watched{
			Labels: map[string][]Label{
				"b-1": {{At: at(0)}, {At: at(1), Tenant: "ga-1", Generation: 1}},
				"b-2": {
					{At: at(0)}, {At: at(3), Tenant: "ga-2", Generation: 1},
					{At: at(5), Tenant: "ga-2", Dirty: true, Generation: 1}, {At: at(6), Generation: 1},
				},
			},
			Departed: map[string]time.Time{"rt-3": at(4)},
			Clusters: []Cluster{{Runtime: "rt-1", Binding: "b-1"}, {Runtime: "rt-2", Binding: "b-1"}, {Runtime: "rt-3", Binding: "b-2", Gone: at(4)}},
		},
		Unreadable: []uint64{7},
	}}
	w.answer(1, "rt-1", "ga-1", "b-1", 1)
	w.answer(2, "rt-2", "ga-1", "b-1", 2)
	w.answer(3, "rt-3", "ga-2", "b-2", 1)
	w.leaves(4, "rt-3", "ga-2")
	return w
}

func (w *world) store(sequence int64, r events.Reply) {
	subject := "hap.v1.reply." + r.RuntimeID + "." + r.RequestID
	w.Replies[subject] = r
	w.Watched.Stored = append(w.Watched.Stored, events.Stored{Reply: r, Subject: subject, Sequence: uint64(sequence), Time: at(int(sequence))})
	if w.Published[r.RuntimeID] == nil {
		w.Published[r.RuntimeID] = map[string]string{}
	}
	w.Published[r.RuntimeID][r.RequestID] = subject
}

func (w *world) answer(sequence int64, runtime, tenant, binding string, clusters int) {
	w.store(sequence, events.Reply{
		RequestID: "req-" + runtime + "-" + binding, RuntimeID: runtime, Status: events.StatusAssigned, GlobalAccountID: tenant, Limit: 2,
		Clusters: &clusters, Binding: &events.Binding{Name: binding, Generation: 1},
		Decision: &events.Decision{Sequence: sequence, Pool: pool},
	})
}

func (w *world) leaves(sequence int64, runtime, tenant string) {
	w.store(sequence, events.Reply{
		RequestID: "bye-" + runtime, RuntimeID: runtime, Status: events.StatusReleased, GlobalAccountID: tenant,
		Decision: &events.Decision{Sequence: sequence, Pool: pool},
	})
}

// relabel sets a binding's present labels, and appends them to its history.
func (w *world) relabel(name string, to Label) {
	b := w.Bindings[name]
	b.Tenant, b.Dirty, b.Generation = to.Tenant, to.Dirty, to.Generation
	w.Bindings[name] = b
	w.Watched.Labels[name] = append(w.Watched.Labels[name], to)
}

func TestInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if found := append(w.Violations(Terms{OneAccount: true}), w.Drift()...); len(found) > 0 {
		t.Errorf("a world in order: %v", found)
	}
}

// TestViolations breaks each invariant in each way that is looked for, and
// expects it to be told.
func TestViolations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		says  string
		wreck func(*world)
	}{
		{"answered with two bindings", "I1 OneBinding: runtime rt-1 was answered with", func(w *world) { w.answer(5, "rt-1", "ga-1", "b-2", 1) }},
		{"another binding in Redis", "I1 OneBinding: runtime rt-1 was answered b-1, Redis has b-2", func(w *world) { w.Runtimes["rt-1"][0].Binding = "b-2" }},
		{"assigned in two pools", "I1 OneBinding: runtime rt-1 is assigned in 2 pools", func(w *world) { w.Runtimes["rt-1"] = append(w.Runtimes["rt-1"], w.Runtimes["rt-1"][0]) }},
		{"a decision above the limit", "I2 WithinLimit: decision 5", func(w *world) { w.answer(5, "rt-4", "ga-1", "b-1", 2) }},
		{"told above the limit", "I2 WithinLimit: decision 5", func(w *world) { w.answer(5, "rt-4", "ga-2", "b-2", 3) }},
		{"another tenant's cluster", "I3 OneTenant: decision 2 of pool aws", func(w *world) {
			w.answer(2, "rt-2", "ga-2", "b-1", 2)
		}},
		{"another tenant's claim", "I3 OneTenant: claim 1 of b-1 was answered", func(w *world) { w.answer(2, "rt-2", "ga-2", "b-1", 2) }},
		{"serves two tenants", "I3 OneTenant: binding b-1 serves", func(w *world) { w.answer(2, "rt-2", "ga-2", "b-1", 2) }},
		{"another tenant's label", "I3 OneTenant: runtime rt-1 of ga-1 is on binding b-1, whose label", func(w *world) {
			w.relabel("b-1", Label{Tenant: "ga-9", Generation: 2})
		}},
		{"a tenant change", "I3 OneTenant: b-1 went from ga-1 to ga-9", func(w *world) { w.relabel("b-1", Label{Tenant: "ga-9", Generation: 2}) }},
		{"from dirty to clean", "I3 OneTenant: b-1 of ga-1 went from dirty to clean", func(w *world) {
			w.relabel("b-1", Label{Tenant: "ga-1", Generation: 1, Dirty: true})
			w.relabel("b-1", Label{Tenant: "ga-1", Generation: 1})
		}},
		{"undone after it was answered", "I3 OneTenant: b-1 lost its tenant", func(w *world) { w.relabel("b-1", Label{Generation: 1}) }},
		{"a generation that goes back", "I3 OneTenant: b-1 went from generation 1 back to 0", func(w *world) { w.relabel("b-1", Label{Tenant: "ga-1"}) }},
		{"an old generation for a new claim", "I3 OneTenant: b-2 was claimed for ga-3 under the generation 1", func(w *world) { w.relabel("b-2", Label{Tenant: "ga-3", Generation: 1}) }},
		{"a claim of another's generation", "I3 OneTenant: claim 1 of b-2 is labelled ga-3", func(w *world) { w.relabel("b-2", Label{Tenant: "ga-3", Generation: 1}) }},
		{"a binding that is gone", "I3 OneTenant: runtime rt-1 is on binding b-1, which Gardener does not have", func(w *world) { delete(w.Bindings, "b-1") }},
		{"a second account in the ledger", "I4 OneAccount: decision 5", func(w *world) { w.answer(5, "rt-4", "ga-1", "b-2", 1) }},
		{"a second account in the labels", "I4 OneAccount: tenant ga-1 has [b-1 b-2]", func(w *world) { w.relabel("b-2", Label{Tenant: "ga-1", Generation: 2}) }},
		{"a live runtime on a dirty binding", "I5 NoDirty: runtime rt-1 is on binding b-1, which is dirty", func(w *world) { w.relabel("b-1", Label{Tenant: "ga-1", Dirty: true, Generation: 1}) }},
		{"on an internal binding", "I5 NoDirty: runtime rt-1 is on binding b-1, which is internal", func(w *world) {
			b := w.Bindings["b-1"]
			b.Internal = true
			w.Bindings["b-1"] = b
		}},
		{"dirty before the deprovision", "I5 NoDirty: b-2 was dirty", func(w *world) { w.Watched.Departed["rt-3"] = at(6) }},
		{"dirty without a deprovision", "I5 NoDirty: b-2 was dirty", func(w *world) { delete(w.Watched.Departed, "rt-3") }},
		{"dirty under a Shoot", "under the Shoot of runtime rt-3", func(w *world) { w.Watched.Clusters[2].Gone = at(6) }},
		{"dirty under a Shoot that stays", "under the Shoot of runtime rt-3", func(w *world) { w.Watched.Clusters[2].Gone = time.Time{} }},
		{"a false count", "I6 CountsTrue: binding b-1 is counted 3", func(w *world) { count(w, 3) }},
		{"a runtime that the ledger lacks", "I6 CountsTrue: runtime rt-9 is on b-1 in Redis", func(w *world) { w.Runtimes["rt-9"] = w.Runtimes["rt-1"] }},
		{"a runtime that Redis lacks", "I6 CountsTrue: runtime rt-1 is on b-1 in the ledger", func(w *world) { delete(w.Runtimes, "rt-1") }},
		{"a runtime that is gone in Redis", "I6 CountsTrue: runtime rt-1 is on b-1 in the ledger", func(w *world) { w.Runtimes["rt-1"][0].State = account.RuntimeGone }},
		{"runtimes without a record", "I6 CountsTrue: binding b-1 has 2 runtimes in pool aws, and no record", func(w *world) { delete(w.Records, record("b-1")) }},
		{"adopted, without its Shoot", "I6 CountsTrue: runtime rt-9 is on b-1 in Redis", func(w *world) {
			w.Runtimes["rt-9"] = []promises.Runtime{{Pool: pool, Runtime: account.Runtime{State: account.RuntimeAssigned, Binding: "b-1", Origin: account.Adopted}}}
		}},
		{"not final", "I7 OneAnswer: request req-rt-1-b-1 of runtime rt-1 is left as waiting", func(w *world) {
			r := w.Replies["hap.v1.reply.rt-1.req-rt-1-b-1"]
			r.Status = events.StatusWaiting
			w.Replies["hap.v1.reply.rt-1.req-rt-1-b-1"] = r
		}},
		{"a final reply that was replaced", "I7 OneAnswer: hap.v1.reply.rt-1.req-rt-1-b-1 was answered assigned", func(w *world) {
			w.Watched.Stored = append(w.Watched.Stored, w.Watched.Stored[0])
		}},
		{"no reply", "I8 NothingLost: request req-x of runtime rt-1", func(w *world) { w.Published["rt-1"]["req-x"] = "hap.v1.reply.rt-1.req-x" }},
		{"no dead letter", "I8 NothingLost: the unreadable message 7", func(w *world) { w.Dead = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			c.wreck(w)
			expect(t, w.Violations(Terms{OneAccount: true}), c.says)
		})
	}
}

// TestDepartedBeforeItsNumber: a departure was lost by Redis before it was answered, and was decided anew
// after later decisions.
func TestDepartedBeforeItsNumber(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.Watched.Departed["rt-2"] = at(4)
	w.answer(5, "rt-4", "ga-1", "b-1", 2)
	w.leaves(6, "rt-2", "ga-1")
	for _, v := range w.Violations(Terms{OneAccount: true}) {
		if strings.HasPrefix(v, "I2") {
			t.Error(v)
		}
	}
	w.Watched.Departed["rt-2"] = at(6)
	expect(t, w.Violations(Terms{}), "I2 WithinLimit: decision 5")
}

// TestSurplus checks I2 by the record alone, with one limit for all tenants.
func TestSurplus(t *testing.T) {
	t.Parallel()
	expect(t, newWorld().Violations(Terms{Limit: 1}), "I2 WithinLimit: binding b-1 has 2 runtimes")
}

// TestSeveral lets a tenant of several accounts have them.
func TestSeveral(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.relabel("b-2", Label{Tenant: "ga-1", Generation: 2})
	w.answer(5, "rt-4", "ga-1", "b-2", 1)
	for _, v := range w.Violations(Terms{OneAccount: true, Several: map[string]bool{"ga-1": true}}) {
		if strings.HasPrefix(v, "I4") {
			t.Error(v)
		}
	}
}

// TestLeavingAccount has a tenant begin another account while Gardener has not yet marked dirty the one that it left.
func TestLeavingAccount(t *testing.T) {
	t.Parallel()
	for _, state := range []account.State{account.Draining, account.Dirtying} {
		w := newWorld()
		w.relabel("b-2", Label{Tenant: "ga-1", Generation: 2})
		w.Records[record("b-2")] = account.Record{State: state, Tenant: "ga-1", Generation: 2}
		for _, v := range w.Violations(Terms{OneAccount: true}) {
			if strings.HasPrefix(v, "I4") {
				t.Errorf("%s: %s", state, v)
			}
		}
		w.answer(5, "rt-4", "ga-1", "b-2", 1) // it has a runtime after all
		expect(t, w.Violations(Terms{OneAccount: true}), "I4 OneAccount: tenant ga-1 has [b-1 b-2]")
	}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		says  string
		wreck func(*world)
	}{
		{"dirty and not known so", "b-2 is dirty", func(w *world) { w.relabel("b-2", Label{Tenant: "ga-2", Dirty: true, Generation: 1}) }},
		{"held without a label", "b-2 is unclaimed", func(w *world) { w.Records[record("b-2")] = account.Record{State: account.Draining} }},
		{"labelled and free", "b-2 is labelled ga-3", func(w *world) { w.relabel("b-2", Label{Tenant: "ga-3", Generation: 2}) }},
		{"another tenant's record", "b-1 is labelled ga-8", func(w *world) { w.relabel("b-1", Label{Tenant: "ga-8", Generation: 1}) }},
		{"half-way to dirty", "b-1 is labelled ga-1", func(w *world) {
			w.Records[record("b-1")] = account.Record{State: account.Dirtying, Tenant: "ga-1", Count: 2}
		}},
		{"another generation", "b-1 is labelled with generation 2", func(w *world) { w.relabel("b-1", Label{Tenant: "ga-1", Generation: 2}) }},
		{"left behind", "b-2 drains for ever", func(w *world) {
			w.relabel("b-2", Label{Tenant: "ga-2", Generation: 1})
			w.Records[record("b-2")] = account.Record{State: account.Draining, Tenant: "ga-2", Generation: 1}
		}},
		{"a Shoot that nobody asked for", "the Shoot of runtime rt-3", func(w *world) { w.Shoots = append(w.Shoots, engine.Shoot{RuntimeID: "rt-3", Binding: "b-2"}) }},
		{"a record of no binding", "b-9 has the record", func(w *world) { w.Records[record("b-9")] = account.Record{} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			c.wreck(w)
			expect(t, w.Drift(), "drift: "+c.says)
		})
	}
}

// TestIdle distinguishes a claim that no publisher was told of from one that was left behind.
func TestIdle(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.relabel("b-2", Label{Tenant: "ga-2", Generation: 2})
	w.Records[record("b-2")] = account.Record{State: account.InUse, Tenant: "ga-2", Generation: 2}
	if found := w.Drift(); len(found) > 0 {
		t.Error(found)
	}
	if idle := w.Idle(); !slices.Equal(idle, []string{"b-2"}) {
		t.Errorf("idle are %v", idle)
	}
}

func count(w *world, n int) {
	r := w.Records[record("b-1")]
	r.Count = n
	w.Records[record("b-1")] = r
}

func expect(t *testing.T, found []string, says string) {
	t.Helper()
	if !slices.ContainsFunc(found, func(v string) bool { return strings.Contains(v, says) }) {
		t.Errorf("nothing says %q in:\n%s", says, strings.Join(found, "\n"))
	}
}
