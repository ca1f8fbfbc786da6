package checker

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/events"
)

// step is a reply of the ledger as a change of a pool: a runtime arrived or left.
type step struct {
	sequence int64
	runtime  string
	tenant   string
	binding  string // "" for a departure
	shared   bool
	limit    int
	clusters int
	stored   time.Time // zero without an observer
}

// decisions replays the ledger pool by pool, in the order of decisions, and checks each decision against the
// state at that time (I2, I3, I4).
//
// A departure may have a later number than its actual order: if Redis was lost between the script and the
// reply, it is decided anew. So runtimes whose deprovision was published before the decision's answer was
// stored are ignored.
func (f Facts) decisions(terms Terms, bad report) {
	departed := map[string]time.Time{}
	if f.Watched != nil {
		departed = f.Watched.Departed
	}
	for pool, steps := range f.steps() {
		r := replay{pool: pool, on: map[string]map[string]string{}, at: map[string]string{}, departed: departed, terms: terms, bad: bad}
		for _, s := range steps {
			r.apply(s)
		}
	}
}

// steps returns the changes of each pool, in order. A decision that answered several requests is one step,
// with the smallest cluster count among its replies: later repeats have the count at their time.
func (f Facts) steps() map[string][]step {
	type key struct {
		pool, runtime string
		sequence      int64
	}
	found := map[key]step{}
	stored := map[string]time.Time{}
	if f.Watched != nil {
		for _, s := range f.Watched.Stored {
			stored[s.Subject] = s.Time
		}
	}
	for _, subject := range slices.Sorted(maps.Keys(f.Replies)) {
		r := f.Replies[subject]
		if r.RuntimeID == "" || r.Decision == nil || r.Decision.Sequence == 0 || r.Decision.Pool == "" {
			continue
		}
		s := step{sequence: r.Decision.Sequence, runtime: r.RuntimeID, tenant: r.GlobalAccountID, limit: r.Limit, stored: stored[subject]}
		switch r.Status {
		case events.StatusAssigned:
			s.binding, s.shared = r.Binding.Name, r.Binding.Shared
			if r.Clusters != nil {
				s.clusters = *r.Clusters
			}
		case events.StatusReleased:
		default:
			continue
		}
		k := key{r.Decision.Pool, r.RuntimeID, r.Decision.Sequence}
		if known, ok := found[k]; ok && known.clusters <= s.clusters {
			continue
		}
		found[k] = s
	}
	out := map[string][]step{}
	for k, s := range found {
		out[k.pool] = append(out[k.pool], s)
	}
	for pool := range out {
		slices.SortFunc(out[pool], func(a, b step) int {
			return cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.runtime, b.runtime))
		})
	}
	return out
}

// replay is the state of a pool after its decisions so far.
type replay struct {
	pool     string
	on       map[string]map[string]string // tenant by runtime, by binding
	at       map[string]string            // binding by runtime
	departed map[string]time.Time         // when the deprovision of a runtime was first published
	terms    Terms
	bad      report
}

func (r *replay) apply(s step) {
	if s.binding == "" {
		delete(r.on[r.at[s.runtime]], s.runtime)
		delete(r.at, s.runtime)
		return
	}
	if r.at[s.runtime] == s.binding {
		return
	}
	r.check(s)
	if r.on[s.binding] == nil {
		r.on[s.binding] = map[string]string{}
	}
	r.on[s.binding][s.runtime] = s.tenant
	r.at[s.runtime] = s.binding
}

// others returns the runtimes on a binding that cannot have left before the step.
func (r *replay) others(binding string, s step) map[string]string {
	found := map[string]string{}
	for runtime, tenant := range r.on[binding] {
		if left, leaves := r.departed[runtime]; !leaves || left.After(s.stored) {
			found[runtime] = tenant
		}
	}
	return found
}

// check checks the arrival of a runtime on a binding.
func (r *replay) check(s step) {
	on := r.others(s.binding, s)
	if s.limit > 0 && !s.shared && (s.clusters > s.limit || len(on) >= s.limit) {
		r.bad("I2 WithinLimit", "decision %d of pool %s puts runtime %s on %s with %d others there, as number %d of %d",
			s.sequence, r.pool, s.runtime, s.binding, len(on), s.clusters, s.limit)
	}
	if s.shared {
		return
	}
	for other, tenant := range on {
		if tenant != s.tenant {
			r.bad("I3 OneTenant", "decision %d of pool %s puts runtime %s of %s on %s, where %s of %s is",
				s.sequence, r.pool, s.runtime, s.tenant, s.binding, other, tenant)
		}
	}
	if !r.terms.OneAccount || r.terms.Several[s.tenant] || len(on) > 0 {
		return
	}
	for binding := range r.on {
		for other, tenant := range r.others(binding, s) {
			if tenant == s.tenant && binding != s.binding {
				r.bad("I4 OneAccount", "decision %d of pool %s begins %s for %s, whose runtime %s is on %s",
					s.sequence, r.pool, s.binding, s.tenant, other, binding)
			}
		}
	}
}
