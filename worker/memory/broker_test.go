package memory_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/memory/memorytest"
)

// The suite runs in bubbles with virtual time.
func TestStreams(t *testing.T) {
	t.Parallel()
	ledgertest.RunStreams(t, func(t *testing.T, o storage.Options, test func(*testing.T, ledgertest.World)) {
		synctest.Test(t, func(t *testing.T) {
			b, err := memory.NewBroker(o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.Close)
			test(t, b)
		})
	})
}

// Behaviour that depends on minutes and days.
func TestStreamsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, subjects := memorytest.Streams(t)
		letters := dead.NewLettersOn(b, subjects)
		bury := func() (found int) {
			letter := dead.Event{Subject: subjects.Provision("ga"), Sequence: 1, Data: []byte("x")}
			if err := letters.Put(t.Context(), letter, engine.CodeInvalidEvent, "it is x"); err != nil {
				t.Fatal(err)
			}
			if err := letters.Each(t.Context(), func(dead.Letter) error { found++; return nil }); err != nil {
				t.Fatal(err)
			}
			return found
		}
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{0, 1}, {time.Minute, 1}, {time.Minute, 2}, {30*24*time.Hour - time.Minute, 2}} {
			time.Sleep(step.after) // virtual
			if found := bury(); found != step.want {
				t.Errorf("%s later there are %d dead letters, want %d", step.after, found, step.want)
			}
		}
		b.Close()
		if err := letters.Put(t.Context(), dead.Event{}, "", ""); !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}
