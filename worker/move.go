package worker

import (
	"context"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// Rule 16: a runtime without an account moves to the pool that its rule names now.

// moveEvery is how long a request waits for a pool before it may move to another one. Workers have different
// rules while a new configuration spreads, and would otherwise move a request back and forth.
const moveEvery = time.Minute

// follow moves a runtime without an account to the pool of the search, and returns its place. A runtime that
// may not leave keeps its place (Counters.Leave). A request that waits is not moved when its event is delivered
// again, but when it is served from the waiting room, and has waited there for moveEvery.
func (h *Handler) follow(ctx context.Context, a *attempt, job *claimAttempt, place account.Place) (account.Place, error) {
	if a.waits.possible && !a.served || a.served && h.clock.Now().Sub(a.waits.entered) < moveEvery {
		return place, nil
	}
	sequence, left, err := h.counters.Leave(ctx, place, job.runtime, job.claimRequest.request, job.tenant)
	if err != nil || !left {
		return place, h.notBuilt(err, place.Pool)
	}
	pool := job.pool.Name()
	if _, err := h.counters.MovePlace(ctx, job.runtime, place, account.Place{Pool: pool, Sequence: sequence}); err != nil {
		return place, h.notBuilt(err, "")
	}
	place, epoch, err := h.locate(ctx, job.runtime, pool) // the place is another pool's if another worker was faster
	job.request.Epoch = epoch
	return place, err
}

// movesAt returns when to look again at a request whose rule leads elsewhere: as soon as it may move, or after another
// moveEvery if it may move already and could not.
func (h *Handler) movesAt(a *attempt) time.Time {
	now := h.clock.Now()
	if may := a.waits.entered.Add(moveEvery); may.After(now) {
		return may
	}
	return now.Add(moveEvery)
}

// endMove completes a move that another worker has begun, and perhaps not completed: the runtime has left the
// pool of place under sequence, but the directory still has place. Its new place is the same pool, with that
// sequence.
func (h *Handler) endMove(ctx context.Context, runtime string, place account.Place, sequence int64) error {
	_, err := h.counters.MovePlace(ctx, runtime, place, account.Place{Pool: place.Pool, Sequence: sequence})
	return h.notBuilt(err, "")
}

// comeAgain completes a move of the runtime (endMove), and then decides the provision anew.
func (h *Handler) comeAgain(ctx context.Context, a *attempt, place account.Place, sequence int64) (events.Reply, error) {
	if err := h.endMove(ctx, a.event.RuntimeID, place, sequence); err != nil {
		return events.Reply{}, err
	}
	return h.provision(ctx, a)
}

// elsewhere reports whether the current rules lead a waiting request to another pool, or to none. It returns
// false if the policy chooses no implementation for the request.
func (h *Handler) elsewhere(r storage.WaitingRequest) bool {
	p, rules := r.Event.Provision, h.rules.Get()
	request, _, err := h.request(p, rules)
	if err != nil {
		return false
	}
	match, err := rules.Rules().Match(request)
	return err != nil || match.Pool.Name() != r.Pool
}
