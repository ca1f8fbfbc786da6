package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/config"
)

// WorkersConsumer returns the state of the consumer that all workers share, for a command that can do without it.
func WorkersConsumer(ctx context.Context, js jetstream.JetStream, subjects events.Subjects) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := Half(ctx)
	defer cancel()
	consumer, err := js.Consumer(ctx, subjects.Stream(events.StreamEvents), events.ConsumerWorker)
	if err != nil {
		return nil, err
	}
	return consumer.CachedInfo(), nil
}

// OpenLedger returns the ledger. It checks first that the ledger does not belong to another landscape. If NATS does
// not have the ledger's stream, the error names the remedy.
func OpenLedger(ctx context.Context, s *Shell, cfg *config.Config, nc *nats.Conn, subjects events.Subjects) (*storage.Ledger, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	stream, err := FindLedger(ctx, js, cfg.NATS)
	if err != nil {
		return nil, err
	}
	if err := s.LedgerIs(stream, cfg); err != nil {
		return nil, err
	}
	return storage.NewLedger(js, subjects, Source), nil
}

// FindLedger returns the configuration of the ledger's stream. If there is none, or NATS does not answer, the error
// names the remedy.
func FindLedger(ctx context.Context, js jetstream.JetStream, c config.NATS) (jetstream.StreamConfig, error) {
	stream, err := js.Stream(ctx, events.StreamReplies)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders):
		return jetstream.StreamConfig{}, &engine.Error{
			Code: engine.CodeInternal, Op: "asking NATS at " + connect.Shown(c.URL),
			Err:  fmt.Errorf("stream %s is not there: %w", events.StreamReplies, err),
			Hint: "start a worker, which creates the streams, and check that this is its server",
		}
	case err != nil:
		return jetstream.StreamConfig{}, unreachable("JetStream of NATS", c.URL, err, "--nats-url, HAP_NATS_URL or nats.url of --config")
	}
	return stream.CachedInfo().Config, nil
}

// WithStreams connects to NATS, checks the ledger as OpenLedger does, and calls run.
func (s *Shell) WithStreams(ctx context.Context, cfg *config.Config, run func(jetstream.JetStream, events.Subjects) error) error {
	nc, err := OpenNATS(ctx, s, cfg.NATS)
	if err != nil {
		return err
	}
	subjects, err := events.NewSubjects(cfg.NATS.Prefix)
	if err != nil {
		return err
	}
	if _, err := OpenLedger(ctx, s, cfg, nc, subjects); err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return run(js, subjects)
}
