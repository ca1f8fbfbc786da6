package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// waitsUntil is the end of an event's waiting: what its first waiting reply said,
// else the publisher's deadline, else the configured time from now on.
func (w *Worker) waitsUntil(d *delivery) time.Time {
	if !d.until.IsZero() {
		return d.until
	}
	timeout := w.rules.Get().WaitingTimeout()
	switch d.until = w.now().Add(timeout); {
	case timeout == 0: // reject at once, whatever the publisher would bear
	case !d.event.Provision.Deadline.IsZero():
		d.until = d.event.Provision.Deadline
	}
	return d.until
}

func (a answer) waiting(reason events.WaitingReason, until time.Time) events.Reply {
	r := a.reply(events.StatusWaiting)
	r.Waiting = &events.Waiting{Reason: reason, Position: a.decision.Position, Deadline: until.UTC()}
	return r
}

// postponed is the outcome of an event that could not be brought to an end in its
// budget. A claim that Gardener does not take frees its place for events that need
// no claim: it goes on in the waiting room.
func (w *Worker) postponed(ctx context.Context, d *delivery, err error) outcome {
	if !errors.Is(err, engine.ErrUnavailable) || d.event.Provision == nil || d.pool == "" || ctx.Err() != nil {
		return notNow(ctx, err)
	}
	if !w.now().Before(w.waitsUntil(d)) {
		return notNow(ctx, err) // nothing may wait: an outage is no answer
	}
	ctx, cancel := context.WithTimeout(ctx, w.opts.AckWait/3)
	defer cancel()
	if failed := w.giveBack(ctx, d); failed != nil {
		return notNow(ctx, err)
	}
	p := d.event.Provision
	r := events.Reply{
		RequestID: d.event.ID, RuntimeID: p.RuntimeID, Status: events.StatusWaiting,
		GlobalAccountID: p.GlobalAccountID, Plan: p.Plan, Provider: p.Provider, ShootName: p.ShootName, Cluster: p.Cluster,
		Waiting:  &events.Waiting{Reason: events.WaitingUnavailable, Deadline: d.until.UTC()},
		Decision: &events.Decision{Sequence: d.decision, Pool: d.pool},
	}
	w.record(d, &r)
	if failed := w.store(ctx, d, r); failed != nil {
		return notNow(ctx, err) // comes again, and reads what is stored
	}
	w.listener.step(ctx, StepPublished)
	w.copy(ctx, d, r)
	o := finalOutcome(r)
	o.reason = err.Error()
	return o
}

// supersede ends the waiting of a runtime that is gone: rule 7. Its requests are
// answered under the number of the departure, and leave the room.
func (w *Worker) supersede(ctx context.Context, runtime, pool string, sequence int64) error {
	return w.opts.Room.OfRuntime(ctx, runtime, func(waiting events.WaitingRequest) error {
		d := delivery{event: waiting.Event, subject: waiting.Event.ReplySubject(w.opts.Subjects)}
		reply := superseded(waiting.Event, pool, sequence)
		for {
			stored, found, err := w.opts.Ledger.Last(ctx, d.subject)
			if err != nil {
				return err
			}
			if found && stored.Reply.Final() {
				break
			}
			d.expect = stored.Sequence
			err = w.publish(ctx, &d, reply)
			if err == nil {
				w.copy(ctx, &d, reply)
				break
			}
			if !errors.Is(err, events.ErrWrongLastSequence) {
				return err
			}
		}
		return w.opts.Room.Leave(ctx, waiting.Subject)
	})
}

// Wake says that somebody who waits may be served now. It does not wait.
func (w *Worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Worker) stopServing() { close(w.quit) }

// serveWaiting serves the requests that wait, whenever something was freed and
// every now and then, until the worker stops. Every worker does: there is no
// leader, and who is served twice is answered once.
func (w *Worker) serveWaiting(ctx context.Context) {
	tick := time.NewTicker(w.opts.ServeEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-w.wake:
		case <-tick.C:
		}
		if err := w.serveAll(ctx); err != nil && ctx.Err() == nil {
			w.listener.retry(ctx, RetryInfo{Type: "waiting", After: w.opts.ServeEvery, Err: err})
		}
	}
}

