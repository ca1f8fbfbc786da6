package shadow

import (
	"fmt"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/shadows"
)

// Sight is the state of a runtime in the landscape when its decision is compared.
type Sight struct {
	Shoot  *engine.Shoot   // nil while there is none that names a binding
	Theirs *engine.Binding // the binding that the Shoot names; nil if the landscape does not have it
	Ours   *engine.Binding // the binding that the shadow chose, with its current labels; nil if it chose none, or if it is gone
	Over   bool            // the time to wait for the Shoot is over
}

// Compare compares a decision with the broker's choice. done is false while that choice may still appear: then
// result and message are empty.
func Compare(r events.Reply, s Sight) (result shadows.ComparisonResult, message string, done bool) {
	if s.Shoot == nil {
		return withoutShoot(r, s.Over)
	}
	if s.Theirs == nil {
		if !s.Over {
			return "", "", false // the binding may be new: the cache may not have it yet
		}
		return shadows.ResultUnknownAccount, fmt.Sprintf("Shoot %s names %s, which is no account of the landscape", s.Shoot.Name, s.Shoot.Binding), true
	}
	if r.Status != events.StatusAssigned {
		return shadows.ResultNotAssigned, fmt.Sprintf("the shadow %s; KEB assigned %s of pool %s", refusal(r), s.Theirs.Name, s.Theirs.Pool().Name()), true
	}
	result, message = accounts(r, s)
	return result, message, true
}

func withoutShoot(r events.Reply, over bool) (shadows.ComparisonResult, string, bool) {
	switch {
	case !over:
		return "", "", false
	case r.Status == events.StatusAssigned:
		return shadows.ResultNoCluster, fmt.Sprintf("the shadow assigned %s, and no Shoot of the runtime appeared", r.Binding.Name), true
	default:
		return shadows.ResultNeither, fmt.Sprintf("the shadow %s, and no Shoot of the runtime appeared", refusal(r)), true
	}
}

func refusal(r events.Reply) string {
	if r.Waiting != nil {
		return "waits: " + string(r.Waiting.Reason)
	}
	if r.Error != nil {
		return "refuses: " + r.Error.Message
	}
	return "does not assign"
}

// accounts compares the account that the shadow assigned with the account of the Shoot.
func accounts(r events.Reply, s Sight) (shadows.ComparisonResult, string) {
	ours, theirs := r.Binding.Name, s.Theirs
	switch {
	case origin(r) == account.Adopted:
		return shadows.ResultLate, "the Shoot was there before the shadow decided"
	case ours == theirs.Name && labelledBefore(r):
		return shadows.ResultFollowed, "the tenant's by its label, and without a cluster, when the shadow decided"
	case ours == theirs.Name:
		return shadows.ResultSame, "both chose " + ours
	case !theirs.Shared && theirs.Tenant != "" && theirs.Tenant != r.GlobalAccountID:
		return shadows.ResultOtherTenant, fmt.Sprintf("%s, which KEB chose, carries the name of %s", theirs.Name, theirs.Tenant)
	case theirs.Pool().Name() != pool(r):
		return shadows.ResultOtherPool, fmt.Sprintf("the shadow by rule %s from pool %s; KEB from pool %s", rule(r), pool(r), theirs.Pool().Name())
	case theirs.Shared:
		return leastUsed(r, theirs.Name)
	default:
		return dedicated(r, s)
	}
}

// labelledBefore reports whether the account was already the tenant's and had no other runtime. The broker
// may have labelled it for this very cluster: then the shadow had no choice.
func labelledBefore(r events.Reply) bool {
	return !r.Binding.Claimed && !r.Binding.Shared && r.Clusters != nil && *r.Clusters == 1
}

// dedicated compares the accounts that the shadow and KEB chose in a dedicated pool. An account is new if the
// tenant did not have it when the shadow decided. It is arbitrary which unclaimed account a tenant gets, so
// two new accounts are equivalent. The shadow's account also counts as new if its label does not name the
// tenant: then only the shadow has claimed it, and KEB claimed another account.
func dedicated(r events.Reply, s Sight) (shadows.ComparisonResult, string) {
	ours, theirs := r.Binding.Name, s.Theirs.Name
	oursNew := r.Binding.Claimed || s.Ours == nil || s.Ours.Tenant != r.GlobalAccountID
	theirsNew := true
	for _, c := range considered(r) {
		theirsNew = theirsNew && !(c.Binding == theirs && c.Own)
	}
	switch {
	case oursNew && theirsNew:
		return shadows.ResultEquivalent, fmt.Sprintf("a new account either way: the shadow claimed %s, KEB %s", ours, theirs)
	case oursNew:
		return shadows.ResultClaims, fmt.Sprintf("the shadow would claim %s; KEB took %s, which the tenant had", ours, theirs)
	case theirsNew:
		return shadows.ResultShares, fmt.Sprintf("the shadow would take %s, which the tenant had; KEB claimed %s", ours, theirs)
	default:
		return shadows.ResultOtherAccount, fmt.Sprintf("both the tenant's: the shadow %s, KEB %s", ours, theirs)
	}
}

// leastUsed compares the accounts that the shadow and KEB chose in a shared pool. Two accounts are equivalent if
// both had the same number of clusters when the shadow decided.
func leastUsed(r events.Reply, theirs string) (shadows.ComparisonResult, string) {
	clusters := map[string]int{}
	for _, c := range considered(r) {
		clusters[c.Binding] = c.Clusters
	}
	mine, chosen := clusters[r.Binding.Name]
	other, seen := clusters[theirs]
	if chosen && seen && mine == other {
		return shadows.ResultEquivalent, fmt.Sprintf("shared, and %d clusters on either: the shadow took %s, KEB %s", mine, r.Binding.Name, theirs)
	}
	return shadows.ResultOtherAccount, fmt.Sprintf("shared: the shadow took %s, KEB %s", r.Binding.Name, theirs)
}

func origin(r events.Reply) account.Origin {
	if r.Decision == nil {
		return ""
	}
	return account.Origin(r.Decision.Origin)
}

func pool(r events.Reply) string {
	if r.Decision == nil {
		return ""
	}
	return r.Decision.Pool
}

func rule(r events.Reply) string {
	if r.Decision == nil || r.Decision.Rule == "" {
		return "-"
	}
	return r.Decision.Rule
}

func considered(r events.Reply) []events.Considered {
	if r.Decision == nil {
		return nil
	}
	return r.Decision.Considered
}
