package dead_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// A dead letter that is refused for want of room says which stream is full, by which limit.
func TestFull(t *testing.T) {
	t.Parallel()
	bounded := func(change func(*jetstream.StreamConfig)) func(*testing.T) jetstream.JetStream {
		return func(t *testing.T) jetstream.JetStream {
			_, js := setup(t)
			stream, err := js.Stream(within(t), events.StreamDead)
			if err != nil {
				t.Fatal(err)
			}
			config := stream.CachedInfo().Config
			config.Discard = jetstream.DiscardNew
			change(&config)
			if _, err := js.UpdateStream(within(t), config); err != nil {
				t.Fatal(err)
			}
			return js
		}
	}
	for limit, begin := range map[string]func(*testing.T) jetstream.JetStream{
		"max_bytes": bounded(func(c *jetstream.StreamConfig) { c.MaxBytes = 10_000 }),
		"max_msgs":  bounded(func(c *jetstream.StreamConfig) { c.MaxMsgs = 3 }),
		"JetStream storage": func(t *testing.T) jetstream.JetStream {
			js := ledgertest.Server(t, func(o *server.Options) { o.JetStreamMaxStore = 20_000 }).JetStream()
			if _, err := storage.Setup(within(t), js, storage.Options{Manage: true, MaxBytes: 10_000}); err != nil {
				t.Fatal(err)
			}
			return js
		},
	} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			told := ""
			letters := dead.NewLettersOn(streams.OnFull(streams.New(begin(t)), func(stream string) { told = stream }), subjects(t))
			var err error
			for n := uint64(1); n < 20 && err == nil; n++ {
				err = letters.Put(within(t), dead.Event{Type: events.TypeProvision, Sequence: n, Data: make([]byte, 2000)}, engine.CodeInvalidEvent, "junk")
			}
			full, is := errors.AsType[*streams.Full](err)
			if !is || !streams.NoRoom(err) || full.Stream != events.StreamDead || !strings.Contains(full.Limit, limit) || told != events.StreamDead {
				t.Errorf("%v, told %q", err, told)
			}
		})
	}
}
