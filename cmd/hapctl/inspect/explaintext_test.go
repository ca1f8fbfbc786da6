package inspect

import (
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

func considered(binding string, clusters int, v account.Verdict) events.Considered {
	return events.Considered{Binding: binding, Clusters: clusters, Verdict: string(v), Own: true}
}

// TestReasonsOfPassedAccounts: the reasons are those by which account.Pool chooses.
func TestReasonsOfPassedAccounts(t *testing.T) {
	t.Parallel()
	answered := func(strategy account.Strategy, all ...events.Considered) events.Reply {
		return events.Reply{
			Status: events.StatusAssigned, Binding: &events.Binding{Name: "a"},
			Decision: &events.Decision{Pool: "aws", Sequence: 1, Origin: string(account.Own), Strategy: string(strategy), Considered: all},
		}
	}
	waits := func(pool string, position int, all ...events.Considered) events.Reply {
		return events.Reply{
			Status: events.StatusWaiting, Waiting: &events.Waiting{Reason: events.WaitingPoolEmpty, Position: position},
			Decision: &events.Decision{Pool: pool, Sequence: 1, Considered: all},
		}
	}
	many := slices.Repeat([]events.Considered{considered("a", 2, account.Chosen)}, account.MaxConsidered)
	barred := waits("aws", 2, considered("a", 2, account.BarredHere), considered("b", 0, account.LessFitting))
	for _, c := range []struct {
		name        string
		reply       events.Reply
		about, want string
	}{
		{
			"a draining one, with fewer clusters", answered(account.RoundRobin, considered("a", 2, account.Chosen), considered("b", 0, account.LessFitting)),
			"passed over", "b: the tenant's, 0 clusters: a comes first: claimed accounts come before draining ones, then by round-robin",
		},
		{
			"one with more clusters", answered(account.RoundRobin, considered("a", 2, account.Chosen), considered("b", 3, account.LessFitting)),
			"passed over", "b: the tenant's, 3 clusters: a comes first by round-robin",
		},
		{
			"one account, two equally full", answered("", considered("a", 2, account.Chosen), considered("b", 2, account.LessFitting)),
			"passed over", "b: the tenant's, 2 clusters: a comes first, it has more clusters, or as many and was claimed later",
		},
		{
			"one account, which is cordoned", barred,
			"passed over", "a: the tenant's, 2 clusters: cordoned, internal, being deleted, dirty or a duplicate; it gets no new clusters\n" +
				"b: the tenant's, 0 clusters: not used: it would be a second account beside the one in use",
		},
		{
			"why that waits", barred,
			"waits", "the tenant may have one account, and the one in use gains no clusters; if it is cordoned, hapctl uncordon a ends that",
		},
		{
			"a cordoned shared one", waits("aws+shared", 1, considered("a", 2, account.BarredHere)),
			"waits", "in pool aws+shared the tenant has no account with room, and none is free for it",
		},
		{"a full list", answered("", many...), "passed over", "the list has room for 16; further accounts may have been looked at"},
		{"one that is not full", answered("", many[1:]...), "passed over", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, r := range reasons(ledgerReply{Reply: c.reply}) {
				if r.About == c.about {
					got = append(got, r.Text)
				}
			}
			if strings.Join(got, "\n") != c.want {
				t.Errorf("%s: it says\n%q, want\n%q", c.about, got, c.want)
			}
		})
	}
}
