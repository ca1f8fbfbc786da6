package publishing_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/integration/bench/publishing"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
)

// TestRefusedPublish: a benchmark learns that a stream has refused one of its messages, and why.
func TestRefusedPublish(t *testing.T) {
	t.Parallel()
	ctx := ledgertest.Within(t)
	nc, err := nats.Connect(ledgertest.Server(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	p, err := publishing.New(nc, 16)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}, MaxMsgs: 2, Discard: jetstream.DiscardNew}); err != nil {
		t.Fatal(err)
	}
	publish := func(subjects ...string) error {
		for _, subject := range subjects {
			if _, err := p.PublishAsync(subject, nil); err != nil {
				t.Fatal(err)
			}
		}
		return p.Published(ctx)
	}
	if err := publish("s.1", "s.2"); err != nil {
		t.Errorf("the stream has room: %v", err)
	}
	var full *jetstream.APIError
	if err := publish("s.3", "s.4"); !errors.Is(err, publishing.ErrRefused) || !errors.As(err, &full) {
		t.Errorf("the stream is full: %v", err)
	}
	if err := publish("unknown"); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("no stream has the subject: %v", err)
	}
}
