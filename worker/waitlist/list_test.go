package waitlist_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/waitlist"
)

var begin = time.Unix(1000, 0)

// request returns the request with a sequence: pool, tenant and reason follow from numbers, so
// that several share each of them.
func request(sequence uint64, pool, tenant, runtime int, network bool) storage.WaitingRequest {
	r := storage.WaitingRequest{
		Subject: fmt.Sprintf("p%d.t%d.r%d.%d", pool, tenant, runtime, sequence), Pool: fmt.Sprintf("p%d", pool),
		Sequence: sequence, Since: begin, Deadline: begin.Add(time.Duration(sequence%7) * time.Minute), Reason: events.WaitingPoolEmpty,
		Event: events.Event{
			RuntimeID: fmt.Sprintf("r%d", runtime),
			Provision: &events.Provision{GlobalAccountID: fmt.Sprintf("t%d", tenant)},
		},
	}
	if network {
		r.Reason = events.WaitingNetworkFull
	}
	return r
}

// TestListAgainstASlice compares the list with a slice after random changes.
func TestListAgainstASlice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		list, model := waitlist.New(), slice{}
		for sequence := uint64(1); sequence < 120; sequence++ {
			switch random.IntN(5) {
			case 0, 1, 2:
				r := request(sequence, random.IntN(3), random.IntN(4), random.IntN(6), random.IntN(4) == 0)
				if len(model) > 0 && random.IntN(6) == 0 { // the same request again, for a new reason
					r.Subject = model[random.IntN(len(model))].Subject
				}
				model.remove(r.Subject)
				model = append(model, list.Put(r))
			case 3:
				if len(model) > 0 {
					gone := model[random.IntN(len(model))]
					model.remove(gone.Subject)
					list.Remove(gone.Subject)
					if !gone.Gone() {
						t.Fatalf("seed %d: %s is removed and not gone", seed, gone.Subject)
					}
				}
			case 4:
				if len(model) > 0 {
					list.LookAt(model[random.IntN(len(model))], begin.Add(time.Duration(random.IntN(9))*time.Minute))
				}
			}
			if err := model.same(list); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, sequence, err)
			}
		}
		model.drains(t, list)
	}
}

// slice is the model: entries as they came.
type slice []*waitlist.Entry

func (s *slice) remove(subject string) {
	*s = slices.DeleteFunc(*s, func(e *waitlist.Entry) bool { return e.Subject == subject })
}

func (s slice) where(is func(*waitlist.Entry) bool) []*waitlist.Entry {
	var found []*waitlist.Entry
	for _, e := range s {
		if is(e) {
			found = append(found, e)
		}
	}
	return found
}

// same compares the results of all queries with the model.
func (s slice) same(list *waitlist.List) error {
	var all []*waitlist.Entry
	list.All(func(e *waitlist.Entry) bool { all = append(all, e); return true })
	if !slices.Equal(all, s) || list.Len() != len(s) {
		return fmt.Errorf("the list has %d entries, in another order or not those %d", list.Len(), len(s))
	}
	var pools []string
	for _, e := range s {
		if !slices.Contains(pools, e.Pool) {
			pools = append(pools, e.Pool)
		}
	}
	if got := list.Pools(); !slices.Equal(got, pools) {
		return fmt.Errorf("pools %v, want %v", got, pools)
	}
	for p := range 3 {
		pool := fmt.Sprintf("p%d", p)
		of := s.where(func(e *waitlist.Entry) bool { return e.Pool == pool })
		lack := slice(of).where(func(e *waitlist.Entry) bool { return e.Reason.Network() })
		if n, network := list.Size(pool); n != len(of) || network != len(lack) || list.Has(pool) != (n > 0) {
			return fmt.Errorf("%s has %d requests, %d for blocks, want %d, %d", pool, n, network, len(of), len(lack))
		}
		for n := range 6 {
			runtime := fmt.Sprintf("r%d", n)
			if want := slice(of).where(func(e *waitlist.Entry) bool { return e.Runtime == runtime }); !slices.Equal(list.OfRuntime(pool, runtime), want) {
				return fmt.Errorf("requests of %s for %s differ", runtime, pool)
			}
			tenant := fmt.Sprintf("t%d", n)
			e := list.First(pool, tenant)
			for _, want := range slice(of).where(func(e *waitlist.Entry) bool { return e.Tenant == tenant }) {
				if e != want {
					return fmt.Errorf("requests of %s for %s do not follow one another", tenant, pool)
				}
				e = list.Following(e)
			}
			if e != nil {
				return fmt.Errorf("%s has one more request for %s", tenant, pool)
			}
		}
	}
	return nil
}

// drains removes the entry that is due first until the list is empty.
func (s slice) drains(t *testing.T, list *waitlist.List) {
	t.Helper()
	for last := (time.Time{}); list.Len() > 0; {
		next, more := list.NextDue()
		if !more || next.Before(last) || list.Due(next.Add(-1)) != nil {
			t.Fatalf("the next is due at %s, after one at %s", next, last)
		}
		e := list.Due(next)
		last = next
		list.Remove(e.Subject)
	}
	if _, more := list.NextDue(); more || list.Due(begin.Add(time.Hour)) != nil {
		t.Fatal("something is due in an empty list")
	}
}

// TestNextGoesRound: Next returns each tenant's first request, and each request for network blocks, in turn.
func TestNextGoesRound(t *testing.T) {
	t.Parallel()
	list := waitlist.New()
	var want []string
	for n := range 40 {
		e := list.Put(request(uint64(n+1), 0, n%8, n, n%10 == 9))
		if n < 8 || n%10 == 9 {
			want = append(want, e.Subject)
		}
	}
	for range 2 {
		var met []string
		for range len(want) / 3 {
			for _, e := range list.Next(3) {
				met = append(met, e.Subject)
			}
		}
		if !slices.Equal(met, want) {
			t.Errorf("looked at are %v, want %v", met, want)
		}
	}
}

// TestRetain: Retain removes entries that have left the stream, and counts messages that are no requests.
func TestRetain(t *testing.T) {
	t.Parallel()
	list := waitlist.New()
	stays, leaves := list.Put(request(1, 0, 0, 0, false)), list.Put(request(2, 0, 1, 1, false))
	if unknown := list.Retain(map[string]uint64{stays.Subject: 1, "junk": 1}); unknown != 1 || list.Len() != 1 || !leaves.Gone() || stays.Gone() {
		t.Errorf("%d are unknown, %d stay", unknown, list.Len())
	}
}

// TestPutTheSame: a message that is read again keeps its entry and due time.
func TestPutTheSame(t *testing.T) {
	t.Parallel()
	list, r := waitlist.New(), request(3, 0, 0, 0, false)
	e := list.Put(r)
	list.LookAt(e, begin)
	if list.Put(r) != e || list.Due(begin) != e || list.Len() != 1 {
		t.Error("the same message has become another entry")
	}
}

// TestBack: after the clock was set back, entries that were due later than their deadline are due now.
func TestBack(t *testing.T) {
	t.Parallel()
	list := waitlist.New()
	over, soon := list.Put(request(1, 0, 0, 0, false)), list.Put(request(2, 0, 1, 1, false))
	list.LookAt(over, begin.Add(time.Hour))
	now := begin.Add(90 * time.Second)
	if list.Back(now); list.Due(now) != over {
		t.Error("the one that is over is not due")
	}
	if list.Remove(over.Subject); list.Due(now) != nil || list.Due(soon.Deadline) != soon {
		t.Error("the one that waits is due at another time than its deadline")
	}
}
