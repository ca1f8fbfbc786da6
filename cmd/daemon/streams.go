package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/loop"
)

// openStreams creates or checks the streams, and opens the ledger and the waiting room.
func (d *daemon) openStreams(ctx context.Context) error {
	p := &d.parts
	err := d.retry(ctx, &p.up.streams, "setting up the streams", func() (err error) {
		p.consumer, err = d.setup(ctx)
		return err
	})
	if err != nil {
		return err
	}
	p.up.streams.up.Store(true)
	passed := d.newForeigners()
	p.streams = streams.OnFull(streams.New(p.js), d.tel.Metrics.StreamFull)
	p.ledger, p.room = storage.NewLedgerOn(p.streams, p.subjects, "hap-worker"), storage.NewWaitingRoomOn(p.streams, p.subjects)
	p.ledger.OnForeign(passed.met)
	p.room.OnForeign(passed.met)
	return nil
}

// setup creates the streams or, if nats.manage is false, only checks them, and returns the workers'
// consumer. It is called at the start and whenever the consumer was lost.
func (d *daemon) setup(ctx context.Context) (streams.Consumer, error) {
	o := d.streamOptions()
	differences, err := storage.Setup(ctx, d.parts.js, o)
	if err != nil {
		return nil, err
	}
	if d.shadowed() {
		theirs, err := d.parts.intake.Setup(ctx, o)
		if err != nil {
			return nil, err
		}
		differences = append(differences, theirs...)
	}
	for _, difference := range differences {
		d.log.Warn("a stream, the consumer or the server differs from the configuration and is left unchanged: " + difference)
	}
	return streams.PullConsumer(ctx, d.parts.js, d.parts.subjects.Stream(events.StreamEvents), events.ConsumerWorker)
}

func (d *daemon) streamOptions() storage.Options {
	n := d.cfg.NATS
	return storage.Options{
		Prefix: n.Prefix, Manage: n.Manage, Replicas: n.Replicas, MaxBytes: n.MaxBytes,
		MaxAckPending: n.MaxAckPending, AckWait: d.cfg.Worker.AckWait, Shadow: d.shadowed(),
	}
}

// streamsEvery is how often a worker checks that its streams exist.
const streamsEvery = 15 * time.Second

// watchStreams repeats lookForStreams until ctx ends, and logs each error.
func (d *daemon) watchStreams(ctx context.Context) {
	loop.Run(ctx, loop.Options{
		Every: streamsEvery, Jitter: 0.1,
		Failed: func(err error, _ time.Duration) {
			d.log.Error("a stream is gone, or could not be looked for", "error", err)
		},
	}, d.lookForStreams)
}

// lookForStreams creates streams that are gone, if nats.manage is true: without the waiting room no request can begin to
// wait, and without the dead letters no event be given up. It leaves the streams of the events and of the replies to
// setup, which creates them when the consumer is opened again: before that, the replies have to be restored from a copy.
// The error names the streams that are still gone, and /readyz shows it.
func (d *daemon) lookForStreams(ctx context.Context) error {
	o, subjects := d.streamOptions(), d.parts.subjects
	defined, err := o.Streams()
	if err != nil {
		return err
	}
	var gone []string
	for _, want := range defined {
		switch _, err := d.parts.js.Stream(ctx, want.Name); {
		case err == nil:
			continue
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return fmt.Errorf("stream %s: %w", want.Name, err)
		case !o.Manage, want.Name == subjects.Stream(events.StreamEvents), want.Name == subjects.Stream(events.StreamReplies):
			gone = append(gone, want.Name)
			continue
		}
		if _, err := streams.Ensure(ctx, d.parts.js, want, true); err != nil {
			return err
		}
		d.log.Warn("a stream was gone with its messages, and is created again", "stream", want.Name)
	}
	if len(gone) == 0 {
		d.parts.gone.Store(nil)
		return nil
	}
	text := "gone: " + strings.Join(gone, ", ")
	d.parts.gone.Store(&text)
	return errors.New(text)
}
