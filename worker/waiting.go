package worker

import (
	"context"
	"errors"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Serve serves the requests that wait where one was woken since it last did. It is
// for callers that handle events without Start.
func (w *Worker) Serve(ctx context.Context) error {
	for {
		select {
		case <-w.wakes.signal:
			if err := w.serveRound(ctx); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (w *Worker) stopServing() { close(w.quit) }

// serveWaiting serves the requests that wait, whenever something was freed and
// every now and then, until the worker stops. Every worker does: there is no
// leader, and who is served twice is answered once.
func (w *Worker) serveWaiting(ctx context.Context) {
	loop.Run(ctx, loop.Options{
		Every: w.opts.ServeEvery, Wake: w.wakes.signal, Stop: w.quit,
		Failed: func(err error, after time.Duration) {
			w.observer.Retry(ctx, observe.Retry{Type: "waiting", After: after, Err: err})
		},
	}, w.serveRound)
}

// mostFailures is how many failures in a row end a round: then it is more likely that
// what all requests need fails than that each of these does.
const mostFailures = 3

// failures are those of a round, or of a pool in it: one that lasts does not hold up the
// others.
type failures struct {
	first error
	row   []string // what failed last, one after the other: pools, or the requests' subjects
}

// after reports whether it is better to stop after what something ended with.
func (f *failures) after(of string, err error) bool {
	if err == nil {
		f.row = nil
		return false
	}
	if f.first == nil {
		f.first = err
	}
	f.row = append(f.row, of)
	return len(f.row) == mostFailures
}

// rebuilding reports whether a pool as a whole cannot serve.
func rebuilding(err error) bool {
	return errors.Is(err, account.ErrNotBuilt) || errors.Is(err, account.ErrRebuilt)
}

// slow reports whether one request took all of its time, or Gardener said that it
// does not serve: no reason to keep the others waiting.
func slow(err error) bool {
	return errors.Is(err, engine.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// serveBudget bounds the time that one waiting request may take of the others.
const serveBudget = 3 * time.Second

// served is what became of a request that was tried.
type served struct {
	done  bool // it waits no more
	apart bool // it waits on for a reason that the others do not share
	full  bool // it lacks network blocks
	left  bool // handlings that are not known to live rely on network blocks for it
}

// serve tries to answer one request that waits. Only in turn it may claim.
func (w *Worker) serve(ctx context.Context, r events.WaitingRequest, inTurn bool) (s served, err error) {
	all := ctx
	ctx, cancel := context.WithTimeout(ctx, serveBudget)
	defer cancel()
	d := delivery{event: r.Event, subject: r.Event.ReplySubject(w.subjects), number: 1, served: true, inTurn: inTurn}
	a := w.begin(d)
	a.waited, a.until, a.lasting = true, r.Deadline, w.reliers.lasting
	ctx, end := w.span(r.Event.TraceContext(ctx), "serve waiting")
	defer end()
	begin := w.now()
	out, err := w.answerGuarded(ctx, a)
	w.reliers.meet(a.left, begin)
	s.apart, s.full, s.left = a.pool != r.Pool || a.trace.chosen.MayNotClaim(), a.held.Full != nil, len(a.left) > 0
	if err != nil {
		w.abandon(all, a)
	}
	if err != nil || out.status == events.StatusWaiting {
		return s, err
	}
	// A reply without a pool does not say where the record lies; this does.
	if err := w.room.Leave(ctx, r.Subject); err != nil {
		return s, err
	}
	info := d.told(r.Subject, out)
	info.Outcome, info.Duration, info.Waited = observe.Served, w.since(begin), w.since(r.Since)
	settledAs(ctx, &info)
	w.observer.Event(ctx, info)
	s.done = true
	return s, nil
}
