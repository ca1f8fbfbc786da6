package serving

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/waitlist"
)

const (
	// lookEvery is the time between two looks. A look tries the heads of all pools and some other requests
	// without a wake, in case a wake was missed.
	lookEvery = 15 * time.Second
	// slice is the number of requests after which each of three parts of a round ends: those for network blocks,
	// the woken tenants, and those that are due. Requests that are left go to the next round, so that an account
	// that becomes free meanwhile is offered soon. The heads of pools do not count.
	slice = 32
	// looks is the number of requests that a look tries besides the heads of pools.
	looks = 16
	// heads is the number of tenants whose next request is read first; if none of these is answered, four times as many.
	heads = 16
	// fruitless is the number of requests in a row that may find no network blocks before the
	// search ends. A later one may need fewer blocks than an earlier one.
	fruitless = 16
)

// round is the state of one round.
type round struct {
	*Rounds

	woken   woken
	later   woken                    // what the next round has to serve, without a wake
	nothing map[place]bool           // tenants that need not be tried again for the pool in this round
	empty   map[string]bool          // pools in which this round claims nothing more, even if an account becomes free
	down    map[string]bool          // pools in which an attempt was Slow: this round claims nothing more there
	unbuilt map[string]bool          // pools in which an attempt was Rebuilding: this round tries nothing more there
	tried   int                      // number of requests that this part of the round has tried, compared with slice
	lack    map[*waitlist.Entry]bool // requests for network blocks that were tried
}

// Round serves the requests that were woken since the last round, and those that are due. It returns the
// first error of a request, or else the error that ended the round. The errors of the heads of pools go to
// the observer, pool by pool.
func (s *Rounds) Round(ctx context.Context) error {
	if s.over() {
		return nil
	}
	now := s.Now()
	s.reliers.nextRound(now)
	r := round{Rounds: s, woken: s.Wakes.take(), nothing: map[place]bool{}, empty: map[string]bool{}, down: map[string]bool{}, unbuilt: map[string]bool{}, lack: map[*waitlist.Entry]bool{}}
	if !s.looked.IsZero() && now.Sub(s.looked) >= lookEvery || now.Before(s.looked) {
		r.woken.look = true
	}
	if r.woken.look || s.looked.IsZero() {
		s.looked = now
	}
	if err := s.follow(ctx, &r.woken); err != nil {
		s.Wakes.keep(r.woken)
		return err
	}
	s.tell()
	more, err := r.run(ctx)
	s.Wakes.keep(r.later)
	if more {
		s.Wakes.add(woken{})
	}
	return err
}

// run serves the woken requests, then the due ones. It reports whether requests are left that the next round
// should try at once. A part of the round that fails does not end the others.
func (r *round) run(ctx context.Context) (more bool, err error) {
	list := r.seen.list
	r.spread(list)
	for _, pool := range list.Pools() { // the pool of the oldest request first, since pools share network blocks
		if !r.woken.pools[pool] {
			continue
		}
		if err := r.servePool(ctx, pool); err != nil {
			r.later.pool(pool)
			if ctx.Err() != nil || r.over() {
				return false, err
			}
			r.tellFailed(ctx, pool, err)
		}
	}
	for _, serve := range []func(context.Context, *waitlist.List) (bool, error){r.serveNetwork, r.servePlaces, r.serveDue} {
		r.tried = 0
		left, failed := serve(ctx, list)
		more, err = more || left, cmp.Or(err, failed)
		if ctx.Err() != nil || r.over() {
			return false, err
		}
	}
	return more && err == nil, err
}

// spread expands a look, and a wake of everything or of network blocks, to pools, tenants and due requests.
func (r *round) spread(list *waitlist.List) {
	if r.woken.all || r.woken.look || r.woken.network {
		for _, pool := range list.Pools() {
			r.woken.pool(pool)
		}
	}
	if r.woken.all {
		list.All(func(e *waitlist.Entry) bool {
			r.woken.place(place{e.Pool, e.Tenant})
			return true
		})
	}
	if r.woken.look {
		for _, e := range list.Next(looks) {
			list.LookAt(e, r.present())
		}
	}
}

