package history

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// TestBack: a window has at least the requested length, and steps of whole seconds.
func TestBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ ask, step time.Duration }{
		{24 * time.Hour, 24 * time.Minute}, {30 * 24 * time.Hour, 12 * time.Hour}, {time.Minute, time.Second}, {0, time.Second},
		{time.Hour + time.Second, 61 * time.Second}, {time.Minute + time.Nanosecond, 2 * time.Second},
	} {
		w := Back(c.ask, 60)
		if w.Step != c.step || w.Length() < c.ask || w.Steps != 60 {
			t.Errorf("%s is asked for: %+v", c.ask, w)
		}
	}
}

// TestOccupancyOfAnyWindow: only changes within the window count.
func TestOccupancyOfAnyWindow(t *testing.T) {
	t.Parallel()
	w := Back(2*time.Hour, 60)
	o := NewOccupancy(func() time.Time { return noon }, w)
	o.Take(assigned("rt-0", "ga-1", "aws-0", 1, true, 3*time.Hour))
	o.Take(assigned("rt-1", "ga-1", "aws-1", 2, true, time.Hour))
	o.Take(assigned("rt-2", "ga-1", "aws-1", 3, false, 10*time.Minute))
	got := Levels(o.Changes("aws", w), Level{Accounts: 2, Clusters: 3})
	if len(got) != 60 || got[0] != (Level{1, 1}) || got[28] != (Level{1, 1}) || got[29] != (Level{2, 2}) || got[59] != (Level{2, 3}) {
		t.Errorf("over two hours: %v", got)
	}
	if none := o.Changes("aws", Day()); len(none) != 96 || slices.ContainsFunc(none, func(c Change) bool { return c != (Change{}) }) {
		t.Errorf("a window that is not kept: %v", none)
	}
}

// TestOccupancyIsBounded: a million replies take no more memory than their sums.
func TestOccupancyIsBounded(t *testing.T) {
	const replies, most = 1_000_000, 4 << 20
	w := Back(30*24*time.Hour, 60)
	before := heap()
	o := NewOccupancy(func() time.Time { return noon }, w)
	for i := range replies {
		o.Take(storage.Fact{
			RuntimeID: fmt.Sprint("rt-", i), GlobalAccountID: fmt.Sprint("ga-", i%10_000), Status: events.StatusAssigned, Claimed: i%100 == 0,
			Pool: fmt.Sprint("pool-", i%8), Binding: fmt.Sprint("aws-", i%5_000), Sequence: int64(i/8 + 1), Time: noon.Add(-time.Duration(replies-i) * 2 * time.Second),
		})
	}
	if grown := heap() - before; grown > most {
		t.Errorf("%d replies keep %d bytes, want at most %d", replies, grown, most)
	}
	came := 0
	for i := range 8 {
		for _, c := range o.Changes(fmt.Sprint("pool-", i), w) {
			came += c.Came
		}
	}
	if came != replies {
		t.Errorf("%d clusters came, want %d", came, replies)
	}
	runtime.KeepAlive(o)
}

// heap returns the number of heap bytes in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestOccupancyOfAnOldDecision: an extra reply about a cluster that came before the window is no arrival.
func TestOccupancyOfAnOldDecision(t *testing.T) {
	t.Parallel()
	w := Month()
	o := NewOccupancy(func() time.Time { return noon }, w)
	o.Take(assigned("rt-0", "ga-1", "aws-1", 1, true, 40*24*time.Hour))
	o.Take(assigned("rt-0", "ga-1", "aws-1", 1, false, time.Hour))
	o.Take(assigned("rt-1", "ga-1", "aws-1", 2, false, time.Hour))
	came := 0
	for _, c := range o.Changes("aws", w) {
		came += c.Came
	}
	if came != 1 {
		t.Errorf("%d clusters came, want 1", came)
	}
}
