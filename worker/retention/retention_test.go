package retention

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Runtimes that were released long ago are deleted from ledger and Redis; nothing else changes.
func TestRetention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newRetained(t)
		x.assign("anchor", "aws")
		x.lived("old", kept+time.Hour)
		x.lived("young", kept-time.Hour)
		// A deprovision of an unknown runtime.
		place, _ := x.tombs.Depart(t.Context(), "unknown")
		x.ledger.put(x.now.Add(-2*kept), events.Reply{
			RequestID: "d-unknown", RuntimeID: "unknown", Status: events.StatusReleased, Decision: &events.Decision{Sequence: place.Sequence},
		})
		before := x.forgotten("young")
		x.r.Once(t.Context())
		for _, runtime := range []string{"old", "unknown"} {
			if left := x.forgotten(runtime); len(left) > 0 {
				t.Errorf("%s is still known: %v", runtime, left)
			}
		}
		if left := x.forgotten("young"); len(left) != 4 || !slices.Equal(left, before) {
			t.Errorf("young: %v, before %v", left, before)
		}
		if len(x.passes) != 1 || x.passes[0].Purged != 2 || x.passes[0].Forgotten != 3 || x.passes[0].Err != nil {
			t.Errorf("passes %v", x.passes)
		}
		x.r.Once(t.Context())
		if last := x.passes[1]; last.Purged+last.Forgotten != 0 {
			t.Errorf("the second pass did %v", last)
		}
	})
}

// Each of these reasons keeps a runtime that was released long ago, with all its replies and records.
func TestRetentionKeeps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		because observe.KeptBecause
		edit    func(*retained)
	}{
		{observe.KeptYounger, func(x *retained) {
			x.ledger.put(x.now.Add(-time.Hour), events.Reply{RuntimeID: "old", RequestID: "q", Status: events.StatusRejected})
		}},
		{observe.KeptYounger, func(x *retained) {
			x.ledger.put(x.now.Add(-time.Hour), events.Reply{RuntimeID: "old", RequestID: "q", Status: events.StatusSealed})
		}},
		{observe.KeptInForce, func(x *retained) {
			x.ledger.put(x.now.Add(-kept-time.Minute), events.Reply{
				RuntimeID: "old", RequestID: "q", Status: events.StatusAssigned,
				Binding: &events.Binding{Name: "aws-1"}, Decision: &events.Decision{Sequence: 1000, Pool: "aws"},
			})
		}},
		{observe.KeptWaiting, func(x *retained) {
			x.ledger.put(x.now.Add(-2*kept), events.Reply{RuntimeID: "old", RequestID: "q", Status: events.StatusWaiting})
		}},
		{observe.KeptWaiting, func(x *retained) { x.r.Room = waitsFake{runtime: "old"} }},
		{observe.KeptBacklog, func(x *retained) {
			x.ledger.backlog = storage.Backlog{First: 3, Last: 100, Oldest: x.now.Add(-kept - time.Hour)}
		}},
		{observe.KeptShoot, func(x *retained) { x.r.Gardener = shootsFake{{Name: "c", RuntimeID: "old", Binding: "aws-1"}} }},
		{observe.KeptShoot, func(x *retained) { x.r.Gardener = shootsFake{{Name: "old", Binding: "aws-1"}} }},
		{observe.KeptDraining, func(x *retained) { x.leave("anchor", 0) }},
		{observe.KeptDraining, func(x *retained) { // its release was deleted by hand before it was answered
			x.leave("anchor", 0)
			for i := range x.ledger.stored {
				if r := &x.ledger.stored[i].Reply; r.RuntimeID == "old" && r.Status == events.StatusReleased {
					r.Status, r.Binding = events.StatusRejected, nil
					r.Error = &events.ReplyError{Code: engine.CodeSuperseded}
				}
			}
		}},
		{observe.KeptDraining, func(x *retained) {
			x.vacate()
			x.r.Gardener = shootsFake{{Name: "other", Binding: "aws-1"}}
		}},
		{observe.KeptDraining, func(x *retained) { x.vacate() }}, // Gardener refuses the mark
		{observe.KeptBlocks, func(x *retained) { x.r.Blocks = blocksFake{"old": true} }},
		{observe.KeptBlocks, func(x *retained) {
			x.r.Notes = notedFake{notes: network.Notes{Configs: []network.Note{{Runtime: "old"}}}}
		}},
		{observe.KeptDiffers, func(x *retained) { // Redis has lost the last changes, unnoticed
			rt, _ := x.tombs.RuntimeIn(x.t.Context(), "aws", "old")
			if dropped, err := x.tombs.Forget(x.t.Context(), "aws", "old", rt.Sequence); !dropped || err != nil {
				x.t.Fatal(dropped, err)
			}
			x.assign("old", "aws")
		}},
		{observe.KeptNotBuilt, func(x *retained) { x.tombs.Pool("aws").Discard() }},
	} {
		t.Run(string(c.because), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x := newRetained(t)
				x.assign("anchor", "aws")
				x.lived("old", kept+time.Hour)
				c.edit(x)
				before := x.forgotten("old")
				x.r.Once(t.Context())
				if left := x.forgotten("old"); !slices.Equal(left, before) {
					t.Errorf("left is %v of %v", left, before)
				}
				if len(x.passes) != 1 || x.passes[0].Purged+x.passes[0].Forgotten != 0 || x.passes[0].Kept[c.because] != 1 || x.passes[0].Err != nil {
					t.Errorf("passes %v", x.passes)
				}
			})
		})
	}
}

