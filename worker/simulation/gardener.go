package simulation

import (
	"context"
	"fmt"
	"iter"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/suggest"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/simulation/gate"
)

// landscape is one process's view of Gardener. Its reads and writes go through package gate, except Referrer. Its
// cache changes when the scheduler delivers an event of the watch.
type landscape struct {
	p     *process
	cache *suggest.Index
}

func (l *landscape) Get(ctx context.Context, name string) (engine.Binding, error) {
	return ask(ctx, l.p, call{Port: gate.Gardener, Op: "get", Arg: name}, func(ctx context.Context) (engine.Binding, error) {
		b, err := l.p.world.garden.Get(ctx, name)
		if b.Dirty && l.p.world.off("unnumbered") { // without rule 9: as if no binding was ever claimed twice
			b.Generation = min(b.Generation, 1)
		}
		return b, err
	})
}

func (l *landscape) write(ctx context.Context, op string, seen engine.Binding, do func(context.Context, engine.Binding) (engine.Binding, error)) (engine.Binding, error) {
	return ask(ctx, l.p, call{Port: gate.Gardener, Op: op, Arg: seen.Name}, func(ctx context.Context) (engine.Binding, error) {
		if l.p.world.off("version") { // without rule 2: the binding is overwritten, whatever its version
			now, err := l.p.world.garden.Get(ctx, seen.Name)
			if err != nil {
				return now, err
			}
			seen = now
		}
		if l.p.world.barred[seen.Name] > 0 {
			return engine.Binding{}, fmt.Errorf("its Secret is gone: %w", engine.ErrRefused)
		}
		return do(ctx, seen)
	})
}

func (l *landscape) Claim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return l.write(ctx, "label", seen, func(ctx context.Context, seen engine.Binding) (engine.Binding, error) {
		if l.p.world.off("label") { // without rule 4: the claim succeeds, and no label is written
			seen.Tenant, seen.Generation, seen.Epoch = mark.Tenant, mark.Generation, mark.Epoch
			return seen, nil
		}
		b, err := l.p.world.garden.Claim(ctx, seen, mark)
		if l.p.world.off("moved") && err == nil { // without rule 10: the pool of the claim is not recorded
			b.ClaimedIn = ""
			b = l.p.world.garden.Put(b)
		}
		return b, err
	})
}

func (l *landscape) MarkDirty(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return l.write(ctx, "mark dirty", seen, func(ctx context.Context, seen engine.Binding) (engine.Binding, error) {
		return l.p.world.garden.MarkDirty(ctx, seen, mark)
	})
}

func (l *landscape) Unclaim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return l.write(ctx, "unclaim", seen, func(ctx context.Context, seen engine.Binding) (engine.Binding, error) {
		return l.p.world.garden.Unclaim(ctx, seen, mark)
	})
}

func (l *landscape) Free(ctx context.Context, seen engine.Binding, request string) (engine.Binding, error) {
	return l.write(ctx, "free", seen, func(ctx context.Context, seen engine.Binding) (engine.Binding, error) {
		by := request
		if l.p.world.off("released-by") { // without rule 9: the binding does not record which release freed it
			request = ""
		}
		b, err := l.p.world.garden.Free(ctx, seen, request)
		if err == nil {
			l.p.world.freed(seen, by)
		}
		return b, err
	})
}

func (l *landscape) Refers(ctx context.Context, binding string) (bool, error) {
	return ask(ctx, l.p, call{Port: gate.Gardener, Op: "shoots on", Arg: binding}, func(ctx context.Context) (bool, error) {
		if l.p.world.off("shoots") {
			return false, nil
		}
		return l.p.world.garden.Refers(ctx, binding)
	})
}

func (l *landscape) Referrer(ctx context.Context, binding string) (kind, name string, err error) {
	return l.p.world.garden.Referrer(ctx, binding)
}

func (l *landscape) List(ctx context.Context, f func(engine.Binding) error) error {
	return visited(ctx, l.p, "list bindings", l.p.world.garden.List, f)
}

func (l *landscape) EachShoot(ctx context.Context, restart func(), f func(engine.Shoot)) error {
	list := func(ctx context.Context, f func(engine.Shoot) error) error {
		return visited(ctx, l.p, "list Shoots", l.p.world.garden.Shoots, f)
	}
	return memory.EachShootOf(ctx, list, restart, f)
}

func visited[T any](ctx context.Context, p *process, op string, list func(context.Context, func(T) error) error, f func(T) error) error {
	all, err := ask(ctx, p, call{Port: gate.Gardener, Op: op}, func(ctx context.Context) (all []T, err error) {
		err = list(ctx, func(one T) error { all = append(all, one); return nil })
		return all, err
	})
	for _, one := range all {
		if err == nil {
			err = f(one)
		}
	}
	return err
}

func (l *landscape) Claimable(pool engine.Pool, tenant string, internalTenant bool, n int) ([]engine.Binding, bool) {
	return l.cache.Claimable(pool, tenant, internalTenant, n)
}

func (l *landscape) Shared(pool engine.Pool) []engine.Binding { return l.cache.Shared(pool) }

func (l *landscape) Barred(pool engine.Pool, tenant string, internalTenant bool) []string {
	return l.cache.Barred(pool, tenant, internalTenant)
}

func (l *landscape) Cached(name string) (engine.Binding, bool) { return l.cache.Cached(name) }

func (l *landscape) Pools() []engine.Pool { return l.cache.Pools() }

func (l *landscape) All() iter.Seq[engine.Binding] {
	return func(yield func(engine.Binding) bool) {
		for _, b := range l.cache.All() {
			if !yield(*b) {
				return
			}
		}
	}
}
