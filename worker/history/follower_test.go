package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/leaktest"
	_ "github.com/hap-worker/hap-worker/engine/rapidtest" // fixes the seed
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var noon = time.Date(2026, 11, 20, 12, 0, 5, 0, time.UTC)

// ledger is a ledger in memory.
type ledger struct {
	mu     sync.Mutex
	facts  []storage.Fact
	fails  error
	breaks int // if above 0, FactsAfter fails after so many facts
	slow   time.Duration
	visits int
}

func (l *ledger) End(context.Context) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.facts)), l.fails
}

func (l *ledger) FactsAfter(ctx context.Context, sequence uint64, visit func(storage.Fact) error) error {
	l.mu.Lock()
	facts := slices.Clone(l.facts)
	l.mu.Unlock()
	for i, f := range facts[min(int(sequence), len(facts)):] {
		if l.breaks > 0 && i == l.breaks {
			return errors.New("the connection is gone")
		}
		if l.slow > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(l.slow):
			}
		}
		l.visits++
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

func (l *ledger) store(facts ...storage.Fact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range facts {
		f.Position = uint64(len(l.facts) + 1)
		l.facts = append(l.facts, f)
	}
}

func assigned(runtime, tenant, binding string, decision int64, claimed bool, ago time.Duration) storage.Fact {
	return storage.Fact{
		RuntimeID: runtime, RequestID: "q-" + runtime, GlobalAccountID: tenant, Status: events.StatusAssigned, Pool: "aws", Binding: binding,
		Sequence: decision, Claimed: claimed, Time: noon.Add(-ago), Published: noon.Add(-ago - 20*time.Millisecond),
	}
}

func follow(t *testing.T, l *ledger) *Follower {
	t.Helper()
	return New(t.Context(), l, func() time.Time { return noon })
}

// TestFollower: each Look reads on, and replies are found by account and tenant.
func TestFollower(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	f := follow(t, l)
	if at := f.Look(t.Context()); !at.Done || at.Err != nil {
		t.Errorf("an empty ledger is read to %+v", at)
	}
	l.store(assigned("rt-1", "ga-1", "aws-1", 1, true, time.Hour), assigned("rt-2", "ga-1", "aws-1", 2, false, time.Minute), storage.Fact{Foreign: &events.Foreign{}})
	rejected := storage.Fact{RuntimeID: "rt-3", RequestID: "q-3", GlobalAccountID: "ga-2", Status: events.StatusRejected, Code: engine.CodeNoMatchingRule, Time: noon}
	l.store(rejected)
	for range 2 {
		f.Look(t.Context())
	}
	if l.visits != 4 {
		t.Errorf("%d replies were read, want each once", l.visits)
	}
	if at, more := f.Account("aws-1", 10); !slices.Equal(at, []uint64{2, 1}) || more != 0 {
		t.Errorf("the account's replies are at %v, and %d more", at, more)
	}
	if at, more := f.Tenant("ga-1", 1); !slices.Equal(at, []uint64{2}) || more != 1 {
		t.Errorf("the tenant's replies are at %v, and %d more", at, more)
	}
	if last := f.Last(2); len(last) != 2 || last[0].Status != events.StatusRejected || last[1].RuntimeID != "rt-2" {
		t.Errorf("the last are %+v", last)
	}
	if got := f.Tenants("ga-", 5); len(got) != 2 {
		t.Errorf("tenants are %v", got)
	}
	rates := f.Rates()
	if now := rates[Slots-1]; now.Answers != 1 || now.Rejected != 1 || now.Took.Quantile(.5) != 0 {
		t.Errorf("just now: %+v", now)
	}
	if before := rates[Slots-7]; before.Answers != 1 || before.Took.Quantile(.5) < 20*time.Millisecond {
		t.Errorf("a minute ago: %+v", before)
	}
}

// TestTenantOfThatNameComesFirst: of more tenants than are wanted, the one that has the text as its name is found.
func TestTenantOfThatNameComesFirst(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	for n := range 100 {
		l.store(storage.Fact{GlobalAccountID: fmt.Sprint("ga-", n)})
	}
	l.store(storage.Fact{GlobalAccountID: "ga-"})
	f := New(t.Context(), l, time.Now)
	for !f.Look(t.Context()).Done {
		continue
	}
	for range 20 {
		if found := f.Tenants("ga-", 3); len(found) != 3 || found[0] != "ga-" {
			t.Fatalf("found %q", found)
		}
	}
	if found := f.Tenants("ga-1", 200); len(found) != 11 || found[0] != "ga-1" || slices.Contains(found[1:], "ga-1") {
		t.Errorf("found %q", found)
	}
}

