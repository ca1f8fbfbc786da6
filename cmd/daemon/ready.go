package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// part is a part to which the daemon connects.
type part struct {
	up  atomic.Bool
	why atomic.Pointer[string] // message of the last failed attempt
}

func (p *part) failed(text string) { p.why.Store(&text) }

// errStarting is reported for a part that is not connected yet, and for the consumer before there is a
// worker.
var errStarting = errors.New("not connected yet")

// check returns a check that fails with errStarting until the part is connected, and from then on calls run.
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

// checks returns the checks of /readyz.
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
			if gone := p.gone.Load(); gone != nil {
				return errors.New(*gone)
			}
			_, err := p.consumer.Info(ctx)
			return err
		})},
		{Name: "redis", Run: p.up.redis.check(d.redisBuilt)},
		{Name: "gardener", Run: p.up.gardener.check(func(context.Context) error {
			if !p.gardener.Synced() {
				return errors.New("the bindings have not been read yet")
			}
			return nil
		})},
		{Name: "landscape", Run: p.up.landscape.check(func(context.Context) error { return nil })}, // then watched
		{Name: "consumer", Run: func(context.Context) error {
			w := p.worker.Load()
			if w == nil {
				return errStarting
			}
			return w.Consuming()
		}},
	}
}

// redisBuilt checks that Redis answers, and that the first and the last bucket of the directory are built
// and, once Gardener is connected, all pools that have bindings. Their epochs must be in force. It sets the
// gauge of the result, unless NATS does not answer which epochs are in force.
func (d *daemon) redisBuilt(ctx context.Context) error {
	places := []string{account.BucketName(0), account.BucketName(account.Buckets - 1)}
	if d.parts.up.gardener.up.Load() {
		for _, pool := range d.parts.gardener.Pools() {
			places = append(places, pool.Name())
		}
	}
	epochs, err := d.epochs(ctx, places)
	if err != nil {
		d.tel.Metrics.RedisBuilt(false)
		return err
	}
	err = d.parts.fence.InForce(ctx, epochs)
	if err == nil || errors.Is(err, account.ErrNotInForce) {
		d.tel.Metrics.RedisBuilt(err == nil)
	}
	return err
}

// epochs returns the epochs of the places, or an error if one is not built.
func (d *daemon) epochs(ctx context.Context, places []string) (account.Epochs, error) {
	epochs, err := d.parts.counters.Epochs(ctx, places...)
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		if epochs[place] == "" {
			return nil, fmt.Errorf("%s is not built; a rebuild is pending", place)
		}
	}
	return epochs, nil
}