// Once the label of the account is dirty, a rebuild needs no release to know it.
func TestRetentionOfMarkedAccounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newRetained(t)
		x.assign("anchor", "aws")
		x.lived("old", kept+time.Hour)
		x.vacate()
		x.r.Gardener = markedFake{binding: "aws-1", shootsFake: shootsFake{{Name: "other", Binding: "aws-1"}}}
		x.r.Once(t.Context())
		if left := x.forgotten("old"); len(left) > 0 || x.passes[0].Purged != 1 {
			t.Errorf("left is %v after %v", left, x.passes)
		}
	})
}

// A rebuild may have read the assignment before the pass begins, and then has to find the release. So the
// release is deleted only when that rebuild can no longer install anything.
func TestRetentionDuringRebuild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newRetained(t)
		x.assign("anchor", "aws")
		x.lived("old", kept+time.Hour)
		x.ledger.onForget = func() { x.tombs.Pool("aws").Discard() } // and a worker rebuilds
		x.r.Once(t.Context())
		if left := x.ledger.statuses("old"); !slices.Equal(left, []events.Status{events.StatusReleased}) {
			t.Errorf("the ledger has %v", left)
		}
		if !slices.Equal(x.wanted, rebuilds{"aws"}) || x.passes[0].Kept[observe.KeptNotBuilt] != 1 {
			t.Errorf("wanted %v, passes %v", x.wanted, x.passes)
		}
	})
}

// A provision of a runtime that is being forgotten is superseded, as long as the ledger has that answer. The
// runtime is never counted in a pool where no deprovision finds it.
func TestRetentionAskedForMeanwhile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		ask  int  // call of Backlog: the third is after the entry became tentative
		gone bool // the entry says so
	}{{"before the entry is tentative", 2, false}, {"after the entry is tentative", 3, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x := newRetained(t)
				x.assign("anchor", "aws")
				x.lived("old", kept+time.Hour)
				located := account.Place{}
				x.ledger.onAsk = func(n int) {
					if n == c.ask {
						located, _ = x.tombs.Locate(t.Context(), "old", "aws")
					}
					if n != 3 {
						return
					}
					if located.Gone != c.gone {
						t.Errorf("the second provision finds %+v", located)
					}
					d := account.Decision{Outcome: account.Superseded, Sequence: located.Sequence}
					if !located.Gone {
						d = x.assign("old", located.Pool)
					}
					if d.Outcome != account.Superseded {
						t.Errorf("the second provision is %s", d.Outcome)
					}
					x.ledger.put(x.now, events.Reply{
						RequestID: "q", RuntimeID: "old", Status: events.StatusRejected, Error: &events.ReplyError{Code: engine.CodeSuperseded},
						Decision: &events.Decision{Sequence: d.Sequence, Pool: located.Pool},
					})
				}
				x.r.Once(t.Context())
				want := []string{"reply rejected", "place", "aws gone"}
				if left := x.forgotten("old"); !slices.Equal(left, want) {
					t.Errorf("left is %v, want %v", left, want)
				}
				// When that answer is old enough, everything is deleted, a record that it does not name by the pass after it.
				x.ledger.onAsk, x.ledger.stored[0].Time = nil, x.now.Add(-2*kept)
				x.r.Once(t.Context())
				x.r.Once(t.Context())
				if left := x.forgotten("old"); len(left) > 0 {
					t.Errorf("left is %v", left)
				}
			})
		})
	}
}

