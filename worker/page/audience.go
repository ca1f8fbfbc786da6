package page

import (
	"slices"
	"sync"
)

// maxStreams is how many pages update themselves at once.
const maxStreams = 32

// audience shares the places of pages that update themselves among viewers. While there are
// places, a viewer has as many as it asks for. After that one with fewer takes the oldest
// of the viewer that has most.
type audience struct {
	mu     sync.Mutex
	places []*viewing // the oldest first
}

// viewing is the place of one stream. lost is closed when the place has become another viewer's.
type viewing struct {
	who  string
	lost chan struct{}
}

// enter returns a place, nil where there is none for this viewer.
func (a *audience) enter(who string) *viewing {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.places) >= maxStreams && !a.makeRoom(who) {
		return nil
	}
	mine := &viewing{who: who, lost: make(chan struct{})}
	a.places = append(a.places, mine)
	return mine
}

// makeRoom takes a place from a viewer that has, without it, still as many as who with it.
func (a *audience) makeRoom(who string) bool {
	has := map[string]int{}
	for _, p := range a.places {
		has[p.who]++
	}
	most := slices.MaxFunc(a.places, func(p, q *viewing) int { return has[p.who] - has[q.who] }) // the first of these
	if has[most.who]-1 < has[who]+1 {
		return false
	}
	close(most.lost)
	a.places = slices.DeleteFunc(a.places, func(p *viewing) bool { return p == most })
	return true
}

func (a *audience) leave(mine *viewing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.places = slices.DeleteFunc(a.places, func(p *viewing) bool { return p == mine })
}
