package account_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
)

// The runtimes of every world, with their tenants.
var (
	runtimes = []string{"r0", "r1", "r2"}
	tenants  = []string{"ga-1", "ga-1", "ga-2"}
)

// check tests the invariants on the answers to publishers, the labels and Redis.
func (w *world) check() {
	if w.broken == "" {
		w.broken = w.brokenInvariant()
	}
}

func (w *world) brokenInvariant() string {
	p := w.m.Pool(pool)
	serves, counts := map[string]string{}, map[string]int{}
	homes := map[string]string{}
	for n, runtime := range runtimes {
		binding := w.live(runtime)
		if binding == "" {
			continue
		}
		tenant := tenants[n]
		counts[binding]++
		l := w.labels[binding]
		switch {
		case serves[binding] != "" && serves[binding] != tenant:
			return "I3 OneTenant: " + binding + " serves two tenants"
		case !w.terms[tenant].Several && homes[tenant] != "" && homes[tenant] != binding:
			return "I4 OneAccount: " + tenant + " lives on " + homes[tenant] + " and " + binding
		case l.dirty:
			return "I5 NoDirty: " + binding + " is dirty under " + runtime
		case l.tenant != tenant:
			return "I3 OneTenant: " + runtime + " lives on " + binding + ", which is not labelled " + tenant
		}
		serves[binding], homes[tenant] = tenant, binding
		if rt := p.Runtime(runtime); p.Status().Built && (rt.State != account.RuntimeAssigned || rt.Binding != binding) {
			return fmt.Sprintf("I6 CountsTrue: %s lives on %s, Redis says %s %s", runtime, binding, rt.State, rt.Binding)
		}
		for _, e := range w.events {
			if e.kind == "provision" && e.runtime == runtime && e.status == "assigned" && e.reply.Binding != binding {
				return "I1 OneBinding: " + runtime + " was answered with " + binding + " and " + e.reply.Binding
			}
		}
	}
	for binding, n := range counts {
		if terms := w.terms[serves[binding]]; terms.Several && n > terms.Limit {
			return fmt.Sprintf("I2 WithinLimit: %d runtimes live on %s", n, binding)
		}
	}
	for _, e := range w.events {
		if e.settled && !e.final() && !(e.waiting && e.status == "waiting") {
			return "I8 NothingLost: " + e.id + " is settled, has no answer and does not wait"
		}
	}
	return accounttest.CheckRecords(p)
}

// quiet lets everything finish without further faults. Then every event is answered or waits for a reason,
// and Redis, labels and answers agree.
func (w *world) quiet() {
	w.stopAll()
	w.lost = 0
	for range 6 {
		if w.broken != "" {
			return
		}
		w.readCache()
		if !w.m.Pool(pool).Status().Built {
			w.finish("rebuild", w.rebuild)
		}
		for _, e := range w.events {
			if !e.settled || e.waiting {
				w.take(e, false)
				w.drive()
			}
		}
		for _, name := range slices.Sorted(maps.Keys(w.labels)) {
			w.finish("sweep "+name, func(p pace) { w.sweepBinding(name, p) })
		}
	}
	if w.broken == "" {
		w.broken = w.disagreement()
	}
}

// disagreement describes how Redis, labels and answers differ after everything has finished.
func (w *world) disagreement() string {
	p := w.m.Pool(pool)
	for _, e := range w.events {
		if !e.settled {
			return "I8 NothingLost: " + e.id + " is never settled"
		}
		if (e.status == "not dirty" || e.status == "stale") && w.labels[e.binding].releasedBy == e.id {
			return "I7 OneAnswer: " + e.id + " released " + e.binding + " and is answered " + e.status
		}
	}
	for _, runtime := range runtimes {
		if rt := p.Runtime(runtime); (rt.State == account.RuntimeAssigned) != (w.live(runtime) != "") {
			return fmt.Sprintf("I6 CountsTrue: %s is %q in the end, it lives on %q", runtime, rt.State, w.live(runtime))
		}
	}
	for _, b := range p.Bindings() {
		switch l := w.labels[b.Binding]; {
		case b.State == account.Claiming || b.State == account.InUse && l.tenant != b.Tenant && b.Count > 0:
			return "I3 OneTenant: the label of " + b.Binding + " is not what Redis says"
		case b.State == account.Draining && !w.refers(b.Binding):
			return b.Binding + " drains for ever"
		}
	}
	for name, l := range w.labels {
		if p.Binding(name).State == account.Free && !l.unclaimed() {
			return "I6 CountsTrue: Redis does not know of the label of " + name
		}
	}
	return ""
}

func (w *world) finish(name string, run func(pace)) {
	w.start(name, name, run)
	w.drive()
}

// drive lets the only worker finish.
func (w *world) drive() {
	for steps := 0; len(w.workers) > 0 && w.broken == ""; steps++ {
		if steps > 500 {
			w.broken = "I8 NothingLost: " + w.workers[0].name + " does not come to an end"
		}
		w.advance(0)
		w.check()
	}
}

// String shows the world in the failure of a test.
func (w *world) String() string {
	records, err := accounttest.Records(w.ctx, w.m, pool)
	text := fmt.Sprintf("%s (%v)\nShoots %v\n", records, err, w.shoots)
	for name, l := range w.labels {
		text += fmt.Sprintf("label %s %+v\n", name, l)
	}
	for _, e := range w.events {
		text += fmt.Sprintf("event %+v\n", *e)
	}
	return text
}
