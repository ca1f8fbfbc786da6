package capacity

import (
	"container/heap"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

const (
	// steps is the number of intervals of the horizon; the use of accounts is noted at their bounds.
	steps = 60
	// hopeless is the queue length beyond which a run ends. The requests that would have followed count as
	// requests that find no account.
	hopeless = 2000
	epoch    = "forecast"
)

// tally has the counts of one run.
type tally struct {
	requests, waited int64
	decisions        int64
	first            time.Duration // from the warm-up's end to the first request without an account, or Never
	use              [steps + 1]int
}

// kind is the kind of a moment.
type kind int

const (
	cleaned   kind = iota // an account is free again
	gone                  // a cluster is deleted
	impatient             // a request waits no more
	asked                 // a request comes
)

// moment is a future event of the replay.
type moment struct {
	at   time.Duration
	kind kind
	name string // of the account or the cluster
}

// moments is a heap, by time.
type moments []moment

func (m moments) Len() int           { return len(m) }
func (m moments) Less(i, j int) bool { return m[i].at < m[j].at }
func (m moments) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *moments) Push(x any) {
	next, _ := x.(moment)
	*m = append(*m, next)
}

func (m *moments) Pop() any {
	last := len(*m) - 1
	x := (*m)[last]
	*m = (*m)[:last]
	return x
}

// replay is one run.
type replay struct {
	of     *Pool
	o      Options
	random *rand.Rand
	rules  *account.Pool
	ahead  moments
	now    time.Duration
	tally  tally

	free        []string         // accounts, the next one last
	generations map[string]int64 // of the accounts' labels
	tenants     map[string]string
	past        []string // the tenants of all requests so far, beginning with those of the demand
	total, next int      // total number of accounts; index in tally.use of the step that is noted next
	clusters    int      // made so far, for their names
	newcomers   int
}

// run replays the pool once with that number of accounts, or with the accounts that are not free now if
// these are more. number selects the random numbers: with the same seed and number the run is the same.
func (p *Pool) run(o Options, accounts int, number uint64) (tally, error) {
	r := &replay{
		of: p, o: o, random: rand.New(rand.NewPCG(o.Seed, number)), rules: account.NewPool(), tally: tally{first: Never},
		generations: map[string]int64{}, tenants: map[string]string{}, past: slices.Clip(p.Demand.Tenants),
		total: max(accounts, p.taken()),
	}
	r.begin()
	for len(r.ahead) > 0 {
		m, _ := heap.Pop(&r.ahead).(moment)
		if m.at > o.WarmUp+o.Horizon {
			break
		}
		r.note(m.at)
		r.now = m.at
		if err := r.happen(m); err != nil {
			return r.tally, err
		}
		if r.rules.Status().Waiting > hopeless {
			r.giveUp()
			break
		}
	}
	r.note(Never)
	return r.tally, nil
}

// begin builds the pool as it is now, but with as many free accounts as make total accounts.
func (r *replay) begin() {
	runtimes := map[string]account.Runtime{}
	snapshot := account.Snapshot{Bindings: map[string]account.Record{}, Runtimes: maps.All(runtimes)}
	counts, holders := map[string]int{}, map[string]string{}
	for _, c := range r.of.Clusters {
		name := r.cluster()
		counts[c.Account]++
		holders[c.Account] = c.Tenant
		runtimes[name] = account.Runtime{State: account.RuntimeAssigned, Binding: c.Account, Confirmed: true, Origin: account.Own, Tenant: c.Tenant}
		r.tenants[name] = c.Tenant
		r.later(r.of.Demand.Lifetimes.Rest(r.random, c.Age), gone, name)
	}
	for _, a := range r.of.Accounts {
		r.generations[a.Name] = 1
		rec := account.Record{Tenant: a.Tenant, Generation: 1, Confirmed: true, Count: counts[a.Name]}
		switch {
		case a.Cleaning:
			rec.State, rec.Tenant = account.Dirtying, holders[a.Name]
			if rec.Count > 0 {
				break // the cleaning begins when the last cluster has gone
			}
			r.later(r.of.Demand.Cleanings.Rest(r.random, 0), cleaned, a.Name)
		case a.Tenant != "":
			rec.State = account.InUse
		default:
			continue
		}
		snapshot.Bindings[a.Name] = rec
	}
	free := r.total - r.of.taken()
	for _, a := range r.of.Accounts {
		if a.Tenant == "" && !a.Cleaning && len(r.free) < free {
			r.free = append(r.free, a.Name)
		}
	}
	for n := 0; len(r.free) < free; n++ {
		r.free = append(r.free, "more-"+strconv.Itoa(n))
	}
	r.rules.BeginRebuild(epoch, time.Time{}, 0)
	r.rules.Install(epoch, snapshot)
	r.later(r.interval(), asked, "")
}

// stepOf returns the time from now to the bound of an interval. It divides first: the product may overflow.
func stepOf(horizon time.Duration, i int) time.Duration { return horizon / steps * time.Duration(i) }

// note records the accounts in use at the steps before a moment.
func (r *replay) note(before time.Duration) {
	for r.next <= steps && r.o.WarmUp+stepOf(r.o.Horizon, r.next) < before {
		r.tally.use[r.next] = r.total - len(r.free)
		r.next++
	}
}

func (r *replay) happen(m moment) error {
	switch m.kind {
	case asked:
		r.later(r.interval(), asked, "")
		return r.ask(r.tenant())
	case gone:
		return r.leave(m.name)
	case cleaned:
		return r.release(m.name)
	default:
		return r.refuse(m.name)
	}
}

func (r *replay) later(after time.Duration, k kind, name string) {
	if after < Never-r.now {
		heap.Push(&r.ahead, moment{r.now + after, k, name})
	}
}

// interval draws the time to the next request; Never if none follows. The rate grows exponentially, so the
// draw inverts the integral of the rate.
func (r *replay) interval() time.Duration {
	if len(r.of.Demand.Tenants) == 0 || r.of.Demand.Window <= 0 {
		return Never
	}
	rate := float64(len(r.of.Demand.Tenants)) / float64(r.of.Demand.Window)
	growth := math.Log(r.o.Growth) / float64(r.o.Horizon)
	drawn := r.random.ExpFloat64()
	rate *= math.Exp(growth * float64(max(0, r.now-r.o.WarmUp)))
	if math.Abs(growth) < 1e-30 || r.now < r.o.WarmUp {
		return scaled(drawn, time.Duration(math.Min(1/rate, float64(Never))))
	}
	within := 1 + drawn*growth/rate
	if within <= 0 {
		return Never // a rate that falls may bring no further request at all
	}
	return scaled(math.Log(within)/growth, 1)
}

// tenant draws the tenant of a request: a new tenant, or the tenant of a random earlier request.
func (r *replay) tenant() string {
	who := r.past[r.random.IntN(len(r.past))]
	if r.random.Float64() < r.of.Demand.New {
		r.newcomers++
		who = "newcomer-" + strconv.Itoa(r.newcomers)
	}
	r.past = append(r.past, who)
	return who
}

func (r *replay) cluster() string {
	r.clusters++
	return strconv.Itoa(r.clusters)
}
