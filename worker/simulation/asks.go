package simulation

import (
	"maps"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// asks are what a process has asked its own loops for. Whether a loop takes up one ask or two depends on how
// fast it is, and on its pauses, which are random: so the scheduler hands them on, where every goroutine is
// blocked, and not in a pause.
type asks struct {
	mu     sync.Mutex
	pools  map[string]bool // of the rebuilder
	ranges []func()        // of the reconciler of network ranges
}

// asker is the rebuilder of a process as everything asks it.
type asker struct{ p *process }

func (a asker) Wanted(pool string) {
	a.p.asks.mu.Lock()
	defer a.p.asks.mu.Unlock()
	if a.p.asks.pools == nil {
		a.p.asks.pools = map[string]bool{}
	}
	a.p.asks.pools[pool] = true
}

// passes is the reconciler of network ranges as everything asks it.
type passes struct{ p *process }

func (s passes) Wanted() { s.add(s.p.late.Wanted) }

func (s passes) Freed() { s.add(s.p.late.Freed) }

func (s passes) add(ask func()) {
	s.p.asks.mu.Lock()
	defer s.p.asks.mu.Unlock()
	s.p.asks.ranges = append(s.p.asks.ranges, ask)
}

// handOn tells the loops of a process, one after the other, unless they may be in a pause.
func (p *process) handOn() {
	p.asks.mu.Lock()
	var pools []string
	if len(p.asks.pools) > 0 && !p.pauses(p.rebuilds, rebuildPause) {
		pools = slices.Sorted(maps.Keys(p.asks.pools))
		p.asks.pools = nil
	}
	var ranges []func()
	if len(p.asks.ranges) > 0 && !p.pauses(p.extends, rangesPause) {
		ranges, p.asks.ranges = p.asks.ranges, nil
	}
	p.asks.mu.Unlock()
	for _, pool := range pools {
		p.rebuilder.Wanted(pool)
		synctest.Wait()
	}
	for _, ask := range ranges {
		ask()
		synctest.Wait()
	}
}

// pauses reports whether a loop whose pauses are at most this long may be in one.
func (p *process) pauses(actor string, longest time.Duration) bool {
	since := time.Since(p.world.gate.Last(actor))
	return since > 0 && since < longest
}
