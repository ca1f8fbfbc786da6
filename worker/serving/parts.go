package serving

import (
	"cmp"
	"context"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/waitlist"
)

// blocks is the key in Rounds.last of the part of a round that serves requests for network blocks.
const blocks = ""

// serveNetwork serves the requests that wait for network blocks if those were woken, oldest first; those whose
// failures ended the previous search come last. If one is not served, it passes over the others that lacked the same
// the last time. more is true if slice did not suffice.
func (r *round) serveNetwork(ctx context.Context, list *waitlist.List) (more bool, err error) {
	if !r.woken.network {
		return false, nil
	}
	var lack []*waitlist.Entry
	list.All(func(e *waitlist.Entry) bool {
		if e.Reason.Network() {
			lack = append(lack, e)
		}
		return true
	})
	lack = failedLast(r, blocks, lack, func(e *waitlist.Entry) string { return e.Runtime })
	var failed failures
	full := map[string]bool{}
	for found := 0; len(lack) > 0 && found < fruitless && !r.over(); lack = lack[1:] {
		e := lack[0]
		if e.Lacks != "" && full[e.Lacks] {
			continue
		}
		if r.unbuilt[e.Pool] {
			r.later.network = true
			continue
		}
		if r.tried >= slice {
			r.later.network = true
			return true, failed.first
		}
		r.lack[e] = true
		done, err := r.try(ctx, e, false, &failed)
		if err != nil {
			r.later.network, r.last[blocks] = true, failed.row
			return false, cmp.Or(failed.first, err)
		}
		if found++; done {
			found = 0
		} else {
			full[e.Lacks] = true
		}
	}
	return false, failed.first
}

// servePlaces serves the woken tenants. more is true if it tried slice requests: others may be left.
func (r *round) servePlaces(ctx context.Context, list *waitlist.List) (more bool, err error) {
	var failed failures
	for i, p := range r.woken.places {
		if r.tried >= slice {
			r.later.add(woken{places: r.woken.places[i:]})
			return true, failed.first
		}
		if r.unbuilt[p.pool] {
			r.later.place(p)
			continue
		}
		if err := r.servePlace(ctx, list, p, &failed); err != nil {
			r.later.add(woken{places: r.woken.places[i:]})
			return false, cmp.Or(failed.first, err)
		}
	}
	return r.tried >= slice, failed.first
}

// servePlace serves the requests of one tenant for a pool, oldest first, until one is not answered. A request that waits
// for network blocks does not end this. After slice requests it leaves the others to the next round.
func (r *round) servePlace(ctx context.Context, list *waitlist.List, p place, failed *failures) error {
	for e := list.First(p.pool, p.tenant); e != nil && !r.nothing[p]; {
		next := list.Following(e)
		if r.lack[e] {
			e = next
			continue
		}
		done, err := r.try(ctx, e, false, failed)
		if err != nil {
			return err
		}
		if r.unbuilt[p.pool] {
			r.later.place(p)
			return nil
		}
		if !done && !e.Reason.Network() {
			return nil
		}
		if e = next; r.tried >= slice && e != nil {
			r.later.place(p)
			return nil
		}
	}
	return nil
}

// serveDue serves the requests that are due, for example since their deadline has passed, they have failed, or a look
// has selected them. more is true if slice did not suffice.
func (r *round) serveDue(ctx context.Context, list *waitlist.List) (more bool, err error) {
	var failed failures
	for e := list.Due(r.Now()); e != nil && !r.over(); e = list.Due(r.Now()) {
		if r.tried >= slice {
			return true, failed.first
		}
		if r.unbuilt[e.Pool] || r.down[e.Pool] && e.Reason == events.WaitingUnavailable {
			list.LookAt(e, r.again())
			continue
		}
		if _, err := r.try(ctx, e, false, &failed); err != nil {
			return false, cmp.Or(failed.first, err)
		}
	}
	return false, failed.first
}