// TestSealsAtTheEndAreReadOnce: replies at the end of the ledger that are no facts, such as seals, are not read again
// by each Look.
func TestSealsAtTheEndAreReadOnce(t *testing.T) {
	t.Parallel()
	l := &sealed{ledger: &ledger{}}
	l.store(storage.Fact{GlobalAccountID: "ga-1"})
	f := New(t.Context(), l, time.Now)
	for range 3 {
		for !f.Look(t.Context()).Done {
			continue
		}
	}
	if l.after[0] != 0 || len(l.after) != 1 {
		t.Errorf("the ledger was read after %v, want after 0 once", l.after)
	}
	l.store(storage.Fact{GlobalAccountID: "ga-1"})
	for len(l.after) < 2 {
		f.Look(t.Context())
	}
	if at, _ := f.Tenant("ga-1", 5); !slices.Equal(at, []uint64{2, 1}) || l.after[1] != 1 {
		t.Errorf("a reply behind them is read after %v, the tenant's are at %v", l.after, at)
	}
}

// sealed is a ledger with five seals at its end. It notes where it is read from.
type sealed struct {
	*ledger
	after []uint64
}

func (s *sealed) End(ctx context.Context) (uint64, error) {
	end, err := s.ledger.End(ctx)
	return end + 5, err
}

func (s *sealed) FactsAfter(ctx context.Context, sequence uint64, visit func(storage.Fact) error) error {
	s.after = append(s.after, sequence)
	return s.ledger.FactsAfter(ctx, sequence, visit)
}

// TestRepeatsOfAnAccount: a reply that repeats a decision says nothing new of its account. A reply without a
// number does.
func TestRepeatsOfAnAccount(t *testing.T) {
	t.Parallel()
	left := func(request string, decision int64) storage.Fact {
		f := assigned("rt-1", "ga-1", "aws-1", decision, false, time.Minute)
		f.Status, f.RequestID = events.StatusReleased, request
		return f
	}
	l := &ledger{}
	l.store(
		assigned("rt-1", "ga-1", "aws-1", 1, true, 40*24*time.Hour), assigned("rt-1", "ga-1", "aws-1", 1, false, time.Hour), left("q-2", 2), left("q-3", 2),
		assigned("rt-2", "ga-1", "aws-1", 0, false, time.Minute), assigned("rt-3", "ga-1", "aws-1", 0, false, time.Minute),
	)
	f := follow(t, l)
	f.Look(t.Context())
	if at, more := f.Account("aws-1", 10); !slices.Equal(at, []uint64{6, 5, 3, 1}) || more != 0 {
		t.Errorf("the account's replies are at %v, and %d more", at, more)
	}
	if at, _ := f.Tenant("ga-1", 10); len(at) != 6 {
		t.Errorf("the tenant's replies are at %v", at)
	}
}

// TestALedgerThatBreaks: after an error, the next Look reads on. If the stream was recreated, it reads from
// the start.
func TestALedgerThatBreaks(t *testing.T) {
	t.Parallel()
	l := &ledger{breaks: 3}
	for i := range 5 {
		l.store(assigned(fmt.Sprint("rt-", i), "ga-1", "aws-1", int64(i+1), i == 0, time.Minute))
	}
	f := follow(t, l)
	if at := f.Look(t.Context()); at.Done || !at.Whole.IsZero() || at.Err == nil || at.Read != 3 || at.End != 5 {
		t.Errorf("after a failure: %+v", at)
	}
	if at := f.Look(t.Context()); !at.Done || at.Whole.IsZero() || at.Err != nil || at.Read != 5 || l.visits != 5 {
		t.Errorf("after the second look: %+v, %d visits", at, l.visits)
	}
	l.mu.Lock()
	l.facts = nil
	l.mu.Unlock()
	l.store(assigned("rt-9", "ga-9", "aws-9", 1, true, 0))
	f.Look(t.Context())
	f.Look(t.Context())
	if of, _ := f.Account("aws-1", 10); of != nil {
		t.Errorf("what the ledger has no more is at %v", of)
	}
	if of, _ := f.Account("aws-9", 10); len(of) != 1 {
		t.Errorf("what the new one has is at %v", of)
	}
}

