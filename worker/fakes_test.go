package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
)

// The fakes of this package implement only the methods that the tests need. Any other method panics, since
// the embedded interface is nil.

// gardenerFake is bindings at their source, and as a cache has them.
type gardenerFake struct {
	Gardener
	live, cache map[string]engine.Binding
	down        error // of every call of the source
	refused     string
	reads       int
}

func newGardenerFake(bindings ...engine.Binding) *gardenerFake {
	g := &gardenerFake{live: map[string]engine.Binding{}}
	for _, b := range bindings {
		b.ResourceVersion = "1"
		g.live[b.Name] = b
	}
	g.cache = maps.Clone(g.live)
	return g
}

// change is one that the cache has not seen yet.
func (g *gardenerFake) change(name string, edit func(*engine.Binding)) {
	b := g.live[name]
	version, _ := strconv.Atoi(b.ResourceVersion)
	b.ResourceVersion = strconv.Itoa(version + 1)
	edit(&b)
	g.live[name] = b
}

func (g *gardenerFake) Get(_ context.Context, name string) (engine.Binding, error) {
	g.reads++
	b, there := g.live[name]
	if g.down == nil && !there {
		return b, &engine.Error{Code: engine.CodeUnknownBinding, Err: errors.New("not found")}
	}
	return b, g.down
}

func (g *gardenerFake) Cached(name string) (engine.Binding, bool) {
	b, there := g.cache[name]
	return b, there
}

func (g *gardenerFake) Claimable(pool engine.Pool, tenant string, _ bool, _ int) ([]engine.Binding, bool) {
	var out []engine.Binding
	for _, name := range slices.Sorted(maps.Keys(g.cache)) {
		if b := g.cache[name]; b.Pool() == pool && !b.Dirty && (b.Tenant == "" || b.Tenant == tenant) {
			out = append(out, b)
		}
	}
	return out, true
}

func (g *gardenerFake) Barred(engine.Pool, string, bool) []string { return nil }

func (g *gardenerFake) Claim(_ context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	if g.live[seen.Name].ResourceVersion != seen.ResourceVersion {
		return engine.Binding{}, engine.ErrConflict
	}
	if seen.Name == g.refused {
		return engine.Binding{}, engine.ErrRefused
	}
	g.change(seen.Name, func(b *engine.Binding) { b.Tenant, b.Generation, b.Epoch = mark.Tenant, mark.Generation, mark.Epoch })
	return g.live[seen.Name], g.down
}

// countersFake is the model of the counters, with pools that are built.
type countersFake struct {
	accounttest.Model
	decisions int
}

func newCountersFake(pools ...string) *countersFake {
	return &countersFake{Model: accounttest.NewBuilt(pools...)}
}

func (c *countersFake) Assign(ctx context.Context, pool string, r account.Request) (account.Decision, error) {
	c.decisions++
	return c.Model.Assign(ctx, pool, r)
}

// rebuilds notes for what a rebuild was asked for.
type rebuilds []string

func (r *rebuilds) Wanted(pool string) { *r = append(*r, pool) }
