package page

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/events"
)

// accountData is the data of the page of an account.
type accountData struct {
	pastData

	Name    string
	Banner  banner
	Now     time.Time
	Account *placed  // nil if neither Gardener nor Redis has it, as far as they were read
	Known   bool     // all accounts were read
	Tenures []tenure // newest first
	Answers []answer // answers to the release events of the account, newest first
}

// tenure is the time from the claim of an account to its return to the pool, as far as the ledger has it. A
// dedicated account has one tenant in a tenure.
type tenure struct {
	Tenant   string // "" if unknown, or if the account is shared
	Shared   bool
	From     time.Time // zero if unknown
	Clusters []stay    // in the order in which the ledger names them first
	Emptied  time.Time
	Dirty    bool      // it was marked dirty when it was emptied
	Returned time.Time // when the cleanup job returned it to its pool; zero if it did not
}

// stay is a cluster's time on an account. From and To are zero if unknown, To also while the cluster stays.
type stay struct {
	Runtime, Tenant, Request string
	From, To                 time.Time
}

// Shown returns the last clustersShown clusters, newest first.
func (t tenure) Shown() []stay {
	last := slices.Clone(t.Clusters[max(0, len(t.Clusters)-clustersShown):])
	slices.Reverse(last)
	return last
}

// More is the number of clusters that are not shown.
func (t tenure) More() int { return max(0, len(t.Clusters)-clustersShown) }

// staying returns the index of the stay of a runtime that has not ended, -1 if there is none.
func (t tenure) staying(runtime string) int {
	return slices.IndexFunc(t.Clusters, func(c stay) bool { return c.Runtime == runtime && c.To.IsZero() })
}

// accountView shows an account's present state, and its past tenures with their clusters.
func (p *Page) accountView(w http.ResponseWriter, r *http.Request) {
	from := p.connected(w)
	if from == nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), recordWithin)
	defer cancel()
	s := p.state(r)
	d := accountData{Name: r.PathValue("account"), Banner: s.banner(), Known: s.Known()}
	for _, of := range s.Pools {
		if i := slices.IndexFunc(of.accounts, func(a acct) bool { return a.Name == d.Name }); i >= 0 {
			d.Account = &placed{of.accounts[i], of.Name()}
		}
	}
	d.pastData = p.past(ctx, from, func(n int) ([]uint64, int) { return from.past.Account(d.Name, n) })
	d.Now = d.pastData.Now
	var err error
	if d.Answers, err = from.releasesOf(ctx, d.Name); err != nil {
		d.Fault = cmp.Or(d.Fault, err.Error())
	}
	d.Tenures = tenures(d.replies)
	if n := len(d.Tenures); n > 0 && d.More > 0 {
		d.Tenures[n-1].From = time.Time{} // it may have begun with a reply that is not shown
	}
	if d.Account == nil && d.Known && d.Done && d.Fault == "" && len(d.Tenures)+len(d.Answers) == 0 {
		p.fail(w, http.StatusNotFound, fmt.Sprintf("There is no account %q: Gardener has no such binding, and the ledger does not name it.", d.Name))
		return
	}
	p.write(w, http.StatusOK, view{Title: "Account " + d.Name, Body: "account", Data: d, Taken: s.Taken})
}

// tenures groups the replies about an account by tenure. replies must be newest first, and so is the result.
func tenures(replies []events.Stored) []tenure {
	var all []tenure
	for _, s := range slices.Backward(replies) {
		r := s.Reply
		switch r.Status {
		case events.StatusAssigned:
			t := lastTenure(&all, r)
			t.Emptied, t.Dirty = time.Time{}, false // a tenant may come back to an account that drains
			if t.staying(r.RuntimeID) < 0 {
				t.Clusters = append(t.Clusters, stay{Runtime: r.RuntimeID, Tenant: r.GlobalAccountID, Request: r.RequestID, From: s.Time})
			}
			// After an assignment that claims nothing, From is unknown: the tenure began earlier.
			if t.From.IsZero() && (t.Shared || r.Binding != nil && r.Binding.Claimed) {
				t.From = s.Time
			}
		case events.StatusReleased:
			t := lastTenure(&all, r)
			i := t.staying(r.RuntimeID)
			if i < 0 {
				t.Clusters = append(t.Clusters, stay{Runtime: r.RuntimeID, Tenant: r.GlobalAccountID, Request: r.RequestID})
				i = len(t.Clusters) - 1
			}
			t.Clusters[i].To = s.Time
			if r.MarkedDirty || r.Draining {
				t.Emptied, t.Dirty = s.Time, r.MarkedDirty
			}
		case events.StatusReturned:
			if len(all) == 0 {
				all = append(all, tenure{})
			}
			all[len(all)-1].Returned = s.Time
		case events.StatusWaiting, events.StatusResolved, events.StatusRejected, events.StatusSealed:
		}
	}
	slices.Reverse(all)
	return all
}

// lastTenure returns the tenure that a reply belongs to. It appends a new one if there is none yet, if the
// account was returned at the end of the last tenure, or if the tenant has changed.
func lastTenure(all *[]tenure, r events.Reply) *tenure {
	shared := r.Binding != nil && r.Binding.Shared
	tenant := r.GlobalAccountID
	if shared {
		tenant = ""
	}
	if n := len(*all); n > 0 {
		last := &(*all)[n-1]
		if last.Returned.IsZero() && (tenant == "" || last.Tenant == tenant) {
			return last
		}
	}
	*all = append(*all, tenure{Tenant: tenant, Shared: shared})
	return &(*all)[len(*all)-1]
}
