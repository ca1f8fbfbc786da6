package page

import (
	"slices"
	"sync"
)

// maxStreams is the number of pages that may update themselves at once.
const maxStreams = 32

// audience shares a fixed number of places for streams among viewers. While places are free, a viewer gets as
// many as it asks for. When all are taken, a viewer that has at least two places fewer than the viewer with
// most places gets the oldest place of the latter.
type audience struct {
	mu     sync.Mutex
	places []*viewing // the oldest first
}

// viewing is the place of one stream. lost is closed when the place goes to another viewer.
type viewing struct {
	who  string
	lost chan struct{}
}

// enter returns a place, nil if there is none for this viewer.
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

// makeRoom takes a place from the viewer with most places, so that the viewer named by who can have it, and
// reports whether it did. It takes none if the former would then have fewer places than the latter.
func (a *audience) makeRoom(who string) bool {
	has := map[string]int{}
	for _, p := range a.places {
		has[p.who]++
	}
	most := slices.MaxFunc(a.places, func(p, q *viewing) int { return has[p.who] - has[q.who] }) // the oldest
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
