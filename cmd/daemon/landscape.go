package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/worker/loop"
)

// identityEvery is how often a worker looks whether its Redis and its streams are still
// those of its landscape: an address may lead to another server from one moment to the next.
const identityEvery = 15 * time.Second

// identity holds the landscape of the bindings against what Redis and the ledger have
// recorded, and records it there first.
type identity struct {
	gardener *gardener.Client
	ledger   *events.Ledger
	counters *counters.Store
	// at is where each of them is, for errors.
	at struct{ gardener, ledger, redis string }

	shadow bool
	manage bool // the ledger's metadata may be set
	log    *slog.Logger
	failed func() // is told that the landscape is another one

	foreign chan error // the first *engine.ForeignError

	mu      sync.Mutex
	unnamed bool // that the ledger does not name its landscape was logged
}

// openLandscape makes sure, before anything is decided, that Redis, the streams and the
// bindings are of one landscape. An *engine.ForeignError where they are not.
func (d *daemon) openLandscape(ctx context.Context) error {
	p := &d.parts
	d.identity = &identity{
		gardener: p.gardener, ledger: p.ledger, counters: p.counters, shadow: d.shadowed(), manage: d.cfg.NATS.Manage,
		log: d.log, failed: func() { d.tel.Metrics.RedisBuilt(false) }, foreign: make(chan error, 1),
	}
	at := &d.identity.at
	at.gardener = "Gardener at " + p.gardener.Server()
	at.ledger = p.subjects.Stream(events.StreamReplies) + " at " + connect.Shown(d.cfg.NATS.URL)
	at.redis = "Redis at " + connect.Shown(d.cfg.Redis.URL)
	return d.retry(ctx, &p.up.redis, "looking which landscape Redis and the streams belong to", func() error {
		err := d.identity.check(ctx)
		if _, foreign := errors.AsType[*engine.ForeignError](err); foreign {
			return loop.Permanent(err)
		}
		return err
	})
}

// check compares what Gardener, the ledger and Redis say, and records the landscape in
// those of the two last that have no record. Nothing is written where any of them
// differs. Errors: *engine.ForeignError, else that of the part that was not read.
func (i *identity) check(ctx context.Context) error {
	err := i.compare(ctx)
	if _, foreign := errors.AsType[*engine.ForeignError](err); foreign {
		i.failed()
		select {
		case i.foreign <- err:
		default: // told already
		}
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
	// Redis decides which of several landscapes comes first, so it is asked before the
	// ledger is changed.
	kept, err := i.counters.ClaimLandscape(ctx, landscape)
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

// name records the landscape in the ledger. Where that is not to be, the check is Redis's
// alone, and an operator is told once.
func (i *identity) name(ctx context.Context, landscape engine.Landscape) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.unnamed {
		return
	}
	const todo = "until it names one, only Redis is held against the bindings; run hapctl landscape adopt with credentials that may change the stream"
	if !i.manage {
		i.unnamed = true
		i.log.Warn("the ledger does not name its landscape, and nats.manage is false: "+todo, "ledger", i.at.ledger, "landscape", landscape.String())
		return
	}
	if err := i.ledger.SetLandscape(ctx, landscape); err != nil && ctx.Err() == nil {
		i.unnamed = true
		i.log.Warn("the landscape is not recorded in the ledger: "+todo, "ledger", i.at.ledger, "landscape", landscape.String(), "error", err)
	}
}

// watch checks again and again until ctx ends. What cannot be read is another check's to
// tell.
func (i *identity) watch(ctx context.Context) {
	loop.Run(ctx, loop.Options{
		Every:  identityEvery,
		Failed: func(err error, _ time.Duration) { i.log.Error("the landscape could not be confirmed", "error", err) },
	}, i.check)
}
