package retention

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// rejected returns a rejection without a decision about an account.
func rejected(runtime, request string) events.Reply {
	return events.Reply{
		RequestID: request, RuntimeID: runtime, Status: events.StatusRejected, Error: &events.ReplyError{Code: engine.CodeNoMatchingRule},
	}
}

// TestRepliesApart: old replies without an account are deleted, whatever the state of their runtime. Replies
// that a rebuild needs stay.
func TestRepliesApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newRetained(t)
		ago := x.now.Add(-kept - time.Hour)
		d := x.assign("lives", "aws")
		x.ledger.put(ago, events.Reply{
			RequestID: "p-lives", RuntimeID: "lives", Status: events.StatusAssigned, GlobalAccountID: "ga",
			Binding: &events.Binding{Name: d.Binding}, Decision: &events.Decision{Sequence: d.Sequence, Pool: "aws"},
		})
		x.ledger.put(ago, events.Reply{RequestID: "q-1", RuntimeID: "lives", Status: events.StatusResolved})
		x.ledger.put(ago, events.Reply{RequestID: "r-1", Status: events.StatusReturned, Decision: &events.Decision{Pool: "aws"}})
		x.ledger.put(ago, rejected("never", "p-1"))
		x.ledger.put(ago, events.Reply{RequestID: "x-1", RuntimeID: "never", Status: events.StatusSealed})
		x.ledger.put(ago, events.Reply{RequestID: "p-2", RuntimeID: "full", Status: events.StatusRejected, Error: &events.ReplyError{Code: engine.CodePoolExhausted}, Decision: &events.Decision{Sequence: 3, Pool: "aws"}})
		x.ledger.put(x.now.Add(-time.Hour), events.Reply{RequestID: "r-2", Status: events.StatusReturned})
		x.r.Once(t.Context())
		var left []string
		for _, s := range x.ledger.stored {
			left = append(left, s.Reply.RequestID)
		}
		if want := []string{"p-lives", "x-1", "p-2", "r-2"}; !slices.Equal(left, want) {
			t.Errorf("left are %v, want %v", left, want)
		}
		if len(x.passes) != 1 || x.passes[0].Removed != 3 || x.passes[0].Err != nil {
			t.Errorf("passes %v", x.passes)
		}
	})
}

// TestRepliesApartLimit: more replies than a pass takes are deleted by further passes, also behind replies that
// have to stay.
func TestRepliesApartLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newRetained(t)
		x.r.Limit = 2
		ago := x.now.Add(-kept - time.Hour)
		for _, runtime := range []string{"rt-1", "rt-2"} {
			if _, err := x.tombs.Locate(t.Context(), runtime, "aws"); err != nil {
				t.Fatal(err)
			}
			x.assign(runtime, "aws")
			x.ledger.put(ago, rejected(runtime, "x-"+runtime)) // differs from Redis
		}
		for _, request := range []string{"q-1", "q-2", "q-3"} {
			x.ledger.put(ago, events.Reply{RequestID: request, RuntimeID: "rt-1", Status: events.StatusResolved})
		}
		full := rejected("never", "p-1")
		full.Error.Code = engine.CodeNetworkExhausted
		x.ledger.put(ago, full)
		x.r.Once(t.Context())
		var left []string
		for _, s := range x.ledger.stored {
			left = append(left, s.Reply.RequestID)
		}
		if want := []string{"x-rt-1", "x-rt-2"}; !slices.Equal(left, want) {
			t.Errorf("left are %v, want %v", left, want)
		}
		if len(x.passes) != 3 {
			t.Errorf("%d passes: %v", len(x.passes), x.passes)
		}
	})
}

// TestRepliesApartAreKept: each of these reasons keeps a rejection.
func TestRepliesApartAreKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		because observe.KeptBecause
		edit    func(*retained)
	}{
		{observe.KeptBacklog, func(x *retained) {
			x.ledger.backlog = storage.Backlog{First: 3, Last: 100, Oldest: x.now.Add(-kept - 2*time.Hour)}
		}},
		{observe.KeptWaiting, func(x *retained) { x.r.Room = waitsFake{runtime: "rt"} }},
		{observe.KeptDiffers, func(x *retained) {
			if _, err := x.tombs.Locate(x.t.Context(), "rt", "aws"); err != nil {
				x.t.Fatal(err)
			}
			x.assign("rt", "aws") // a worker that paused before it asked Redis, and died
		}},
		{observe.KeptNotBuilt, func(x *retained) {
			if _, err := x.tombs.Locate(x.t.Context(), "rt", "aws"); err != nil {
				x.t.Fatal(err)
			}
			x.tombs.Pool("aws").Discard()
		}},
	} {
		t.Run(string(c.because), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x := newRetained(t)
				x.ledger.put(x.now.Add(-kept-time.Hour), rejected("rt", "p-1"))
				c.edit(x)
				x.r.Once(t.Context())
				if len(x.ledger.stored) != 1 || len(x.passes) != 1 || x.passes[0].Kept[c.because] != 1 || x.passes[0].Removed != 0 {
					t.Errorf("left is %v after %v", x.ledger.stored, x.passes)
				}
			})
		})
	}
}
