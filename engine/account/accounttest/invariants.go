package accounttest

import (
	"fmt"
	"slices"

	"github.com/hap-worker/hap-worker/engine/account"
)

// CheckRecords returns a message about an invariant that the pool's records break, "" for none.
func CheckRecords(p *account.Pool) string { return CheckListed(p.Bindings(), p.Runtimes()) }

// CheckListed is CheckRecords for the lists of all records of a pool.
func CheckListed(bindings []account.NamedRecord, runtimes []account.NamedRuntime) string {
	on := map[string]int{}
	tenants, owners := map[string]string{}, map[string]string{}
	for _, b := range bindings {
		owners[b.Binding] = b.Tenant
	}
	for _, r := range runtimes {
		if r.State != account.RuntimeAssigned {
			continue
		}
		on[r.Binding]++
		if owners[r.Binding] == "" || r.Origin == account.Adopted || !r.Confirmed {
			continue // shared, or from before this service, or not answered yet
		}
		if was, known := tenants[r.Binding]; known && was != r.Tenant {
			return fmt.Sprintf("I3 OneTenant: runtimes of %s and %s were answered with %s", was, r.Tenant, r.Binding)
		}
		tenants[r.Binding] = r.Tenant
	}
	for _, b := range bindings {
		if b.Count != on[b.Binding] {
			return fmt.Sprintf("I6 CountsTrue: %s counts %d, %d runtimes are assigned to it", b.Binding, b.Count, on[b.Binding])
		}
		delete(on, b.Binding)
	}
	for binding, n := range on {
		return fmt.Sprintf("I6 CountsTrue: %d runtimes are assigned to %s, which has no record", n, binding)
	}
	return ""
}

// CheckDecision returns a message about an invariant that a decision breaks, given the records before it; ""
// for none.
func CheckDecision(before *account.Pool, r account.Request, d account.Decision) string {
	rt := before.Runtime(r.Runtime)
	theirs := rt.Tenant != "" && rt.Tenant != r.Tenant && (rt.State == account.RuntimeAssigned || rt.State == account.RuntimeWaiting)
	if theirs != (d.Outcome == account.Foreign) || theirs && (d.Binding != "" || d.Sequence != 0 || d.Request != "") {
		return fmt.Sprintf("isolation: %s of %q is told to %s as %+v", r.Runtime, rt.Tenant, r.Tenant, d)
	}
	if theirs {
		return ""
	}
	if rt.State == account.RuntimeAssigned && rt.Confirmed &&
		(d.Outcome != account.Assigned || d.Binding != rt.Binding || d.Sequence != rt.Sequence) {
		return fmt.Sprintf("I1 OneBinding: %s was answered with %s and is now %s %s", r.Runtime, rt.Binding, d.Outcome, d.Binding)
	}
	if d.Outcome != account.Assigned || d.Repeated {
		return ""
	}
	rec := before.Binding(d.Binding)
	switch {
	case r.Terms.Several && !r.Shared && r.Terms.Limit > 0 && d.Count > r.Terms.Limit:
		return fmt.Sprintf("I2 WithinLimit: %s has %d runtimes of %d", d.Binding, d.Count, r.Terms.Limit)
	case !r.Shared && rec.Tenant != "" && rec.Tenant != r.Tenant:
		return fmt.Sprintf("I3 OneTenant: %s is %s's", d.Binding, rec.Tenant)
	case rec.State == account.Dirtying:
		return fmt.Sprintf("I5 NoDirty: %s is dirtying", d.Binding)
	case slices.Contains(r.Barred, d.Binding):
		return fmt.Sprintf("I5 NoDirty: %s is barred", d.Binding)
	}
	return checkOneAccount(before, r, d)
}

func checkOneAccount(before *account.Pool, r account.Request, d account.Decision) string {
	if r.Shared || r.Terms.Several || before.Binding(d.Binding).Count > 0 {
		return ""
	}
	for _, b := range before.Bindings() {
		left := b.Count
		if rt := before.Runtime(r.Runtime); rt.State == account.RuntimeAssigned && rt.Binding == b.Binding {
			left-- // this decision takes the runtime off it
		}
		if b.Tenant == r.Tenant && b.Binding != d.Binding && left > 0 &&
			(b.State == account.Claiming || b.State == account.InUse) {
			return fmt.Sprintf("I4 OneAccount: %s begins %s beside %s", r.Tenant, d.Binding, b.Binding)
		}
	}
	return ""
}