// TestALongLedgerIsNotWaitedFor: a long read continues in the background, one for all viewers.
func TestALongLedgerIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{slow: 100 * time.Millisecond}
		for i := range 30 {
			l.store(assigned(fmt.Sprint("rt-", i), "ga-1", "aws-1", int64(i+1), i == 0, time.Minute))
		}
		f := follow(t, l)
		begun := time.Now()
		if at := f.Look(t.Context()); at.Done || time.Since(begun) != patience || at.Read == 0 {
			t.Errorf("after %s: %+v", time.Since(begun), at)
		}
		time.Sleep(5 * time.Second)
		if at := f.Look(t.Context()); !at.Done || l.visits != 30 {
			t.Errorf("later: %+v, %d visits", at, l.visits)
		}
	})
}

// TestTheFollowerIsBounded: memory is bounded, however many names and replies there are.
func TestTheFollowerIsBounded(t *testing.T) {
	t.Parallel()
	of := trails{}
	for i := range uint64(3 * most) {
		of.add(fmt.Sprint("ga-", i), 2*i+1)
		of.add("ga-busy", 2*i+2)
	}
	at, more := of.of("ga-busy", 3)
	if len(of) > most || !slices.Equal(at, []uint64{6 * most, 6*most - 2, 6*most - 4}) || more != 3*most-3 || cap(of["ga-busy"].sequences) > 4*longest {
		t.Errorf("%d names; the busy one's are at %v, and %d more", len(of), at, more)
	}
	if got, _ := of.of(fmt.Sprint("ga-", 3*most-1), 3); len(got) != 1 {
		t.Error("the last name is forgotten")
	}
}

// TestLevels computes levels backwards through claims, releases, arrivals and departures. None counts twice.
func TestLevels(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	l.store(
		assigned("rt-0", "ga-1", "aws-0", 1, true, 40*24*time.Hour), // before every window
		assigned("rt-1", "ga-1", "aws-1", 2, true, 20*24*time.Hour),
		assigned("rt-2", "ga-1", "aws-1", 3, false, 3*time.Hour),
		assigned("rt-2", "ga-1", "aws-1", 3, false, 2*time.Hour), // the same answer under another id
		storage.Fact{RuntimeID: "rt-1", RequestID: "q-4", GlobalAccountID: "ga-1", Status: events.StatusReleased, Pool: "aws", Binding: "aws-1", Sequence: 4, Time: noon.Add(-time.Hour)},
		storage.Fact{RequestID: "q-5", Status: events.StatusReturned, Pool: "aws", Binding: "aws-7", Time: noon.Add(-30 * time.Minute)},
		storage.Fact{RuntimeID: "rt-5", RequestID: "q-5", Status: events.StatusRejected, Pool: "aws", Sequence: 6, Code: engine.CodePoolExhausted, Time: noon},
	)
	f := follow(t, l)
	f.Look(t.Context())
	day := Levels(f.Changes("aws", Day()), Level{Accounts: 2, Clusters: 2})
	if n := len(day); n != 96 || day[0] != (Level{3, 2}) || day[n-10] != (Level{3, 3}) || day[n-4] != (Level{3, 2}) || day[n-1] != (Level{2, 2}) {
		t.Errorf("over a day: %v", day)
	}
	month := Levels(f.Changes("aws", Month()), Level{Accounts: 2, Clusters: 2})
	if n := len(month); n != 120 || month[0] != (Level{2, 1}) || month[n-3] != (Level{3, 2}) || month[n-2] != (Level{2, 2}) {
		t.Errorf("over a month: %v", month)
	}
	if none := Levels(f.Changes("gcp", Day()), Level{1, 1}); none[0] != (Level{1, 1}) {
		t.Errorf("a pool without changes: %v", none[0])
	}
}

// TestQuantiles compares quantiles with the durations: a quantile is never too low, and at most 50 % too high.
func TestQuantiles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		took := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(60*time.Second)).Draw(t, "took"))
		}), 1, 200).Draw(t, "durations")
		q := rapid.Float64Range(.01, 1).Draw(t, "quantile")
		var h Histogram
		for _, d := range took {
			h.Add(d)
		}
		slices.Sort(took)
		want := took[int(math.Ceil(q*float64(len(took))))-1]
		got := h.Quantile(q)
		if got < want-time.Microsecond || float64(got) > 1.4143*float64(max(want, firstStep)) {
			t.Fatalf("the %g quantile is %s, told %s", q, want, got)
		}
	})
}
