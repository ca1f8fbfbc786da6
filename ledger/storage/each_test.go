package storage_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// counting counts the messages that are asked for.
type counting struct {
	streams.Streams
	asked atomic.Int64
}

func (c *counting) Message(ctx context.Context, stream string, q streams.Query) (streams.Message, error) {
	c.asked.Add(1)
	return c.Streams.Message(ctx, stream, q)
}

// TestRepliesAmongOthers reads 50 replies of a runtime among 3,000 of others, and 2,000 without others
// between them. The cost grows with the runtime's replies, not with the ledger.
func TestRepliesAmongOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		replies, every int
	}{{"sparse", 50, 60}, {"dense", 2000, 1}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			js := ledgertest.Server(t).JetStream()
			if _, err := storage.Setup(within(t), js, storage.Options{Manage: true}); err != nil {
				t.Fatal(err)
			}
			var want []uint64
			for n := range c.replies * c.every {
				runtime := "others"
				if n%c.every == 0 {
					runtime, want = "rt-1", append(want, uint64(n+1))
				}
				if _, err := js.PublishAsync(subjects(t).Reply(runtime, fmt.Sprint("q-", n)), []byte("{}")); err != nil {
					t.Fatal(err)
				}
			}
			<-js.PublishAsyncComplete()
			all := &counting{Streams: streams.New(js)}
			var got []uint64
			if err := storage.NewLedgerOn(all, subjects(t), "/").OfRuntime(within(t), "rt-1", func(s events.Stored) error {
				got = append(got, s.Sequence)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("read %d replies, want %d in order", len(got), len(want))
			}
			if n := int(all.asked.Load()); n > c.replies+2*c.replies/16+32 {
				t.Errorf("%d messages were asked for, to read %d", n, c.replies)
			}
		})
	}
}
