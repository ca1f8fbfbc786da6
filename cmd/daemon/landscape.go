package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/landscapes"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/loop"
)

// identityEvery is how often a worker checks that Redis and the streams still belong to its
// landscape: an address may suddenly lead to another server.
const identityEvery = 15 * time.Second

// identity compares the landscape of the bindings with the records in Redis and the ledger. If
// there is no record, it makes one.
type identity struct {
	gardener *gardener.Client
	ledger   *storage.Ledger
	counters *counters.Store
	// at has the addresses of the three for errors.
	at struct{ gardener, ledger, redis string }

	shadow bool
	manage bool // the worker may set the ledger's metadata
	log    *slog.Logger
	failed func(error) // called with each *engine.ForeignError

	mu      sync.Mutex
	unnamed bool // the worker has warned that the ledger does not record its landscape
}

// openLandscape checks, before the first decision, that Redis, the streams and the bindings belong
// to one landscape. Otherwise it returns an *engine.ForeignError.
func (d *daemon) openLandscape(ctx context.Context) error {
	p := &d.parts
	d.identity = &identity{
		gardener: p.gardener, ledger: p.ledger, counters: p.counters, shadow: d.shadowed(), manage: d.cfg.NATS.Manage,
		log: d.log, failed: func(err error) {
			d.tel.Metrics.RedisBuilt(false)
			d.fail(err)
		},
	}
	at := &d.identity.at
	at.gardener = "Gardener at " + p.gardener.Server()
	at.ledger = p.subjects.Stream(events.StreamReplies) + " at " + connect.Shown(d.cfg.NATS.URL)
	at.redis = "Redis at " + connect.Shown(d.cfg.Redis.URL)
	err := d.retry(ctx, &p.up.landscape, "checking the landscape of Redis and the streams", func() error {
		err := d.identity.check(ctx)
		if _, foreign := errors.AsType[*engine.ForeignError](err); foreign {
			return loop.Permanent(err)
		}
		return err
	})
	p.up.landscape.up.Store(err == nil)
	return err
}

// check compares the landscapes of Gardener, the ledger and Redis. If they can be one, it writes the record
// of the ledger or of Redis that is missing or has no cluster; for the ledger see name. If they differ, it
// writes nothing and returns an *engine.ForeignError. Other errors say which part it could not read.
func (i *identity) check(ctx context.Context) error {
	err := i.compare(ctx)
	if _, foreign := errors.AsType[*engine.ForeignError](err); foreign {
		i.failed(err)
	}
	return err
}

func (i *identity) compare(ctx context.Context) error {
	landscape, err := i.gardener.Landscape(ctx)
	if err != nil {
		return err
	}
	landscape.Shadow = i.shadow
	own := engine.Place{At: i.at.gardener, Landscape: landscape}
	recorded, named, err := i.ledger.Landscape(ctx)
	ledger := engine.Place{At: i.at.ledger, Landscape: recorded}
	if err := engine.OneLandscape(own, ledger, named, err); err != nil {
		return err
	}
	// If several landscapes start at once, Redis decides which is first. So the worker asks
	// Redis before it changes the ledger.
	kept, err := landscapes.Claim(ctx, i.counters, landscape)
	redis := engine.Place{At: i.at.redis, Landscape: kept}
	if err := engine.OneLandscape(own, redis, true, err); err != nil {
		return err
	}
	if err := engine.OneLandscape(redis, ledger, named, nil); err != nil {
		return err
	}
	if !named || !recorded.Knows(landscape) {
		i.name(ctx, landscape)
	}
	return nil
}

// name records the landscape in the ledger, if the worker may manage streams. If it cannot, it warns once, and
// the next check tries again: without a record in the ledger, a worker compares only Redis with the bindings.
func (i *identity) name(ctx context.Context, landscape engine.Landscape) {
	i.mu.Lock()
	defer i.mu.Unlock()
	const todo = "until the ledger has a record, the worker compares only the landscape of Redis with that of the bindings; run hapctl landscape adopt with credentials that may change the stream"
	var err error
	if i.manage {
		err = i.ledger.SetLandscape(ctx, landscape)
	}
	switch {
	case i.manage && err == nil || ctx.Err() != nil || i.unnamed:
		return
	case i.manage:
		i.log.Warn("could not record the landscape in the ledger: "+todo, "ledger", i.at.ledger, "landscape", landscape.String(), "error", err)
	default:
		i.log.Warn("the ledger does not record its landscape, and nats.manage is false: "+todo, "ledger", i.at.ledger, "landscape", landscape.String())
	}
	i.unnamed = true
}

// watch repeats the check until ctx ends, and logs each error.
func (i *identity) watch(ctx context.Context) {
	loop.Run(ctx, loop.Options{
		Every:  identityEvery,
		Failed: func(err error, _ time.Duration) { i.log.Error("could not check the landscape", "error", err) },
	}, i.check)
}
