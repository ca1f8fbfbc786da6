package shadows

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
)

// TestIntakeBesideWorkers: workers make their consumer again, after an operator has deleted it or when they start. A
// shadow that took their place at once would take events that no worker answers.
func TestIntakeBesideWorkers(t *testing.T) {
	t.Parallel()
	_, js := ledgertest.Ready(t)
	ctx := ledgertest.Within(t)
	config, err := js.Consumer(ctx, events.StreamEvents, events.ConsumerWorker)
	if err != nil {
		t.Fatal(err)
	}
	workers := config.CachedInfo().Config
	remove := func(name string) {
		t.Helper()
		if err := js.DeleteConsumer(ctx, events.StreamEvents, name); err != nil {
			t.Fatal(err)
		}
	}
	told, looks := make(chan string, 16), make(chan int)
	running, stop := context.WithCancel(ctx)
	intake := NewIntake(js, ledgertest.Subjects(t), func(mode string) { told <- mode }, func(err error) { t.Error(err) })
	intake.every = 20 * time.Millisecond
	intake.looked = func(inARow int) {
		select {
		case looks <- inARow:
		case <-running.Done():
		}
	}
	ended := make(chan struct{})
	go func() { defer close(ended); intake.Run(running) }()
	defer func() { stop(); <-ended }()
	says := func(want string) {
		t.Helper()
		select {
		case mode := <-told:
			if !strings.Contains(mode, want) {
				t.Fatalf("%q, want %q", mode, want)
			}
		case n := <-looks:
			t.Fatalf("it looks (%d in a row), want %q", n, want)
		case <-ctx.Done():
			t.Fatalf("it never says %q", want)
		}
	}
	look := func() int {
		t.Helper()
		select {
		case n := <-looks:
			return n
		case <-ctx.Done():
			t.Fatal("it does not look")
			return 0
		}
	}
	until := func(want int) {
		t.Helper()
		for look() != want {
		}
	}

	says("listens")
	until(0)
	remove(events.ConsumerWorker)
	until(missing - 1)
	if _, err := js.CreateConsumer(ctx, events.StreamEvents, workers); err != nil {
		t.Fatal("the shadow has taken the workers' place:", err)
	}
	until(0)

	remove(events.ConsumerWorker)
	until(missing)
	says("takes")
	if _, err := js.CreateConsumer(ctx, events.StreamEvents, workers); err == nil {
		t.Error("both have a consumer")
	}
	// A worker that starts: it deletes the shadow's consumer, and then makes its own.
	remove(events.ConsumerShadow)
	says("listens")
	until(1)
	if _, err := js.CreateConsumer(ctx, events.StreamEvents, workers); err != nil {
		t.Fatal("the shadow has its consumer again:", err)
	}
	until(0)
}

// A worker that starts may delete the shadow's consumer before the first request for messages reaches it. The server then
// says that nothing answers, not that the consumer is deleted.
func TestIntakeWhoseConsumerIsDeletedAtOnce(t *testing.T) {
	t.Parallel()
	_, js := ledgertest.Ready(t)
	ctx := ledgertest.Within(t)
	if err := js.DeleteConsumer(ctx, events.StreamEvents, events.ConsumerWorker); err != nil {
		t.Fatal(err)
	}
	intake := NewIntake(js, ledgertest.Subjects(t), func(string) {}, func(err error) { t.Error(err) })
	consumer, err := intake.consumer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(ctx, events.StreamEvents, events.ConsumerShadow); err != nil {
		t.Fatal(err)
	}
	if err := intake.take(ctx, consumer); err != nil {
		t.Errorf("%v, not nil: the shadow would make its consumer again, in the worker's place", err)
	}
}
