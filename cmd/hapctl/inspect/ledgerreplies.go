package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/config"
)

// repliesOf reads the replies of one runtime from the ledger, in the order of markInForce. It leaves out seals, which
// only workers exchange, and messages that cannot be read.
func repliesOf(ctx context.Context, s *cli.Shell, cfg *config.Config, runtime string) ([]ledgerReply, error) {
	found := []ledgerReply{}
	err := s.WithStreams(ctx, cfg, func(js jetstream.JetStream, subjects events.Subjects) error {
		return storage.NewLedger(js, subjects, cli.Source).Under(ctx, subjects.RuntimeReplies(runtime), replies(&found))
	})
	if err != nil {
		return nil, fmt.Errorf("reading the replies of runtime %s from %s: %w", runtime, events.StreamReplies, err)
	}
	markInForce(found)
	return found, nil
}

// markInForce sorts replies by the number of their decision, 0 for none, then by the order in which they were stored.
// It marks the last one as in force, if that has a number.
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
