package worker

import (
	"context"
	"errors"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/serving"
)

// Serve serves the requests that wait where one was woken since it last did. It is
// for callers that handle events without Start.
func (w *Worker) Serve(ctx context.Context) error { return w.rounds.Serve(ctx) }

// rebuilding reports whether a pool as a whole cannot serve.
func rebuilding(err error) bool {
	return errors.Is(err, account.ErrNotBuilt) || errors.Is(err, account.ErrRebuilt)
}

// faultOf returns how an error of one waiting request affects the others.
func faultOf(err error) serving.Fault {
	switch {
	case err == nil:
		return serving.None
	case rebuilding(err):
		return serving.Rebuilding
	case unavailable(err), errors.Is(err, context.DeadlineExceeded):
		return serving.Slow
	case ownDoing(err):
		return serving.OwnDoing
	default:
		return serving.Other
	}
}

// answerWaiting tries to answer one waiting request.
func (w *Worker) answerWaiting(ctx context.Context, t serving.Turn) (serving.Result, error) {
	all, r := ctx, t.Request
	ctx, cancel := context.WithTimeout(ctx, serving.Budget)
	defer cancel()
	d := delivery{event: r.Event, subject: r.Event.ReplySubject(w.subjects), number: 1, served: true, inTurn: t.Next}
	a := w.begin(d)
	a.waited, a.until, a.lasting, a.room, a.entered, a.begun = true, r.Deadline, t.Lasting, r.Pool, r.Entered, r.Since
	ctx, end := w.span(r.Event.TraceContext(ctx), "serve waiting")
	defer end()
	begin := w.now()
	out, err := w.answerGuarded(ctx, a)
	result := serving.Result{
		Apart: a.pool != r.Pool || a.trace.chosen.MayNotClaim(), Full: a.held.Full != nil, Left: a.left, Again: a.moves, Fault: faultOf(err),
	}
	if err != nil {
		w.abandon(all, a)
	}
	if err != nil || out.status == events.StatusWaiting && a.pool == r.Pool {
		return result, err
	}
	// A reply without a pool does not say where the record lies; this does.
	if err := w.room.Leave(ctx, r.Subject); err != nil {
		result.Fault = faultOf(err)
		return result, err
	}
	result.Done = true
	if out.status == events.StatusWaiting {
		return result, nil // for another pool
	}
	info := d.told(r.Subject, out)
	info.Outcome, info.Duration, info.Waited = observe.Served, w.since(begin), w.since(r.Since)
	settledAs(ctx, &info)
	w.observer.Event(ctx, info)
	return result, nil
}
