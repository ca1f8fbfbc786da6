package page

import (
	"context"
	"sync"
	"time"
)

const (
	// atMostEvery is how often the state is read, for all who look together.
	atMostEvery = time.Second
	// restFor is how many times as long as the reading took it is left alone after
	// it: on a large landscape the page takes a fifth of one connection at most.
	restFor = 4
	// readWithin bounds one reading.
	readWithin = 5 * time.Second
	// patience is how long a viewer waits for a reading where there is an older one.
	patience = 100 * time.Millisecond
	// tooOld is when an older reading is not shown any more.
	tooOld = 30 * time.Second
)

// cache reads the state when a viewer asks for it, once for all who ask meanwhile.
type cache struct {
	read func(context.Context) *state
	now  func() time.Time
	ctx  context.Context // ends with the page

	mu      sync.Mutex
	last    *state
	ended   time.Time // of the last reading
	reading chan struct{}
}

// get returns the state: that of a moment ago, or a new reading. It returns an older
// one rather than let a viewer wait; nil where there is none in time.
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
