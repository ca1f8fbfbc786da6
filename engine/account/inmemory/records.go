package inmemory

import (
	"context"
	"iter"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Locate returns the place of a runtime for a provision. A runtime without a place gets pool.
func (c *Counters) Locate(ctx context.Context, runtime, pool string) (account.Place, error) {
	return step(ctx, c, c.bucketOf, runtime, func(b *account.Bucket) (account.Place, error) { return b.Locate(runtime, pool) })
}

// Depart returns the place of a runtime for a deprovision. A runtime without a place is recorded as gone.
func (c *Counters) Depart(ctx context.Context, runtime string) (account.Place, error) {
	return step(ctx, c, c.bucketOf, runtime, func(b *account.Bucket) (account.Place, error) { return b.Depart(runtime) })
}

// BeginForgetting replaces the entry of a runtime by a tentative one if it still is the one that was read, the zero
// Place for none. It returns the tentative entry, or the zero Place.
func (c *Counters) BeginForgetting(ctx context.Context, runtime string, was account.Place) (account.Place, error) {
	return step(ctx, c, c.bucketOf, runtime, func(b *account.Bucket) (account.Place, error) { return b.BeginForgetting(runtime, was) })
}

// ForgetPlace drops the entry of a runtime if it still is p.
func (c *Counters) ForgetPlace(ctx context.Context, runtime string, p account.Place) (bool, error) {
	return step(ctx, c, c.bucketOf, runtime, func(b *account.Bucket) (bool, error) { return b.Forget(runtime, p) })
}

// MovePlace replaces the runtime's place by to if it still is from.
func (c *Counters) MovePlace(ctx context.Context, runtime string, from, to account.Place) (bool, error) {
	return step(ctx, c, c.bucketOf, runtime, func(b *account.Bucket) (bool, error) { return b.Move(runtime, from, to) })
}

// Place returns the place of a runtime, or the zero Place if the directory does not know it.
func (c *Counters) Place(ctx context.Context, runtime string) (account.Place, error) {
	return step(ctx, c, c.bucketOf, runtime, func(b *account.Bucket) (account.Place, error) {
		place, _ := b.Place(runtime)
		return place, unlessBuilt(b)
	})
}

// unlessBuilt returns account.ErrNotBuilt if s is not built, otherwise nil.
func unlessBuilt(s interface{ Status() account.Status }) error {
	if !s.Status().Built {
		return account.ErrNotBuilt
	}
	return nil
}

// Status returns the state of a pool or bucket as a whole, or the zero Status if it is not built.
func (c *Counters) Status(ctx context.Context, place string) (account.Status, error) {
	return step(ctx, c, c.site, place, func(s site) (account.Status, error) {
		if status := s.Status(); status.Built {
			return status, nil
		}
		return account.Status{}, nil
	})
}

// Built returns, for each pool or bucket, whether it is built.
func (c *Counters) Built(ctx context.Context, places ...string) (map[string]bool, error) {
	built := map[string]bool{}
	err := c.do(ctx, func() {
		for _, place := range places {
			built[place] = c.site(place).Status().Built
		}
	})
	return built, err
}

// Epochs returns the epochs of those of places that are built.
func (c *Counters) Epochs(ctx context.Context, places ...string) (account.Epochs, error) {
	epochs := account.Epochs{}
	err := c.do(ctx, func() {
		for _, place := range places {
			if status := c.site(place).Status(); status.Built {
				epochs[place] = status.Epoch
			}
		}
	})
	return epochs, err
}

// Binding returns the record of a binding; one without a record is free.
func (c *Counters) Binding(ctx context.Context, pool, binding string) (account.Record, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (account.Record, error) {
		if err := unlessBuilt(p); err != nil {
			return account.Record{}, err
		}
		return p.Binding(binding), nil
	})
}

// RuntimeIn returns the record of a runtime in a pool, the zero Runtime for an unknown one.
func (c *Counters) RuntimeIn(ctx context.Context, pool, id string) (account.Runtime, error) {
	return step(ctx, c, c.pool, pool, func(p *account.Pool) (account.Runtime, error) {
		if err := unlessBuilt(p); err != nil {
			return account.Runtime{}, err
		}
		return p.Runtime(id), nil
	})
}

// Runtime returns a runtime's place in the directory and its record in that pool; both
// are zero for an unknown one.
func (c *Counters) Runtime(ctx context.Context, id string) (account.Place, account.Runtime, error) {
	place, err := c.Place(ctx, id)
	if err != nil || place.Pool == "" {
		return place, account.Runtime{}, err
	}
	rt, err := c.RuntimeIn(ctx, place.Pool, id)
	return place, rt, err
}

// Bindings returns the records of a pool, by name.
func (c *Counters) Bindings(ctx context.Context, pool string) iter.Seq2[account.NamedRecord, error] {
	return each(ctx, c, c.pool, pool, (*account.Pool).Bindings)
}

// Runtimes returns the runtimes of a pool, by id.
func (c *Counters) Runtimes(ctx context.Context, pool string) iter.Seq2[account.NamedRuntime, error] {
	return each(ctx, c, c.pool, pool, (*account.Pool).Runtimes)
}

// Each calls the functions with every binding and every runtime of a pool, in random order. They must not
// use the counters.
func (c *Counters) Each(ctx context.Context, pool string, binding func(string, account.Record), runtime func(string, account.Runtime)) error {
	_, err := step(ctx, c, c.pool, pool, func(p *account.Pool) (any, error) {
		if err := unlessBuilt(p); err != nil {
			return nil, err
		}
		p.Each(binding, runtime)
		return nil, nil
	})
	return err
}

// Places returns the entries of a bucket, by runtime.
func (c *Counters) Places(ctx context.Context, bucket string) iter.Seq2[account.NamedPlace, error] {
	return each(ctx, c, c.bucket, bucket, (*account.Bucket).Places)
}

// each iterates over the entries of a pool or bucket, as they are when the loop begins.
func each[P interface{ Status() account.Status }, T any](
	ctx context.Context, c *Counters, find func(string) P, name string, list func(P) []T,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		all, err := step(ctx, c, find, name, func(p P) ([]T, error) { return list(p), unlessBuilt(p) })
		if err != nil {
			yield(none, err)
			return
		}
		for _, entry := range all {
			if !yield(entry, nil) {
				return
			}
		}
	}
}
