package page

import (
	"context"
	"sync"
	"time"
)

const (
	// atMostEvery is the least time from the end of a read of the state, which all viewers share, to the next.
	atMostEvery = time.Second
	// restFor is the factor of the pause after a read: the pause is at least restFor times as long as the read
	// took. So such reads go on for at most a fifth of the time, however large the landscape is.
	restFor = 4
	// readWithin is the time limit of a read.
	readWithin = 5 * time.Second
	// patience is how long a viewer waits for a new read while an older state can be shown.
	patience = 100 * time.Millisecond
	// tooOld is the age from which on an older state is not shown.
	tooOld = 30 * time.Second
)

// cache reads the state on demand, once for all viewers that wait at the same time.
type cache struct {
	read func(context.Context) *state
	now  func() time.Time
	ctx  context.Context // ends with the page

	mu      sync.Mutex
	last    *state
	ended   time.Time // when the last read ended
	reading chan struct{}
}

// get returns the cached state if it is fresh, and otherwise reads the state. If the read takes longer than
// patience, get returns the cached state. If that is missing or tooOld, get waits up to readWithin, and
// returns nil if there is still no newer state. It does not wait beyond the end of ctx.
func (c *cache) get(ctx context.Context) *state {
	c.mu.Lock()
	if c.fresh() {
		defer c.mu.Unlock()
		return c.last
	}
	if c.reading == nil {
		c.reading = make(chan struct{})
		go c.fill(c.reading)
	}
	reading, wait := c.reading, readWithin
	if c.last != nil && c.now().Sub(c.ended) < tooOld {
		wait = patience
	}
	c.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-reading:
	case <-timer.C:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil && c.now().Sub(c.ended) >= tooOld {
		return nil
	}
	return c.last
}

func (c *cache) fresh() bool {
	return c.last != nil && c.now().Sub(c.ended) < max(atMostEvery, restFor*c.last.Took)
}

func (c *cache) fill(done chan struct{}) {
	ctx, cancel := context.WithTimeout(c.ctx, readWithin)
	defer cancel()
	s := c.read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.ended, c.reading = s, c.now(), nil
	close(done)
}