// tellFailed reports to the observer why a round has left a pool, at most once per tellEvery and pool: rounds
// may follow one another quickly.
func (r *round) tellFailed(ctx context.Context, pool string, err error) {
	now := r.Now()
	maps.DeleteFunc(r.failed, func(_ string, at time.Time) bool { return now.Sub(at) >= tellEvery || now.Before(at) })
	if _, told := r.failed[pool]; !told {
		r.failed[pool] = now
		r.Observer.Retry(ctx, observe.Retry{Type: "waiting", Err: fmt.Errorf("pool %s: %w", pool, err)})
	}
}

// over reports whether Stop was called.
func (s *Rounds) over() bool {
	select {
	case <-s.quit:
		return true
	default:
		return false
	}
}

// servePool serves the heads of a pool: of each tenant the request that has waited longest, in turn. It ends
// when one finds nothing for a reason that the others share. It returns the first error of a request.
func (r *round) servePool(ctx context.Context, pool string) error {
	var failed failures
	for most := heads; ; {
		next, err := r.Queue.Heads(ctx, pool, most)
		if err != nil {
			return account.AskForRebuild(err, r.Rebuild, pool)
		}
		r.outside(ctx, pool, next.Waiting)
		progress := false
		for _, head := range failedLast(r, pool, next.First, func(w account.Waiter) string { return w.Runtime }) {
			if r.nothing[place{pool, head.Tenant}] {
				continue
			}
			for _, e := range r.ofHead(pool, head) {
				done, err := r.try(ctx, e, true, &failed)
				if err != nil {
					return err
				}
				progress = progress || done
			}
			if r.empty[pool] || r.down[pool] || r.over() {
				return failed.first
			}
		}
		if !progress && len(next.First) < most {
			return failed.first
		}
		if !progress {
			most *= 4
		}
	}
}

// ofHead returns the requests of a runtime that is its tenant's next one in Redis. If the room has none, and
// this is a look, it returns the tenant's oldest request instead: an operator may have deleted the message of
// the next one, and the others would wait for it for ever.
func (r *round) ofHead(pool string, head account.Waiter) []*waitlist.Entry {
	found := slices.Clone(r.seen.list.OfRuntime(pool, head.Runtime))
	if len(found) == 0 && r.woken.look {
		if oldest := r.seen.list.First(pool, head.Tenant); oldest != nil {
			return []*waitlist.Entry{oldest}
		}
	}
	return found
}

