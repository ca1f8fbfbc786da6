package worker

import (
	"context"
	"fmt"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// Gather reads what pools and directory are derived from, in the order in which
// it has to be (rule 13c): the ledger to its end, then the labels, then the
// Shoots. It gives the number of replies that it read.
func Gather(ctx context.Context, archive Archive, census Census) (*account.Gathering, int, error) {
	g, replies := account.NewGathering(), 0
	err := archive.Facts(ctx, func(f events.Fact) error {
		replies++
		g.Answer(answerOf(f))
		return nil
	})
	if err != nil {
		return nil, replies, fmt.Errorf("read the ledger: %w", err)
	}
	err = census.List(ctx, func(b engine.Binding) error {
		g.Binding(b)
		return nil
	})
	if err != nil {
		return nil, replies, fmt.Errorf("list the bindings: %w", err)
	}
	err = census.Shoots(ctx, func(s engine.Shoot) error {
		g.Shoot(s)
		return nil
	})
	if err != nil {
		return nil, replies, fmt.Errorf("list the Shoots: %w", err)
	}
	return g, replies, nil
}

// answerOf is a reply of the ledger in the words of the protocol.
func answerOf(f events.Fact) account.Answer {
	a := account.Answer{
		Pool: f.Pool, Runtime: f.RuntimeID, Request: f.RequestID, Tenant: f.GlobalAccountID,
		Binding: f.Binding, Sequence: f.Sequence, Claimed: f.Claimed,
	}
	switch {
	case f.Status == events.StatusAssigned:
		a.State = account.RuntimeAssigned
	case f.Status == events.StatusReleased, f.Code == engine.CodeSuperseded:
		a.State = account.RuntimeGone
	case f.Status == events.StatusWaiting:
		a.State = account.RuntimeWaiting
	case f.Code == engine.CodePoolExhausted, f.Code == engine.CodeNetworkExhausted:
		a.State = account.RuntimeRefused
	}
	return a
}
