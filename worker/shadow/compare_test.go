package shadow

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/shadows"
)

// of returns a binding as the broker labels it.
func of(name, hyperscaler, tenant string) *engine.Binding {
	return &engine.Binding{Name: name, HyperscalerType: hyperscaler, Tenant: tenant}
}

// took is the decision of a shadow on a runtime of ga-1 in pool aws.
func took(name string, origin account.Origin, clusters int, considered ...events.Considered) events.Reply {
	return events.Reply{
		RuntimeID: "rt", RequestID: "req", GlobalAccountID: "ga-1", Plan: "aws", Status: events.StatusAssigned, Clusters: &clusters,
		Binding:  &events.Binding{Name: name, Claimed: origin == account.Claimed, Shared: origin == account.Shared},
		Decision: &events.Decision{Pool: "aws", Rule: "aws", Origin: string(origin), Considered: considered},
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	shoot := &engine.Shoot{Name: "c-1", Binding: "k"}
	had := events.Considered{Binding: "k", Clusters: 2, Verdict: string(account.AtLimit), Own: true}
	refused := events.Reply{Status: events.StatusRejected, Error: &events.ReplyError{Message: "no rule"}}
	waits := events.Reply{Status: events.StatusWaiting, Waiting: &events.Waiting{Reason: events.WaitingPoolEmpty}}
	onShared := took("s", account.Shared, 3, events.Considered{Binding: "s", Clusters: 2}, events.Considered{Binding: "k", Clusters: 2})
	onSharedPool := func(r events.Reply) events.Reply { r.Decision.Pool = "aws+shared"; return r }
	common := &engine.Binding{Name: "k", HyperscalerType: "aws", Shared: true}
	for _, c := range []struct {
		what  string
		reply events.Reply
		sight Sight
		want  shadows.ComparisonResult // "" while that cannot be told
	}{
		{"no Shoot yet", took("k", account.Claimed, 1), Sight{}, ""},
		{"no Shoot at all", took("k", account.Claimed, 1), Sight{Over: true}, shadows.ResultNoCluster},
		{"neither assigned", refused, Sight{Over: true}, shadows.ResultNeither},
		{"it waits, and nothing is there yet", waits, Sight{}, ""},
		{"refused, and assigned", refused, Sight{Shoot: shoot, Theirs: of("k", "aws", "ga-1")}, shadows.ResultNotAssigned},
		{"waiting, and assigned", waits, Sight{Shoot: shoot, Theirs: of("k", "aws", "ga-1")}, shadows.ResultNotAssigned},
		{"an account that the watch may yet bring", took("a", account.Own, 2), Sight{Shoot: shoot}, ""},
		{"an account that there is not", took("a", account.Own, 2), Sight{Shoot: shoot, Over: true}, shadows.ResultUnknownAccount},
		{"the Shoot was known", took("k", account.Adopted, 2), Sight{Shoot: shoot, Theirs: of("k", "aws", "ga-1")}, shadows.ResultLate},
		{"the same, which it has", took("k", account.Own, 2), Sight{Shoot: shoot, Theirs: of("k", "aws", "ga-1")}, shadows.ResultSame},
		{"the same, claimed", took("k", account.Claimed, 1), Sight{Shoot: shoot, Theirs: of("k", "aws", "ga-1")}, shadows.ResultSame},
		{"the same, labelled before", took("k", account.Labelled, 1), Sight{Shoot: shoot, Theirs: of("k", "aws", "ga-1")}, shadows.ResultFollowed},
		{"the same, idle before", took("k", account.Own, 1), Sight{Shoot: shoot, Theirs: of("k", "aws", "ga-1")}, shadows.ResultFollowed},
		{"another tenant's", took("a", account.Own, 2), Sight{Shoot: shoot, Theirs: of("k", "gcp", "ga-2")}, shadows.ResultOtherTenant},
		{"another pool's", took("a", account.Own, 2), Sight{Shoot: shoot, Theirs: of("k", "gcp", "ga-1")}, shadows.ResultOtherPool},
		{"both claimed one", took("a", account.Claimed, 1), Sight{Shoot: shoot, Theirs: of("k", "aws", "ga-1"), Ours: of("a", "aws", "")}, shadows.ResultEquivalent},
		{"the second one on what the shadow alone has claimed", took("a", account.Own, 2),
			Sight{Shoot: shoot, Theirs: of("k", "aws", "ga-1"), Ours: of("a", "aws", "")}, shadows.ResultEquivalent},
		{"KEB goes beyond the limit", took("a", account.Claimed, 1, had), Sight{Shoot: shoot, Theirs: of("k", "aws", "ga-1"), Ours: of("a", "aws", "")}, shadows.ResultClaims},
		{"KEB claims below the limit", took("a", account.Own, 2), Sight{Shoot: shoot, Theirs: of("k", "aws", "ga-1"), Ours: of("a", "aws", "ga-1")}, shadows.ResultShares},
		{"another one of two", took("a", account.Own, 2, had), Sight{Shoot: shoot, Theirs: of("k", "aws", "ga-1"), Ours: of("a", "aws", "ga-1")}, shadows.ResultOtherAccount},
		{"shared, as full", onSharedPool(onShared), Sight{Shoot: shoot, Theirs: common}, shadows.ResultEquivalent},
		{"shared, fuller", onSharedPool(took("s", account.Shared, 1, events.Considered{Binding: "s"}, events.Considered{Binding: "k", Clusters: 2})),
			Sight{Shoot: shoot, Theirs: common}, shadows.ResultOtherAccount},
	} {
		result, message, done := Compare(c.reply, c.sight)
		if result != c.want || done != (c.want != "") || done != (message != "") {
			t.Errorf("%s: %q (%s), done %t, want %q", c.what, result, message, done, c.want)
		}
	}
}
