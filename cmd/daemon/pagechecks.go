package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/worker/page"
)

// pageChecks returns the checks whose failures the page shows: of NATS, the streams, the consumer and
// Gardener. None is of Redis: see pageWatched.
func (d *daemon) pageChecks() []page.Check {
	part := map[string]page.Part{"nats": page.NATS, "streams": page.NATS, "consumer": page.Worker}
	var checks []page.Check
	for _, c := range d.checks() {
		if of, known := part[c.Name]; known {
			checks = append(checks, page.Check{Part: of, Run: c.Run})
		}
	}
	gardener := &answering{now: time.Now, ask: d.askGardener}
	return append(checks, page.Check{Part: page.Gardener, Run: gardener.check})
}

// pageWatched returns the check of Redis, which only the page's watch needs: when the page reads the pools for a
// viewer, it notices by itself that Redis fails.
func (d *daemon) pageWatched() []page.Check {
	return []page.Check{{Part: page.Redis, Run: d.parts.up.redis.check(d.redisBuilt)}}
}

// askGardener reads one binding from the API, since the cache would also answer while Gardener is down. It returns
// nil if Gardener answers, and also if the cache has no bindings.
func (d *daemon) askGardener(ctx context.Context) error {
	for b := range d.parts.gardener.All() {
		_, err := d.parts.gardener.Get(ctx, b.Name)
		if engine.CodeOf(err) == engine.CodeUnknownBinding {
			return nil // deleted in the meantime: Gardener did answer
		}
		return err
	}
	return nil
}

// answeringEvery is the maximum age of the last answer.
const answeringEvery = 5 * time.Second

// answering caches for a short time whether a part answers, so that many viewers cost one request.
type answering struct {
	ask func(context.Context) error
	now func() time.Time

	mu    sync.Mutex
	asked time.Time
	last  error
}

func (a *answering) check(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked.IsZero() || a.now().Sub(a.asked) >= answeringEvery {
		a.last = a.ask(ctx)
		a.asked = a.now()
	}
	return a.last
}
