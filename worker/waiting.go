package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Serve serves the requests that wait, once, where Wake was called since it last did. It is
// for callers that handle events without Start.
func (w *Worker) Serve(ctx context.Context) error {
	select {
	case <-w.wake:
		return w.serveAll(ctx)
	default:
		return nil
	}
}

func (w *Worker) stopServing() { close(w.quit) }

// serveWaiting serves the requests that wait, whenever something was freed and
// every now and then, until the worker stops. Every worker does: there is no
// leader, and who is served twice is answered once.
func (w *Worker) serveWaiting(ctx context.Context) {
	loop.Run(ctx, loop.Options{
		Every: w.opts.ServeEvery, Wake: w.wake, Stop: w.quit,
		Failed: func(err error, after time.Duration) {
			w.observer.Retry(ctx, observe.Retry{Type: "waiting", After: after, Err: err})
		},
	}, w.serveAll)
}

// serveAll looks at every pool that somebody waits for: that of the oldest request first, so
// that what pools share, network blocks, goes by age and not by chance.
func (w *Worker) serveAll(ctx context.Context) error {
	pools := map[string][]events.WaitingRequest{}
	var byAge []string
	var waits []observe.Waiting
	w.reliers.nextRound(w.now())
	err := w.room.Each(ctx, func(r events.WaitingRequest) error {
		if pools[r.Pool] == nil {
			byAge = append(byAge, r.Pool)
		}
		pools[r.Pool] = append(pools[r.Pool], r)
		waits = append(waits, observe.Waiting{Pool: r.Pool, Reason: string(r.Reason), Since: r.Since})
		return nil
	})
	if err != nil {
		return err
	}
	w.observer.Waiting(waits)
	var f failures
	for _, pool := range byAge {
		err := w.servePool(ctx, pool, pools[pool])
		if rebuilding(err) { // by itself: that says nothing of the others
			f.first = cmp.Or(f.first, err)
			continue
		}
		if f.after(pool, err) {
			break
		}
	}
	return f.first
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

// servePool serves tenants in turn, each one's oldest first. A tenant whose first
// request finds nothing is passed over: its others would find nothing either.
func (w *Worker) servePool(ctx context.Context, pool string, requests []events.WaitingRequest) error {
	queue, err := w.counters.Queue(ctx, pool)
	if err != nil {
		return w.notBuilt(err, pool)
	}
	place := places(queue)
	inOrder(requests, place, w.last[pool])
	delete(w.last, pool)
	l := look{nothing: map[string]bool{}, place: place}
	for _, r := range requests {
		select {
		case <-w.quit:
			return l.first
		default:
		}
		if l.passesOver(r, w.now()) {
			continue
		}
		served, apart, err := w.serve(ctx, r, !l.empty && !l.down)
		if rebuilding(err) || ctx.Err() != nil {
			return cmp.Or(l.first, err)
		}
		if w.note(ctx, &l, r, served, apart, err) {
			w.last[pool] = l.row // where these fail for ever, the next look comes to the others
			return l.first
		}
	}
	return l.first
}

// look is what a look at a pool has found so far.
type look struct {
	place   map[string]int  // of runtimes in the queue, from 1
	nothing map[string]bool // tenants for whom there is nothing now
	down    bool            // Gardener takes no claims; the others may need none
	empty   bool            // no more claims: what appears meanwhile is for the next round, from its beginning
	failures
}

// passesOver reports whether it is of no use to serve a request: its tenant's others found
// nothing, and neither does it wait for something else nor has it an account already, by a
// handling that could not answer with it.
func (l *look) passesOver(r events.WaitingRequest, now time.Time) bool {
	if l.down && r.Reason == events.WaitingUnavailable {
		return true
	}
	return l.nothing[r.Event.Provision.GlobalAccountID] && now.Before(r.Deadline) && l.place[r.Event.RuntimeID] > 0
}

// note keeps what serving a request has told of the others, and reports whether it is
// better to stop.
func (w *Worker) note(ctx context.Context, l *look, r events.WaitingRequest, served, apart bool, err error) bool {
	tenant := r.Event.Provision.GlobalAccountID
	if slow(err) {
		l.down, l.nothing[tenant] = true, true
		return false
	}
	if ownDoing(err) {
		w.observer.Retry(ctx, observe.Retry{Type: "waiting", ID: r.Event.ID, Err: err})
		return false // the others are not to blame
	}
	if err != nil {
		l.nothing[tenant] = true
		return l.after(r.Subject, fmt.Errorf("serve %s: %w", r.Event.ID, err))
	}
	l.after(r.Subject, nil)
	if !served && !r.Reason.Network() { // the tenant's others may need fewer addresses
		l.nothing[tenant] = true
		l.empty = l.empty || !apart
	}
	return false
}

// rebuilding reports whether a pool as a whole cannot serve.
func rebuilding(err error) bool {
	return errors.Is(err, account.ErrNotBuilt) || errors.Is(err, account.ErrRebuilt)
}

// places are those of runtimes in a queue, from 1.
func places(queue []account.Waiter) map[string]int {
	place := make(map[string]int, len(queue))
	for i, waiter := range queue {
		place[waiter.Runtime] = i + 1
	}
	return place
}

// inOrder sorts requests by their places in the queue; those that Redis does not know as
// waiting (they wait for Gardener) keep their age's order, after the others; after these
// come the last, by their subjects.
func inOrder(requests []events.WaitingRequest, place map[string]int, last []string) {
	rank := func(r events.WaitingRequest) int {
		if slices.Contains(last, r.Subject) {
			return len(place) + 2
		}
		if n, known := place[r.Event.RuntimeID]; known {
			return n
		}
		return len(place) + 1
	}
	slices.SortStableFunc(requests, func(a, b events.WaitingRequest) int { return rank(a) - rank(b) })
}

// slow reports whether one request took all of its time, or Gardener said that it
// does not serve: no reason to keep the others waiting.
func slow(err error) bool {
	return errors.Is(err, engine.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// serveBudget bounds the time that one waiting request may take of the others.
const serveBudget = 3 * time.Second

// serve tries to answer one request that waits, and reports whether it waits no
// more, and whether a request that waits on does so for a reason that the others do not
// share. Only in turn it may claim.
func (w *Worker) serve(ctx context.Context, r events.WaitingRequest, inTurn bool) (served, apart bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, serveBudget)
	defer cancel()
	d := delivery{event: r.Event, subject: r.Event.ReplySubject(w.subjects), number: 1, served: true, inTurn: inTurn}
	a := w.begin(d)
	a.waited, a.until, a.lasting = true, r.Deadline, w.reliers.lasting
	ctx, end := w.span(r.Event.TraceContext(ctx), "serve waiting")
	defer end()
	begin := w.now()
	out, err := w.answerGuarded(ctx, a)
	w.reliers.seen(a.left, begin)
	apart = a.pool != r.Pool || a.trace.chosen.MayNotClaim()
	if err != nil || out.status == events.StatusWaiting {
		return false, apart, err
	}
	// A reply without a pool does not say where the record lies; this does.
	if err := w.room.Leave(ctx, r.Subject); err != nil {
		return false, apart, err
	}
	info := d.told(r.Subject, out)
	info.Outcome, info.Duration, info.Waited = observe.Served, w.since(begin), w.since(r.Since)
	settledAs(ctx, &info)
	w.observer.Event(ctx, info)
	return true, apart, nil
}