// serveAll looks at every pool that somebody waits for.
func (w *Worker) serveAll(ctx context.Context) error {
	pools := map[string][]events.WaitingRequest{}
	var waits []WaitsInfo
	err := w.opts.Room.Each(ctx, func(r events.WaitingRequest) error {
		pools[r.Pool] = append(pools[r.Pool], r)
		waits = append(waits, WaitsInfo{Pool: r.Pool, Reason: string(r.Reason), Since: r.Since})
		return nil
	})
	if err != nil {
		return err
	}
	w.listener.waiting(waits)
	for pool, requests := range pools {
		if err := w.servePool(ctx, pool, requests); err != nil {
			return err
		}
	}
	return nil
}

// servePool serves tenants in turn, each one's oldest first. A tenant whose first
// request finds nothing is passed over: its others would find nothing either.
func (w *Worker) servePool(ctx context.Context, pool string, requests []events.WaitingRequest) error {
	queue, err := w.counters.Queue(ctx, pool)
	if err != nil {
		return w.notBuilt(err, pool)
	}
	inOrder(requests, queue)
	nothing := map[string]bool{} // tenants for whom there is nothing now
	down := false                // Gardener takes no claims; the others may need none
	empty := false               // nobody can claim: what appears meanwhile is for the next round, from its beginning
	for _, r := range requests {
		select {
		case <-w.quit:
			return nil
		default:
		}
		tenant := r.Event.Provision.GlobalAccountID
		if nothing[tenant] && w.now().Before(r.Deadline) {
			continue
		}
		if down && r.Reason == events.WaitingUnavailable {
			continue
		}
		served, err := w.serve(ctx, r, !empty && !down)
		if slow(err) && ctx.Err() == nil {
			down, nothing[tenant] = true, true
			continue
		}
		if err != nil {
			return err
		}
		if !served && r.Reason != events.WaitingNetworkFull { // the tenant's others may need fewer addresses
			nothing[tenant] = true
			empty = empty || !w.claimable(pool, tenant)
		}
	}
	return nil
}

// inOrder sorts requests as the queue says; those that Redis does not know as
// waiting (they wait for Gardener) keep their age's order, after the others.
func inOrder(requests []events.WaitingRequest, queue []account.Waiter) {
	place := make(map[string]int, len(queue))
	for i, waiter := range queue {
		place[waiter.Runtime] = i + 1
	}
	rank := func(r events.WaitingRequest) int {
		if n, known := place[r.Event.RuntimeID]; known {
			return n
		}
		return len(queue) + 1
	}
	slices.SortStableFunc(requests, func(a, b events.WaitingRequest) int { return rank(a) - rank(b) })
}

// slow reports whether one request took all of its time, or Gardener said that it
// does not serve: no reason to keep the others waiting.
func slow(err error) bool {
	return errors.Is(err, engine.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// claimable reports whether the cache knows of an unclaimed binding of the pool.
func (w *Worker) claimable(pool, tenant string) bool {
	suggested, _ := w.gardener.Claimable(engine.ParsePool(pool), tenant, false, 1)
	return slices.ContainsFunc(suggested, func(b engine.Binding) bool { return b.Tenant == "" })
}

// serveBudget bounds the time that one waiting request may take of the others.
const serveBudget = 3 * time.Second

// serve tries to answer one request that waits, and reports whether it waits no
// more. Only in turn it may claim.
func (w *Worker) serve(ctx context.Context, r events.WaitingRequest, inTurn bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, serveBudget)
	defer cancel()
	d := delivery{
		event: r.Event, subject: r.Event.ReplySubject(w.opts.Subjects), delivery: 2, // what is stored is read first
		until: r.Deadline, served: true, waited: true, inTurn: inTurn,
		trail: trail{times: events.Times{Began: w.now()}},
	}
	ctx, end := w.span(r.Event.TraceContext(ctx), "serve waiting")
	defer end()
	begin := w.now()
	out, err := w.answer(ctx, &d)
	if err != nil || out.status == events.StatusWaiting {
		return false, err
	}
	// A reply without a pool does not say where the record lies; this does.
	if err := w.opts.Room.Leave(ctx, r.Subject); err != nil {
		return false, err
	}
	info := EventInfo{
		Type: d.kind(), ID: d.event.ID, Tenant: d.tenant(), Runtime: d.event.RuntimeID, Subject: r.Subject, Outcome: OutcomeServed,
		Status: string(out.status), Code: out.code, Reason: out.reason, Binding: out.binding,
		Duration: w.since(begin), Waited: w.now().Sub(r.Since), Delivery: 1,
	}
	settledAs(ctx, &info)
	w.listener.event(ctx, info)
	return true, nil
}
