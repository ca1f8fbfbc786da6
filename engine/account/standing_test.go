package account_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// mark is one label of a binding.
type mark int

const (
	named mark = 1 << iota
	dirty
	internal
	shared
	cordoned
	deleting
	duplicate
	everyMark
)

func (m mark) binding() *engine.Binding {
	b := &engine.Binding{
		Name: "b", HyperscalerType: "aws", Dirty: m&dirty != 0, Internal: m&internal != 0, Shared: m&shared != 0, Cordoned: m&cordoned != 0, Deleting: m&deleting != 0,
	}
	if m&duplicate != 0 {
		b.SameSecretAs = "a"
	}
	if m&named != 0 {
		b.Tenant = "t"
	}
	return b
}

// standing is a row of the table; an empty used means the record's own state.
type standing struct {
	marks mark

	unread, absent, counted, used, unheardOf account.State
}

// standings has the words by labels (the first row whose marks are all set) and by record: not read, absent,
// free with runtimes, one of the four states of use, and a state that no version writes.
var standings = []standing{
	{dirty, "unknown", "dirty", "dirty", "dirty", "dirty"},
	{shared | deleting, "unknown", "deleting", "deleting", "deleting", "deleting"},
	{shared | internal, "unknown", "internal", "internal", "internal", "internal"},
	{shared | cordoned, "unknown", "cordoned", "cordoned", "cordoned", "cordoned"},
	{shared | duplicate, "unknown", "duplicate", "duplicate", "duplicate", "duplicate"},
	{shared, "unknown", "shared", "shared", "shared", "shared"},
	{named, "unknown", "claimed", "held", "", "unknown"},
	{deleting, "unknown", "deleting", "held", "", "unknown"},
	{internal, "unknown", "internal", "held", "", "unknown"},
	{cordoned, "unknown", "cordoned", "held", "", "unknown"},
	{duplicate, "unknown", "duplicate", "held", "", "unknown"},
	{0, "unknown", "free", "held", "", "unknown"},
}

// TestStanding checks every combination of labels and records: the word is the table's, whatever the other
// fields of the record are.
func TestStanding(t *testing.T) {
	t.Parallel()
	met := map[account.State]bool{}
	check := func(b *engine.Binding, rec *account.Record, want account.State) {
		t.Helper()
		got := account.Standing(b, rec)
		if got != want || got != account.Standing(b, rec) || !slices.Contains(account.States(), got) {
			t.Errorf("%+v with %+v: %q, want %q", b, rec, got, want)
		}
		met[got] = true
	}
	check(nil, nil, account.Unknown)
	for m := range everyMark {
		row := standings[slices.IndexFunc(standings, func(s standing) bool { return m&s.marks == s.marks })]
		check(m.binding(), nil, row.unread)
		for rec := range everyRecord {
			check(m.binding(), &rec, row.of(rec))
			check(nil, &rec, account.Missing)
		}
	}
	for _, s := range account.States() {
		if !met[s] {
			t.Errorf("nothing leads to %s", s)
		}
	}
}

func (s standing) of(rec account.Record) account.State {
	switch empty := rec.State == account.Free || rec.State == ""; {
	case rec.State == "cleaning":
		return s.unheardOf
	case empty && rec.Count > 0:
		return s.counted
	case empty:
		return s.absent
	default:
		return cmp.Or(s.used, rec.State)
	}
}

// everyRecord yields records that differ in each field that a state could depend on.
func everyRecord(yield func(account.Record) bool) {
	for _, state := range []account.State{"", account.Free, account.Claiming, account.InUse, account.Draining, account.Dirtying, "cleaning"} {
		for _, tenant := range []string{"", "t", "u"} {
			for n := range 16 {
				rec := account.Record{State: state, Tenant: tenant, Generation: int64(n & 1), Confirmed: n&2 != 0, Count: n & 4, Pristine: n&8 != 0}
				if !yield(rec) {
					return
				}
			}
		}
	}
}

// TestOnlyFreeIsClaimed compares the words with the decision, for accounts of no tenant or of another one: of
// the accounts that the labels offer, exactly the free ones are claimed.
func TestOnlyFreeIsClaimed(t *testing.T) {
	t.Parallel()
	for rec := range everyRecord {
		if rec.State == "cleaning" || rec.State == "" || rec.State != account.Free && rec.Tenant != "u" {
			continue
		}
		known := map[string]account.Record{}
		if rec.State != account.Free || rec.Count > 0 {
			known["b"] = rec
		}
		for _, m := range []mark{0, dirty, internal, cordoned, deleting, dirty | internal, internal | cordoned} {
			p := account.NewPool()
			if !p.BeginRebuild("e", time.Time{}, time.Hour) || !p.Install("e", account.Snapshot{Bindings: known}) {
				t.Fatal("the pool is not built")
			}
			ask := account.Request{Runtime: "r", Request: "q", Tenant: "t", All: true}
			if m == 0 {
				ask.Seen = []account.Seen{{Binding: "b"}}
			}
			d, err := p.Assign(ask)
			if err != nil {
				t.Fatal(err)
			}
			if free := account.Standing(m.binding(), &rec) == account.Free; free != (d.Outcome == account.Assigned) {
				t.Errorf("%+v with %+v: free is %t, the decision %+v", m.binding(), rec, free, d)
			}
		}
	}
}
