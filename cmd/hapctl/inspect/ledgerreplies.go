package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/config"
)

const (
	// ledgerPage is the number of replies per fetch.
	ledgerPage = 256
	// ledgerLeftover is how long the server keeps an unused consumer.
	ledgerLeftover = 10 * time.Second
)

// repliesOf reads the replies of one runtime from the ledger, oldest decision first, without replies that
// only workers exchange.
func repliesOf(ctx context.Context, s *cli.Shell, cfg *config.Config, runtime string) ([]ledgerReply, error) {
	nc, err := cli.OpenNATS(ctx, s, cfg.NATS)
	if err != nil {
		return nil, err
	}
	subjects, err := events.NewSubjects(cfg.NATS.Prefix)
	if err != nil {
		return nil, err
	}
	if _, err := cli.OpenLedger(ctx, s, cfg, nc, subjects); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	replies, err := readSubject(ctx, js, subjects.RuntimeReplies(runtime))
	if err != nil {
		return nil, fmt.Errorf("reading the replies of runtime %s from %s: %w", runtime, events.StreamReplies, err)
	}
	markInForce(replies)
	return replies, nil
}

// readSubject reads the replies under a subject with wildcards.
func readSubject(ctx context.Context, js jetstream.JetStream, subject string) ([]ledgerReply, error) {
	consumer, err := js.CreateConsumer(ctx, events.StreamReplies, jetstream.ConsumerConfig{
		FilterSubject: subject, DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: ledgerLeftover,
	})
	if err != nil {
		return nil, err
	}
	replies := []ledgerReply{}
	for pending := consumer.CachedInfo().NumPending; pending > 0; {
		batch, err := consumer.Fetch(int(min(pending, ledgerPage)), jetstream.FetchContext(ctx))
		if err != nil {
			return nil, err
		}
		before := pending
		for msg := range batch.Messages() {
			reply, rest, err := readReply(msg)
			if err != nil {
				return nil, err
			}
			if pending = rest; reply != nil && reply.Reply.Status != events.StatusSealed {
				replies = append(replies, *reply)
			}
		}
		if err := batch.Error(); err != nil {
			return nil, err
		}
		if pending == before {
			return nil, cmp.Or(context.Cause(ctx), errors.New("the server did not deliver them"))
		}
	}
	return replies, nil
}

// readReply reads a stored reply, and how many messages follow. The reply is nil for a message that is none:
// workers skip it too, count it and log it.
func readReply(msg jetstream.Msg) (reply *ledgerReply, pending uint64, err error) {
	facts, err := msg.Metadata()
	if err != nil {
		return nil, 0, err
	}
	r, err := events.DecodeReply(msg.Data())
	if err != nil {
		return nil, facts.NumPending, nil //nolint:nilerr // skipped
	}
	return &ledgerReply{StoredAt: facts.Timestamp, StreamSequence: facts.Sequence.Stream, Reply: r}, facts.NumPending, nil
}

// markInForce sorts replies by decision, then by the order in which they were stored, and marks the last one
// as in force.
func markInForce(replies []ledgerReply) {
	slices.SortFunc(replies, func(a, b ledgerReply) int {
		return cmp.Or(cmp.Compare(sequenceOf(a.Reply), sequenceOf(b.Reply)), cmp.Compare(a.StreamSequence, b.StreamSequence))
	})
	if n := len(replies); n > 0 && sequenceOf(replies[n-1].Reply) > 0 {
		replies[n-1].InForce = true
	}
}

func sequenceOf(r events.Reply) int64 {
	if r.Decision == nil {
		return 0
	}
	return r.Decision.Sequence
}
