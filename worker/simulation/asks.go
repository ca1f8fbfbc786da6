package simulation

import (
	"maps"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// asks buffers a process's requests to its own background loops. Whether a loop serves two requests in one
// pass depends on its speed and its random pauses. So the scheduler hands a request on only when every
// goroutine is blocked and the loop is not in a pause: that keeps histories deterministic.
type asks struct {
	mu     sync.Mutex
	pools  map[string]bool // the pools that the rebuilder is asked to build
	ranges []func()        // the calls of the reconciler of network ranges, in their order
}

// asker is the rebuilder as the other parts of a process see it: their requests go into asks.
type asker struct{ p *process }

func (a asker) Wanted(pool string) {
	a.p.asks.mu.Lock()
	defer a.p.asks.mu.Unlock()
	a.p.asks.pools[pool] = true
}

// passes is the reconciler of network ranges as the other parts of a process see it: their requests go into asks.
type passes struct{ p *process }

func (s passes) Wanted()             { s.add(s.p.late.Wanted) }
func (s passes) Soon(runtime string) { s.add(func() { s.p.soon = time.Now(); s.p.late.Soon(runtime) }) }
func (s passes) Freed()              { s.add(func() { s.p.soon = time.Now(); s.p.late.Freed() }) }

func (s passes) add(ask func()) {
	s.p.asks.mu.Lock()
	defer s.p.asks.mu.Unlock()
	s.p.asks.ranges = append(s.p.asks.ranges, ask)
}

// again asks for one more pass after this one, if it follows a failed one and Soon or Freed may have asked for it during
// the pause: whether the timer of that came before this pass began depends on the random length of the pause.
func (p *process) again() {
	if p.stumbled && time.Since(p.soon) <= time.Minute+rangesPause {
		p.late.Wanted()
		p.soon = time.Time{}
	}
	p.stumbled = false
}

// handOn passes the requests on, one after the other, except to loops that may be in a pause.
func (p *process) handOn() {
	if p.world.gate.Held(p) {
		return
	}
	var due []func()
	p.asks.mu.Lock()
	if !p.pauses(p.rebuilds, rebuildPause) {
		for _, pool := range slices.Sorted(maps.Keys(p.asks.pools)) {
			due = append(due, func() { p.rebuilder.Wanted(pool) })
		}
		clear(p.asks.pools)
	}
	if !p.pauses(p.extends, rangesPause) {
		due = append(due, p.asks.ranges...)
		p.asks.ranges = nil
	}
	p.asks.mu.Unlock()
	for _, ask := range due {
		ask()
		synctest.Wait()
	}
}

// pauses reports whether a loop may be in a pause that began before now. Its pauses take at most longest.
func (p *process) pauses(actor string, longest time.Duration) bool {
	since := time.Since(p.world.gate.Last(actor))
	return since > 0 && since < longest
}
