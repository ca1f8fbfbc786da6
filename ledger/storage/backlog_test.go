package storage_test

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// The backlog says from which sequence and since when events are not settled.
func TestBacklog(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	if b, err := ledger.Backlog(within(t)); err != nil || b.First != 1 || b.Last != 0 || !b.Oldest.IsZero() {
		t.Fatalf("of nothing: %+v, %v", b, err)
	}
	for _, tenant := range []string{"ga-1", "ga-2", "ga-3"} {
		if _, err := js.Publish(within(t), subjects(t).Provision(tenant), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := js.Stream(within(t), events.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	second, err := stream.GetMsg(within(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(within(t), 1); err != nil {
		t.Fatal(err)
	}
	if b, err := ledger.Backlog(within(t)); err != nil || b.First != 2 || b.Last != 3 || !b.Oldest.Equal(second.Time) {
		t.Errorf("of two: %+v, %v; the second is of %s", b, err, second.Time)
	}
	if err := stream.Purge(within(t)); err != nil {
		t.Fatal(err)
	}
	if b, err := ledger.Backlog(within(t)); err != nil || b.First != 4 || b.Last != 3 || !b.Oldest.IsZero() {
		t.Errorf("of nothing any more: %+v, %v", b, err)
	}
}

// Forgetting deletes up to the given sequence, and nothing for 0.
func TestLedgerForget(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	for _, request := range []string{"1", "2", "3"} {
		r := assigned(request)
		r.RuntimeID = "rt-1"
		if _, err := ledger.Publish(within(t), subjects(t).Reply("rt-1", request), r, 0); err != nil {
			t.Fatal(err)
		}
	}
	store(t, ledger, assigned("10"), 0) // another runtime, whose name begins alike
	for _, c := range []struct {
		upTo uint64
		left []uint64
	}{{0, []uint64{1, 2, 3}}, {1, []uint64{2, 3}}, {1, []uint64{2, 3}}, {3, nil}} {
		if err := ledger.Forget(within(t), "rt-1", c.upTo); err != nil {
			t.Fatal(err)
		}
		if got := sequences(t, ledger, "rt-1"); !slices.Equal(got, c.left) {
			t.Errorf("up to %d: left is %v, want %v", c.upTo, got, c.left)
		}
	}
	if got := sequences(t, ledger, "rt-10"); len(got) != 1 {
		t.Errorf("the other runtime has %v", got)
	}
}

// The shadow's ledger has the replies of a runtime in its own stream.
func TestOfRuntimeInShadow(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	shadow := subjects(t).Shadow()
	if _, err := js.CreateStream(within(t), jetstream.StreamConfig{
		Name: shadow.Stream(events.StreamReplies), Subjects: []string{shadow.Replies()},
	}); err != nil {
		t.Fatal(err)
	}
	ledger := storage.NewLedger(js, shadow, "/hap-worker")
	if _, err := ledger.Publish(within(t), shadow.Reply("rt-1", "1"), assigned("1"), 0); err != nil {
		t.Fatal(err)
	}
	if got := sequences(t, ledger, "rt-1"); len(got) != 1 {
		t.Errorf("the shadow's runtime has %v", got)
	}
}

func sequences(t *testing.T, ledger *storage.Ledger, runtime string) (found []uint64) {
	t.Helper()
	err := ledger.OfRuntime(within(t), runtime, func(s events.Stored) error {
		found = append(found, s.Sequence)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
