package worker

import (
	"context"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// Rule 16: a runtime without an account goes to the pool that its rule names by now.

// moveEvery is how often a waiting request changes the pool at most. While a configuration spreads, workers
// have different rules, and each takes requests along to where its own lead.
const moveEvery = time.Minute

// follow takes a runtime without an account from its place to the pool of the search, and returns the place
// that it has then. A request that waits is taken out of the waiting room only.
func (h *Handler) follow(ctx context.Context, a *attempt, job *claimAttempt, place account.Place) (account.Place, error) {
	if a.waited && !a.served || a.served && h.clock.Now().Sub(a.entered) < moveEvery {
		return place, nil
	}
	sequence, left, err := h.counters.Leave(ctx, place, job.runtime, job.claimRequest.request, job.tenant)
	if err != nil || !left {
		return place, h.notBuilt(err, place.Pool)
	}
	return h.arrive(ctx, job, place, sequence)
}

// arrive has the directory lead to the pool of the search for a runtime that has left its place under a number. Another worker
// may have been faster: the place that it has then is returned.
func (h *Handler) arrive(ctx context.Context, job *claimAttempt, place account.Place, sequence int64) (account.Place, error) {
	pool := job.pool.Name()
	if _, err := h.counters.MovePlace(ctx, job.runtime, place, account.Place{Pool: pool, Sequence: sequence}); err != nil {
		return place, h.notBuilt(err, "")
	}
	place, epoch, err := h.locate(ctx, job.runtime, pool)
	job.request.Epoch = epoch
	return place, err
}

// elsewhere reports whether the rules lead a request that waits to another pool than it waits for, or to none.
func (h *Handler) elsewhere(r events.WaitingRequest) bool {
	p, rules := r.Event.Provision, h.rules.Get()
	request, _, err := h.request(p, rules)
	if err != nil {
		return false
	}
	match, err := rules.Rules().Match(request)
	return err != nil || match.Pool.Name() != r.Pool
}

// enters reports whether a reply has its request enter the waiting room, for the pool that it names.
func (a *attempt) enters(r events.Reply) bool {
	return r.Status == events.StatusWaiting && (!a.served || r.Decision.Pool != a.room)
}
