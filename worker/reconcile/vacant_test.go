package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/dirtying"
)

// noCache has the Shoots alone.
type noCache struct{ shoots []engine.Shoot }

func (noCache) Pools() []engine.Pool                 { return nil }
func (noCache) All() iter.Seq[engine.Binding]        { return func(func(engine.Binding) bool) {} }
func (noCache) Cached(string) (engine.Binding, bool) { return engine.Binding{}, false }
func (c noCache) Shoots(_ context.Context, f func(engine.Shoot) error) error {
	for _, s := range c.shoots {
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}

// markerFake notes what it is asked to mark.
type markerFake struct {
	Marker
	fails map[string]bool

	mu    sync.Mutex
	asked []string
}

func (m *markerFake) MarkDirty(_ context.Context, _, binding, _ string, _ int64) (dirtying.Marking, error) {
	m.mu.Lock()
	m.asked = append(m.asked, binding)
	m.mu.Unlock()
	if m.fails[binding] {
		return dirtying.Unmarked, engine.ErrUnavailable
	}
	return dirtying.Unmarked, nil
}

// vacantAccounts are drained accounts of one pool.
func vacantAccounts(names ...string) map[string]vacant {
	empty := map[string]vacant{}
	for _, name := range names {
		empty[name] = vacant{"aws", account.Record{State: account.Draining, Tenant: "ga", Generation: 1}}
	}
	return empty
}

// TestOneFailureHoldsUpNoOther: an account that cannot be marked holds up none of the others.
func TestOneFailureHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	all := []string{"a", "b", "c", "d", "e", "f"}
	for _, c := range []struct {
		name  string
		fails []string
		used  []string // by Shoots
		asked []string
	}{
		{name: "none fails", asked: all},
		{name: "one in use", used: []string{"b"}, asked: []string{"a", "c", "d", "e", "f"}},
		{name: "one fails", fails: []string{"b"}, asked: all},
	} {
		marker, cache := &markerFake{fails: map[string]bool{}}, noCache{}
		for _, b := range c.fails {
			marker.fails[b] = true
		}
		for _, b := range c.used {
			cache.shoots = append(cache.shoots, engine.Shoot{Binding: b})
		}
		s := Labels{Worker: marker, Cache: cache}
		err := s.markVacant(t.Context(), vacantAccounts(all...))
		if slices.Sort(marker.asked); !slices.Equal(marker.asked, c.asked) || errors.Is(err, engine.ErrUnavailable) != (len(c.fails) > 0) {
			t.Errorf("%s: asked for %v, %v; want %v", c.name, marker.asked, err, c.asked)
		}
	}
}

// TestSweepEndsWhereNoneCanBeMarked: what all markings need may fail, and the rest waits for the next sweep.
func TestSweepEndsWhereNoneCanBeMarked(t *testing.T) {
	t.Parallel()
	marker, names := &markerFake{fails: map[string]bool{}}, make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("aws-%d", i)
		marker.fails[names[i]] = true
	}
	s := Labels{Worker: marker, Cache: noCache{}}
	err := s.markVacant(t.Context(), vacantAccounts(names...))
	if n := len(marker.asked); !errors.Is(err, engine.ErrUnavailable) || n < mostFailures || n > mostFailures+markings {
		t.Errorf("asked for %d of %d, %v", n, len(names), err)
	}
}
