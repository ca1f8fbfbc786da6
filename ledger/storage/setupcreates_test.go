package storage_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// The helpers that every test here uses.

func TestSetupCreates(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	requests := config(t, js, "HAP_EVENTS")
	if requests.Retention != jetstream.WorkQueuePolicy || requests.Discard != jetstream.DiscardNew || requests.MaxBytes != 1<<30 ||
		requests.Storage != jetstream.FileStorage || requests.MaxAge != 0 || requests.Duplicates != 2*time.Minute ||
		!slices.Equal(requests.Subjects, []string{"hap.v1.provision.*", "hap.v1.deprovision.*", "hap.v1.release.*", "hap.v1.resolve.*"}) {
		t.Errorf("%+v", requests)
	}
	replies := config(t, js, "HAP_REPLIES")
	if replies.Retention != jetstream.LimitsPolicy || replies.MaxMsgsPerSubject != 1 || replies.Storage != jetstream.FileStorage ||
		replies.MaxAge != 0 || replies.AllowDirect || !slices.Equal(replies.Subjects, []string{"hap.v1.reply.>"}) {
		t.Errorf("%+v", replies)
	}
	if waiting := config(t, js, "HAP_WAITING"); waiting.Retention != jetstream.WorkQueuePolicy || waiting.Storage != jetstream.FileStorage {
		t.Errorf("%+v", waiting)
	}
	dead := config(t, js, "HAP_DEAD")
	if dead.Retention != jetstream.LimitsPolicy || dead.MaxAge != 30*24*time.Hour {
		t.Errorf("%+v", dead)
	}
	consumer, err := js.Consumer(within(t), "HAP_EVENTS", "hap-worker")
	if err != nil {
		t.Fatal(err)
	}
	if c := consumer.CachedInfo().Config; c.Durable != "hap-worker" || c.MaxDeliver != -1 || c.AckPolicy != jetstream.AckExplicitPolicy ||
		c.AckWait != 30*time.Second || c.MaxAckPending != 1000 {
		t.Errorf("%+v", c)
	}
	again, err := storage.Setup(within(t), js, storage.Options{})
	if err != nil || len(again) > 0 {
		t.Errorf("again, without Manage: %q, %v", again, err)
	}
}

// Many workers that start at once create one set of streams.
func TestSetupTogether(t *testing.T) {
	t.Parallel()
	server := ledgertest.Server(t)
	var workers errgroup.Group
	for range 8 {
		js := server.JetStream()
		workers.Go(func() error {
			_, err := storage.Setup(within(t), js, storage.Options{Manage: true})
			return err
		})
	}
	if err := workers.Wait(); err != nil {
		t.Error(err)
	}
}

func TestSetupSaysWhatDiffers(t *testing.T) {
	t.Parallel()
	js := ledgertest.Server(t).JetStream()
	ctx := within(t)
	streams, err := storage.Options{}.Streams()
	if err != nil {
		t.Fatal(err)
	}
	streams[0].MaxBytes, streams[0].Duplicates = 1<<20, time.Minute
	streams[1].AllowDirect, streams[1].MaxMsgSize = true, 1<<20
	for _, stream := range streams[:2] {
		if _, err := js.CreateStream(ctx, stream); err != nil {
			t.Fatal(err)
		}
	}
	consumer := storage.Options{AckWait: time.Minute}.Consumer()
	consumer.MaxAckPending = 5
	if _, err := js.CreateConsumer(ctx, "HAP_EVENTS", consumer); err != nil {
		t.Fatal(err)
	}
	before := config(t, js, "HAP_EVENTS")
	got, err := storage.Setup(ctx, js, storage.Options{Manage: true})
	want := []string{
		"stream HAP_EVENTS: max bytes is 1048576, should be 1073741824",
		"stream HAP_EVENTS: duplicate window is 1m0s, should be 2m0s",
		"stream HAP_REPLIES: max message size is 1048576, should be -1",
		"stream HAP_REPLIES: direct reads is true, should be false",
		"consumer hap-worker: ack wait is 1m0s, should be 30s",
		"consumer hap-worker: max ack pending is 5, should be 1000",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s\n%v", strings.Join(got, "\n"), err)
	}
	if after := config(t, js, "HAP_EVENTS"); !reflect.DeepEqual(after, before) {
		t.Errorf("the stream was changed from %+v to %+v", before, after)
	}
}