// failedLast moves the runtimes whose failures ended the previous round of part, which is a pool or blocks, to the end
// of first.
func failedLast[T any](r *round, part string, first []T, runtime func(T) string) []T {
	last := r.last[part]
	delete(r.last, part)
	rank := func(one T) int {
		if slices.Contains(last, runtime(one)) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(first, func(a, b T) int { return rank(a) - rank(b) })
	return first
}

// outside makes those requests due that the room has and Redis' queue has not: they wait for Gardener, or
// have an account from an attempt that could not answer. It does so at a look or after Wake, if the room has
// more requests for the pool than the queue. Requests that wait for network blocks do not count.
func (r *round) outside(ctx context.Context, pool string, waiting int) {
	all, network := r.seen.list.Size(pool)
	if !(r.woken.look || r.woken.all) || all-network <= waiting {
		return
	}
	queue, err := r.Queue.Queue(ctx, pool)
	if err != nil {
		r.later.look = true
		return
	}
	queued := make(map[string]bool, len(queue))
	for _, w := range queue {
		queued[w.Runtime] = true
	}
	now := r.present()
	r.seen.list.All(func(e *waitlist.Entry) bool {
		if e.Pool == pool && !queued[e.Runtime] && !e.Reason.Network() {
			r.seen.list.LookAt(e, now)
		}
		return true
	})
}

// again returns when a failed request is tried again.
func (r *round) again() time.Time { return r.present().Add(min(r.Every, retryAfter)) }

// retryAfter is the longest pause before a failed request is tried again.
const retryAfter = time.Second

// try tries to answer a request, and records what the result means for the others. done is true if the
// request no longer waits. It returns an error if the caller has to stop: the room cannot be read, the attempt failed
// and ctx has ended, or mostFailures requests have failed in a row (f counts them); with inTurn also if the pool is
// being rebuilt.
func (r *round) try(ctx context.Context, e *waitlist.Entry, inTurn bool, f *failures) (done bool, err error) {
	if e.Gone() {
		return true, nil
	}
	r.tried++
	list, at := r.seen.list, place{e.Pool, e.Tenant}
	list.LookAt(e, r.again())
	request, found, err := r.Room.Get(ctx, e.Subject)
	if err != nil {
		return false, err
	}
	if !found {
		list.Remove(e.Subject)
		r.seen.changed = true
		return true, nil
	}
	begin := r.Now()
	result, err := r.Answer(ctx, Turn{Request: request, Next: inTurn && !r.empty[e.Pool] && !r.down[e.Pool], Lasting: r.reliers.lasting})
	r.reliers.meet(result.Left, begin)
	switch {
	case err != nil && ctx.Err() != nil:
		r.later.pool(e.Pool)
		return false, err
	case result.Fault == Rebuilding:
		return false, r.leaveUnbuilt(e.Pool, inTurn, err)
	case result.Fault == Slow:
		r.down[e.Pool], r.nothing[at] = true, true
		r.later.pool(e.Pool)
		return false, nil
	case result.Fault == OwnDoing:
		r.Observer.Retry(ctx, observe.Retry{Type: "waiting", ID: request.Event.ID, Err: err})
		return false, nil
	case err != nil:
		r.nothing[at] = true
		r.later.pool(e.Pool)
		err = fmt.Errorf("serve %s: %w", request.Event.ID, err)
		if f.after(e.Runtime, err) {
			r.last[e.Pool] = f.row // the next round tries these last
			return false, err
		}
		return false, nil
	}
	f.after(e.Runtime, nil)
	if result.Done {
		list.Remove(e.Subject)
		r.seen.changed = true
		return true, nil
	}
	r.stays(e, result, inTurn)
	return false, nil
}

// leaveUnbuilt leaves a pool that is being rebuilt to the next round. It returns err for the head of a pool, and nil for
// others, so that those of other pools are tried.
func (r *round) leaveUnbuilt(pool string, inTurn bool, err error) error {
	r.unbuilt[pool] = true
	r.later.pool(pool)
	if inTurn {
		return err
	}
	return nil
}

// stays records when a request that still waits is due, and which others need not be tried.
func (r *round) stays(e *waitlist.Entry, result Result, inTurn bool) {
	list, now := r.seen.list, r.present()
	e.Lacks = result.Lacks
	switch {
	case len(result.Left) > 0:
		list.LookAt(e, earlier(e.Deadline, now.Add(relierPause), now))
	case result.Again.After(now):
		list.LookAt(e, earlier(e.Deadline, result.Again, now))
	case now.Before(e.Deadline):
		list.LookAt(e, e.Deadline)
	}
	if result.Full || e.Reason.Network() {
		return // other requests of the tenant may need fewer addresses
	}
	r.nothing[place{e.Pool, e.Tenant}] = true
	if inTurn && !result.Apart {
		r.empty[e.Pool] = true
	}
}

// earlier returns the earlier one of deadline and at. A deadline that has passed does not count.
func earlier(deadline, at, now time.Time) time.Time {
	if deadline.After(now) && deadline.Before(at) {
		return deadline
	}
	return at
}
