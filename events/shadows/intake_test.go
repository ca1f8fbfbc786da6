package shadows_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/eventstest"
	"github.com/hap-worker/hap-worker/events/shadows"
	"github.com/hap-worker/hap-worker/events/storage"
)

// TestIntakeNumbersANewStream is a shadow that creates the deleted stream of events before a worker does: its
// numbers begin above all earlier ones, as those of a stream that a worker creates.
func TestIntakeNumbersANewStream(t *testing.T) {
	t.Parallel()
	js, ctx := eventstest.Server(t).JetStream(), eventstest.Within(t)
	o := storage.Options{Manage: true}
	if _, err := storage.Setup(ctx, js, o); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(ctx, events.StreamEvents); err != nil {
		t.Fatal(err)
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shadows.NewIntake(js, subjects, nil, nil).Setup(ctx, o); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, events.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	if first := stream.CachedInfo().Config.FirstSeq; first < 1_700_000_000_000_000 {
		t.Errorf("the numbers of the new stream begin at %d", first)
	}
}