// A consumer that loses events, or delivers them to several workers at once, is refused, with the
// command that changes it.
func TestSetupRefusesConsumer(t *testing.T) {
	t.Parallel()
	for name, unfit := range map[string]struct {
		change func(*jetstream.ConsumerConfig)
		says   string
	}{
		"max deliver":  {func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 5 }, "nats consumer edit HAP_EVENTS hap-worker --max-deliver=-1"},
		"ack wait":     {func(c *jetstream.ConsumerConfig) { c.AckWait = 100 * time.Millisecond }, "nats consumer edit HAP_EVENTS hap-worker --wait=30s"},
		"back-off":     {func(c *jetstream.ConsumerConfig) { c.BackOff = []time.Duration{time.Minute, time.Millisecond} }, "shortest backoff) is 1ms"},
		"headers only": {func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true }, "nats consumer rm HAP_EVENTS hap-worker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js := ledgertest.Server(t).JetStream()
			ctx := within(t)
			if _, err := storage.Setup(ctx, js, storage.Options{Manage: true}); err != nil {
				t.Fatal(err)
			}
			if err := js.DeleteConsumer(ctx, "HAP_EVENTS", "hap-worker"); err != nil {
				t.Fatal(err)
			}
			consumer := storage.Options{}.Consumer()
			unfit.change(&consumer)
			if _, err := js.CreateConsumer(ctx, "HAP_EVENTS", consumer); err != nil {
				t.Fatal(err)
			}
			if _, err := storage.Setup(ctx, js, storage.Options{Manage: true}); err == nil || !strings.Contains(err.Error(), unfit.says) {
				t.Errorf("%v, want %q", err, unfit.says)
			}
		})
	}
}

func TestSetupWithoutManage(t *testing.T) {
	t.Parallel()
	js := ledgertest.Server(t).JetStream()
	ctx := within(t)
	_, err := storage.Setup(ctx, js, storage.Options{})
	if !errors.Is(err, jetstream.ErrStreamNotFound) || !strings.Contains(err.Error(), "HAP_EVENTS") || !strings.Contains(err.Error(), "nats.manage") {
		t.Errorf("no streams: %v", err)
	}
	if _, err := js.Stream(ctx, "HAP_EVENTS"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("it was created: %v", err)
	}
	streams, err := storage.Options{}.Streams()
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range streams {
		if _, err := js.CreateStream(ctx, stream); err != nil {
			t.Fatal(err)
		}
	}
	_, err = storage.Setup(ctx, js, storage.Options{})
	if !errors.Is(err, jetstream.ErrConsumerNotFound) || !strings.Contains(err.Error(), "hap-worker") {
		t.Errorf("no consumer: %v", err)
	}
}

func TestOptionsValidate(t *testing.T) {
	t.Parallel()
	err := storage.Options{Prefix: "a..b", Replicas: 2, MaxBytes: -1, MaxAckPending: -1, AckWait: -1}.Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 4 {
		t.Errorf("not every fault: %v", err)
	}
	if _, err := storage.Setup(within(t), nil, storage.Options{Replicas: 2}); err == nil {
		t.Error("two replicas are accepted")
	}
	if err := (storage.Options{}).WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
}

// A full stream refuses publishers; what it has accepted stays.
func TestFullStreamRefuses(t *testing.T) {
	t.Parallel()
	js := ledgertest.Server(t).JetStream()
	ctx := within(t)
	if _, err := storage.Setup(ctx, js, storage.Options{Manage: true, MaxBytes: 2048}); err != nil {
		t.Fatal(err)
	}
	accepted := uint64(0)
	for {
		_, err := js.Publish(ctx, "hap.v1.provision.ga-1", make([]byte, 500))
		if err != nil {
			break
		}
		accepted++
	}
	stream, err := js.Stream(ctx, "HAP_EVENTS")
	if err != nil || accepted == 0 || stream.CachedInfo().State.Msgs != accepted {
		t.Errorf("%d accepted, %+v, %v", accepted, stream.CachedInfo().State, err)
	}
}