// A deprovision that comes again after the runtime was forgotten, and finds the entry still, is answered that the
// runtime is gone. A provision that is published then does not get an account, as the ledger has that answer.
func TestRetentionDeprovisionedMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newRetained(t)
		x.assign("anchor", "aws")
		place, err := x.tombs.Depart(t.Context(), "old")
		if err != nil {
			t.Fatal(err)
		}
		released := events.Reply{RequestID: "d", RuntimeID: "old", Status: events.StatusReleased, Decision: &events.Decision{Sequence: place.Sequence}}
		x.ledger.put(x.now.Add(-2*kept), released)
		x.ledger.onAsk = func(n int) {
			if n == 3 { // the ledger was purged, and the entry is tentative
				x.ledger.put(x.now, released)
				if place, _ := x.tombs.Locate(t.Context(), "old", "aws"); !place.Gone {
					t.Errorf("the runtime may be assigned in %+v, and the ledger has it as gone", place)
				}
			}
		}
		x.r.Once(t.Context())
		if left := x.forgotten("old"); !slices.Equal(left, []string{"reply released", "place"}) {
			t.Errorf("left is %v", left)
		}
	})
}

// A reply that is stored between the read of the replies and their purge stays, as do the records in Redis.
func TestRetentionAnsweredMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newRetained(t)
		x.assign("anchor", "aws")
		x.lived("old", kept+time.Hour)
		x.ledger.onForget = func() {
			x.ledger.onForget = nil
			d := x.assign("old", "aws")
			x.ledger.put(x.now, events.Reply{
				RequestID: "q", RuntimeID: "old", Status: events.StatusRejected, Error: &events.ReplyError{Code: engine.CodeSuperseded},
				Decision: &events.Decision{Sequence: d.Sequence, Pool: "aws"},
			})
		}
		x.r.Once(t.Context())
		want := []string{"reply rejected", "place", "aws gone"}
		if left := x.forgotten("old"); !slices.Equal(left, want) {
			t.Errorf("left is %v, want %v", left, want)
		}
	})
}

// What may have been read stays: all of it if an event of that time is not settled, and the entry if anyone has asked
// for the place since. Then the runtime is gone without its record.
func TestRetentionRecordOutlives(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		do      func(*retained)
		left    []string
		backlog int // runtimes that are reported as kept by it
	}{
		{"an event is in work", func(x *retained) { x.ledger.backlog = storage.Backlog{First: 101, Last: 101, Oldest: x.now} }, []string{"place", "aws gone"}, 1},
		{"its place is asked for", func(x *retained) { _, _ = x.tombs.Locate(x.t.Context(), "old", "aws") }, []string{"place"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x := newRetained(t)
				x.assign("anchor", "aws")
				x.lived("old", kept+time.Hour)
				x.ledger.onAsk = func(n int) {
					if n == 3 { // the entry is tentative
						c.do(x)
					}
				}
				x.r.Once(t.Context())
				if left := x.forgotten("old"); !slices.Equal(left, c.left) || x.passes[0].Kept[observe.KeptBacklog] != c.backlog {
					t.Errorf("left is %v, want %v; passes %v", left, c.left, x.passes)
				}
			})
		})
	}
}

// A slow worker does nothing if another one has forgotten the runtime, and the runtime exists again.
func TestRetentionBehindAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newRetained(t)
		x.assign("anchor", "aws")
		x.lived("old", kept+time.Hour)
		purges := 0
		x.ledger.onForget = func() {
			if purges++; purges < 2 {
				return // the pass reads Redis after this call
			}
			ctx := t.Context()
			rt, _ := x.tombs.RuntimeIn(ctx, "aws", "old")
			place, _ := x.tombs.Place(ctx, "old")
			entry, err := x.tombs.ForgetPlace(ctx, "old", place)
			record, failed := x.tombs.Forget(ctx, "aws", "old", rt.Sequence)
			if !entry || !record || err != nil || failed != nil {
				t.Fatal(entry, record, err, failed)
			}
			_, _ = x.tombs.Locate(ctx, "old", "aws")
			x.assign("old", "aws")
		}
		x.r.Once(t.Context())
		if left := x.forgotten("old"); !slices.Equal(left, []string{"place", "aws assigned"}) {
			t.Errorf("left is %v", left)
		}
	})
}

