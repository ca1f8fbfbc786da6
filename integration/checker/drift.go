package checker

import (
	"fmt"
	"slices"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// Drift lists where Redis, the labels and the ledger do not say the same, once
// everything is settled. That a dirty account waits for its cleaning is none.
func (f Facts) Drift() []string {
	var found []string
	say := func(format string, args ...any) { found = append(found, "drift: "+fmt.Sprintf(format, args...)) }
	live := f.live(func(string, string, ...any) {})
	on := map[string]int{}
	for _, r := range live {
		on[r.Binding.Name]++
	}
	for _, s := range f.Shoots {
		if r, ok := live[s.RuntimeID]; !ok || r.Binding.Name != s.Binding {
			say("the Shoot of runtime %s is on %s, the ledger does not say so", s.RuntimeID, s.Binding)
		}
	}
	for name, r := range f.Records {
		if _, known := f.Bindings[name]; !known {
			say("%s has the record %+v, Gardener does not have it", name, r)
		}
	}
	for name, b := range f.Bindings {
		r := f.Records[name]
		if r.Count != on[name] {
			say("%s has %d runtimes in the ledger and is counted %d", name, on[name], r.Count)
		}
		if !b.Shared {
			f.compare(b, r, on[name], say)
		}
	}
	slices.Sort(found)
	return found
}

// compare looks at one dedicated binding that has on runtimes in the ledger.
func (f Facts) compare(b engine.Binding, r account.Record, on int, say func(format string, args ...any)) {
	free := r.State == "" || r.State == account.Free
	switch {
	case b.Dirty:
		if r.State != account.Dirtying {
			say("%s is dirty, its record is %+v", b.Name, r)
		}
	case b.Tenant == "":
		if !free {
			say("%s is unclaimed, its record is %+v", b.Name, r)
		}
	case r.Tenant != b.Tenant || free || r.State == account.Dirtying:
		say("%s is labelled %s, its record is %+v", b.Name, b.Tenant, r)
	case r.Confirmed && r.Generation != b.Generation:
		say("%s is labelled with generation %d, its confirmed record has %d", b.Name, b.Generation, r.Generation)
	case on == 0:
		if f.wasAnswered(b) {
			say("%s stays claimed for %s without a runtime, its record is %+v", b.Name, b.Tenant, r)
		}
	}
}

// wasAnswered reports whether anybody was told of the binding's present claim. A
// claim that no publisher was told of explains a binding without runtimes.
func (f Facts) wasAnswered(b engine.Binding) bool {
	for _, r := range f.Replies {
		if r.Status == events.StatusAssigned && r.Binding.Name == b.Name && r.Binding.Generation == b.Generation {
			return true
		}
	}
	return false
}

// Idle are the bindings that are claimed without runtimes since no publisher was
// told of their claim: the drift claimed-idle, which is reported and not repaired by itself.
func (f Facts) Idle() []string {
	var idle []string
	for name, b := range f.Bindings {
		if !b.Shared && b.Tenant != "" && !b.Dirty && f.Records[name].Count == 0 && !f.wasAnswered(b) {
			idle = append(idle, name)
		}
	}
	slices.Sort(idle)
	return idle
}
