package worker

import (
	"context"
	"errors"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/tracing"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/serving"
)

// Serve serves waiting requests if any was woken since the last call. It is for callers that handle
// events without Start.
func (w *Worker) Serve(ctx context.Context) error { return w.rounds.Serve(ctx) }

// rebuilding reports whether err means that the pool has to be rebuilt, or was rebuilt since the directory
// was asked.
func rebuilding(err error) bool {
	return errors.Is(err, account.ErrNotBuilt) || errors.Is(err, account.ErrRebuilt)
}

// faultOf classifies the error of one waiting request by its effect on the others.
func faultOf(err error) serving.Fault {
	switch {
	case err == nil:
		return serving.None
	case rebuilding(err):
		return serving.Rebuilding
	case errors.Is(err, engine.ErrRefused):
		return serving.Other // of one account: the pool's others may be labelled
	case unavailable(err), errors.Is(err, context.DeadlineExceeded):
		return serving.Slow
	case ownDoing(err):
		return serving.OwnDoing
	default:
		return serving.Other
	}
}

// answerWaiting tries to answer one waiting request, within serving.Budget. After a failure it takes up to AckWait/3
// each to return network blocks (abandon) and to read the ledger (answeredMeanwhile).
func (w *Worker) answerWaiting(ctx context.Context, t serving.Turn) (serving.Result, error) {
	all, r := ctx, t.Request
	ctx, cancel := context.WithTimeout(ctx, serving.Budget)
	defer cancel()
	a := w.beginServed(t)
	ctx, end := w.span(tracing.Context(ctx, r.Event), "serve waiting")
	defer end()
	begin := w.now()
	out, err := w.answerGuarded(ctx, a)
	result := serving.Result{
		Apart: a.pool != r.Pool || a.trace.chosen.MayNotClaim(a.trace.terms), Full: a.blocks.held.Full != nil, Lacks: a.blocks.held.Lacks(), Left: a.blocks.left, Again: a.waits.moves, Fault: faultOf(err),
	}
	if err != nil {
		w.abandon(all, a)
		if stands, failed := w.answeredMeanwhile(all, a, err); failed == nil && stands.ended() {
			out, err, result.Fault = stands, nil, serving.None
		}
	}
	if err != nil || out.status == events.StatusWaiting && a.pool == r.Pool {
		return result, err
	}
	if err := w.room.Leave(ctx, r.Subject); err != nil {
		result.Fault = faultOf(err)
		return result, err
	}
	result.Done = true
	if out.status == events.StatusWaiting {
		return result, nil // it now waits for another pool
	}
	info := a.told(r.Subject, out)
	info.Outcome, info.Duration, info.Waited = observe.Served, w.since(begin), w.since(r.Since)
	settledAs(ctx, &info)
	w.observer.Event(ctx, info)
	return result, nil
}

// answeredMeanwhile reads the ledger after a failed attempt at a waiting request. If another worker has stored a final
// reply, it acts on that reply, and returns its outcome: that worker has removed the request from the waiting room, so
// no later attempt would take back what this one has assigned (rule 11).
func (w *Worker) answeredMeanwhile(ctx context.Context, a *attempt, failure error) (outcome, error) {
	if a.pool == "" || rebuilding(failure) || ctx.Err() != nil {
		return outcome{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.ackWait/3)
	defer cancel()
	return w.readStored(ctx, a)
}
