package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// part is something that the daemon connects to.
type part struct {
	up  atomic.Bool
	why atomic.Pointer[string] // what the last attempt said
}

func (p *part) failed(text string) { p.why.Store(&text) }

// errStarting is why nothing is ready that the daemon has not come to.
var errStarting = errors.New("not connected yet")

// check is a check that holds only once the part is connected.
func (p *part) check(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if p.up.Load() {
			return run(ctx)
		}
		if why := p.why.Load(); why != nil {
			return fmt.Errorf("%w: %s", errStarting, *why)
		}
		return errStarting
	}
}

// checks are what /readyz tells the state of.
func (d *daemon) checks() []telemetry.Check {
	p := &d.parts
	return []telemetry.Check{
		{Name: "nats", Run: p.up.nats.check(func(context.Context) error {
			if !p.nats.IsConnected() {
				return errors.New("not connected: " + p.nats.Status().String())
			}
			return nil
		})},
		{Name: "streams", Run: p.up.streams.check(func(ctx context.Context) error {
			_, err := p.consumer.Info(ctx)
			return err
		})},
		{Name: "redis", Run: p.up.redis.check(d.redisBuilt)},
		{Name: "gardener", Run: p.up.gardener.check(func(context.Context) error {
			if !p.gardener.Synced() {
				return errors.New("the bindings are not read yet")
			}
			return nil
		})},
		{Name: "consumer", Run: func(context.Context) error {
			w := p.worker.Load()
			if w == nil {
				return errStarting
			}
			return w.Consuming()
		}},
	}
}

// redisBuilt looks whether Redis answers and holds the directory and the pools.
func (d *daemon) redisBuilt(ctx context.Context) error {
	places := []string{account.BucketName(0), account.BucketName(account.Buckets - 1)}
	if d.parts.up.gardener.up.Load() {
		for _, pool := range d.parts.gardener.Pools() {
			places = append(places, pool.Name())
		}
	}
	err := d.built(ctx, places)
	d.tel.Metrics.RedisBuilt(err == nil)
	return err
}

// built returns nil where all places are built, and their epochs are in force.
func (d *daemon) built(ctx context.Context, places []string) error {
	epochs, err := d.parts.counters.Epochs(ctx, places...)
	if err != nil {
		return err
	}
	for _, place := range places {
		if epochs[place] == "" {
			return fmt.Errorf("%s is not built, a rebuild is to come", place)
		}
	}
	return d.parts.fence.InForce(ctx, epochs)
}