// The next pass finishes one that was interrupted. It leaves releases that are decided and not answered yet,
// although these look alike.
func TestRetentionDies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newRetained(t)
		x.assign("anchor", "aws")
		x.lived("old", kept+time.Hour)
		x.tombs.down = errDown
		x.r.Once(t.Context())
		if left := x.forgotten("old"); !slices.Equal(left, []string{"place", "aws gone"}) || x.passes[0].Err == nil {
			t.Fatalf("left is %v, passes %v", left, x.passes)
		}
		x.tombs.down = nil
		// The deprovision of an unknown runtime is decided.
		if _, err := x.tombs.Depart(t.Context(), "unknown"); err != nil {
			t.Fatal(err)
		}
		x.ledger.backlog = storage.Backlog{First: 100, Last: 100, Oldest: x.now}
		x.r.Once(t.Context())
		if left := x.forgotten("old"); !slices.Equal(left, []string{"place", "aws gone"}) {
			t.Fatalf("left is %v", left)
		}
		if left := x.forgotten("unknown"); !slices.Equal(left, []string{"place"}) || x.passes[1].Kept[observe.KeptBacklog] != 2 {
			t.Fatalf("of an unknown runtime, left is %v, passes %v", left, x.passes)
		}
		x.ledger.backlog = storage.Backlog{First: 101, Last: 100}
		x.r.Gardener = shootsFake{{Name: "old"}}
		x.r.Once(t.Context())
		if left := x.forgotten("old"); !slices.Equal(left, []string{"place", "aws gone"}) {
			t.Fatalf("left is %v", left)
		}
		x.r.Gardener = shootsFake{}
		x.r.Once(t.Context())
		if left := x.forgotten("old"); len(left) > 0 {
			t.Errorf("left is %v, passes %v", left, x.passes)
		}
	})
}

// A pass takes the oldest runtimes first, up to its limit, and the next pass follows at once. Runtimes that
// are kept do not block the others.
func TestRetentionLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newRetained(t)
		x.r.Limit = 2
		x.assign("anchor", "aws")
		var shoots shootsFake
		for n := range 9 {
			id := fmt.Sprint("rt-", n)
			x.lived(id, kept+time.Duration(20-n)*time.Hour)
			if n < 3 {
				shoots = append(shoots, engine.Shoot{Name: id})
			}
		}
		x.r.Gardener = shoots
		x.r.Once(t.Context())
		var purged []int
		for _, pass := range x.passes {
			purged = append(purged, pass.Purged)
		}
		if !slices.Equal(purged, []int{0, 1, 2, 2, 1}) {
			t.Errorf("purged by pass: %v", purged)
		}
		for n := range 9 {
			if left := x.forgotten(fmt.Sprint("rt-", n)); (len(left) == 0) != (n >= 3) {
				t.Errorf("rt-%d: %v", n, left)
			}
		}
	})
}

// A pass reads the old replies of the ledger, and on only while a tombstone lacks a reply.
func TestRetentionReads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ages []time.Duration // of replies that say nothing of a release
		edit func(*retained)
		want int
	}{
		"none are old":                      {[]time.Duration{time.Hour, time.Minute}, func(*retained) {}, 1},
		"two are old":                       {[]time.Duration{2 * kept, kept + 1, kept, time.Minute}, func(*retained) {}, 3},
		"NATS' clock was ahead for a while": {[]time.Duration{-time.Hour, 2 * kept, time.Minute, time.Minute}, func(*retained) {}, 3},
		"a tombstone has no reply":          {[]time.Duration{time.Hour, time.Minute}, func(x *retained) { _, _ = x.tombs.Depart(x.t.Context(), "gone") }, 2},
		"a tombstone has a young reply": {[]time.Duration{time.Hour, time.Minute, time.Minute}, func(x *retained) {
			_, _ = x.tombs.Depart(x.t.Context(), "q1")
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x := newRetained(t)
				for n, age := range c.ages {
					id := fmt.Sprintf("q%d", n)
					x.ledger.put(x.now.Add(-age), events.Reply{RuntimeID: id, RequestID: id, Status: events.StatusWaiting})
				}
				c.edit(x)
				x.r.Once(t.Context())
				if x.ledger.read != c.want || x.passes[0].Err != nil {
					t.Errorf("%d of %d facts are read, want %d; %v", x.ledger.read, len(c.ages), c.want, x.passes[0].Err)
				}
			})
		})
	}
}

// Passes begin about once an hour, the first one within an hour.
func TestRetentionRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newRetained(t)
		done := make(chan struct{})
		var at []time.Duration
		x.r.Observer.OnRetention = func(_ context.Context, _ observe.Retention) {
			at = append(at, time.Since(x.now))
			if len(at) == 4 {
				close(done)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		go x.r.Run(ctx)
		<-done
		cancel()
		synctest.Wait()
		for i, since := range at[1:] {
			if pause := since - at[i]; pause < time.Hour || pause > time.Hour+6*time.Minute {
				t.Errorf("pass %d comes %s after the one before it", i+2, pause)
			}
		}
		if at[0] > time.Hour {
			t.Errorf("the first pass comes after %s", at[0])
		}
	})
}
