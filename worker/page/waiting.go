package page

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

const (
	// mostWaiting is how many requests, the oldest, are read at first: each costs a round trip.
	mostWaiting = 50
	// firstOfPool is how many requests of a pool are shown.
	firstOfPool = 5
	// mostPools limits the pools that have a read for themselves when more than mostWaiting wait.
	mostPools = 40
	// longQueue is the length of a queue above which positions are not looked up, since a lookup reads the
	// whole queue.
	longQueue = 1000
)

var errEnough = errors.New("enough is read")

// waiter is a request that waits.
type waiter struct {
	Position int // in the pool's queue in Redis; 0 if it is not there, or was not looked up
	Runtime  string
	Request  string
	Tenant   string
	Pool     string
	Reason   string
	Since    time.Time
	Deadline time.Time
}

func newWaiter(r storage.WaitingRequest) waiter {
	w := waiter{Request: r.Event.ID, Runtime: r.Event.RuntimeID, Pool: r.Pool, Reason: string(r.Reason), Since: r.Since, Deadline: r.Deadline}
	if p := r.Event.Provision; p != nil {
		w.Tenant = p.GlobalAccountID
	}
	return w
}

// queue is the queue of a pool.
type queue struct {
	First []waiter
	Count int
	Known bool // false if neither the waiting room nor the pool in Redis was read
	Least bool // Count is a lower bound
}

// More is the number of requests beyond First.
func (l queue) More() int { return max(0, l.Count-len(l.First)) }

// Figure is the number of waiting requests.
func (l queue) Figure() figure {
	if l.Known && l.Least {
		return figure(strconv.Itoa(l.Count) + " or more")
	}
	return figureOf(l.Known, l.Count)
}

// readOldest returns the oldest mostWaiting waiting requests by pool. It sets Queued if it succeeds, and More if
// there are more of them.
func (s *state) readOldest(ctx context.Context, room Room) (map[string][]waiter, error) {
	oldest := map[string][]waiter{}
	read := 0
	err := room.Each(ctx, func(r storage.WaitingRequest) error {
		if read == mostWaiting {
			s.More = true
			return errEnough
		}
		read++
		oldest[r.Pool] = append(oldest[r.Pool], newWaiter(r))
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	s.Queued = true
	return oldest, nil
}

// readQueues sets what waits for each pool. If oldest are not all, it also reads the first firstOfPool requests
// of up to mostPools pools of which oldest has fewer than that, and fewer than wait in Redis. It returns the
// errors of the waiting room and of the queues in Redis.
func (s *state) readQueues(ctx context.Context, from *Sources, oldest map[string][]waiter) (room, queues error) {
	for _, name := range slices.Sorted(maps.Keys(oldest)) {
		if s.pool(name) == nil { // no account is labelled for it, and none of its queue in Redis was read
			p := unlabelled(name)
			p.Status.Built = true
			s.Pools = append(s.Pools, p)
		}
	}
	var searches, places errgroup.Group
	searches.SetLimit(poolsAtOnce)
	places.SetLimit(poolsAtOnce)
	looked := 0
	for _, p := range s.Pools {
		p.Waiting.First = oldest[p.Name()]
		if s.More && len(p.Waiting.First) < firstOfPool && p.Status.Waiting > len(p.Waiting.First) && looked < mostPools {
			looked++
			searches.Go(func() error { return p.search(ctx, from.Room) })
		}
	}
	room = searches.Wait()
	for _, p := range s.Pools {
		if len(p.Waiting.First) > 0 {
			places.Go(func() error { return p.line(ctx, from.Records) })
		}
	}
	return room, places.Wait()
}

// search reads the first waiting requests of the pool from the waiting room.
func (p *pool) search(ctx context.Context, room Room) error {
	var found []waiter
	err := room.Matching(ctx, events.WaitingAddress{Pool: p.Name()}, func(r storage.WaitingRequest) error {
		if found = append(found, newWaiter(r)); len(found) == firstOfPool {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	p.Waiting.First = found
	return nil
}

// line puts the waiting requests that were found in the order in which they are served, as far as it is known, counts
// them, and keeps the first firstOfPool.
func (p *pool) line(ctx context.Context, from Records) error {
	places, err := p.places(ctx, from)
	found := p.Waiting.First
	for i := range found {
		found[i].Position = places[found[i].Runtime]
	}
	slices.SortStableFunc(found, func(a, b waiter) int { return cmp.Compare(place(a), place(b)) })
	p.Waiting.First, p.Waiting.Count = found[:min(firstOfPool, len(found))], len(found)
	return err
}

// place returns the position of a request. For a request without one, it returns a number behind all positions.
func place(w waiter) int { return cmp.Or(w.Position, longQueue+1) }

// places returns the positions of the runtimes in the pool's queue. It returns nil without an error if the pool was
// not read or not built, and if its queue is empty or longer than longQueue.
func (p *pool) places(ctx context.Context, from Records) (map[string]int, error) {
	if p.Unread || p.Status.Waiting == 0 || p.Status.Waiting > longQueue {
		return nil, nil
	}
	order, err := from.Queue(ctx, p.Name())
	if errors.Is(err, account.ErrNotBuilt) {
		return nil, nil
	}
	places := make(map[string]int, len(order))
	for i, w := range order {
		places[w.Runtime] = i + 1
	}
	return places, err
}

// countWaiting sets how many requests wait for each pool. If the waiting room was read to its end, that is the
// number of requests found there, including those that wait for network ranges. Otherwise it is the larger of that
// number and the length of the queue in Redis.
func (s *state) countWaiting() {
	for _, p := range s.Pools {
		p.Waiting.Known = s.Queued || !p.Unread && p.Status.Built
		if !s.Queued || s.More {
			p.Waiting.Count = max(p.Waiting.Count, p.Status.Waiting)
			p.Waiting.Least = !s.Queued || p.Waiting.Count > 0
		}
	}
}
