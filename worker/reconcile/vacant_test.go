package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/dirtying"
)

// noCache is a Cache that has only Shoots.
type noCache struct {
	shoots []engine.Shoot
	lists  int // of all Shoots
}

func (*noCache) Pools() []engine.Pool                 { return nil }
func (*noCache) All() iter.Seq[engine.Binding]        { return func(func(engine.Binding) bool) {} }
func (*noCache) Cached(string) (engine.Binding, bool) { return engine.Binding{}, false }
func (c *noCache) EachShoot(_ context.Context, restart func(), f func(engine.Shoot)) error {
	c.lists++
	restart()
	for _, s := range c.shoots {
		f(s)
	}
	return nil
}

// markerFake records the calls of MarkDirty.
type markerFake struct {
	Marker
	fails  map[string]bool
	became dirtying.Marking // of those that do not fail

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
	return m.became, nil
}

// vacantAccounts are drained accounts of one pool.
func vacantAccounts(names ...string) map[string]vacant {
	empty := map[string]vacant{}
	for _, name := range names {
		empty[name] = vacant{"aws", account.Record{State: account.Draining, Tenant: "ga", Generation: 1}}
	}
	return empty
}

// TestOneFailureHoldsUpNoOther: an account that cannot be marked does not delay the others.
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
		marker, cache := &markerFake{fails: map[string]bool{}}, &noCache{}
		for _, b := range c.fails {
			marker.fails[b] = true
		}
		for _, b := range c.used {
			cache.shoots = append(cache.shoots, engine.Shoot{Binding: b})
		}
		s := Labels{Worker: marker, Cache: cache, Now: time.Now}
		err := s.markVacant(t.Context(), vacantAccounts(all...))
		if slices.Sort(marker.asked); !slices.Equal(marker.asked, c.asked) || errors.Is(err, engine.ErrUnavailable) != (len(c.fails) > 0) {
			t.Errorf("%s: asked for %v, %v; want %v", c.name, marker.asked, err, c.asked)
		}
	}
}

// TestSweepEndsWhereNoneCanBeMarked: after several failures in a row, the rest waits for the next sweep.
func TestSweepEndsWhereNoneCanBeMarked(t *testing.T) {
	t.Parallel()
	marker, names := &markerFake{fails: map[string]bool{}}, make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("aws-%d", i)
		marker.fails[names[i]] = true
	}
	s := Labels{Worker: marker, Cache: &noCache{}, Now: time.Now}
	err := s.markVacant(t.Context(), vacantAccounts(names...))
	if n := len(marker.asked); !errors.Is(err, engine.ErrUnavailable) || n < mostFailures || n > mostFailures+markings {
		t.Errorf("asked for %d of %d, %v", n, len(names), err)
	}
}

// TestFailuresComeLast: mostFailures accounts that can never be marked delay the others by one sweep at most.
func TestFailuresComeLast(t *testing.T) {
	t.Parallel()
	marker, names := &markerFake{fails: map[string]bool{}}, make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("aws-%03d", i)
		marker.fails[names[i]] = i < 50
	}
	now := time.Unix(1000, 0)
	s := Labels{Worker: marker, Cache: &noCache{}, Now: func() time.Time { now = now.Add(time.Second); return now }}
	for sweep := 0; !slices.Contains(marker.asked, names[99]); sweep++ {
		if sweep > 50/mostFailures {
			t.Fatalf("after %d sweeps %s was not asked for", sweep, names[99])
		}
		if err := s.markVacant(t.Context(), vacantAccounts(names...)); !errors.Is(err, engine.ErrUnavailable) {
			t.Fatal(err)
		}
	}
}

// TestShootsAreListedLessOften: the longer an account drains, the less often the Shoots are listed for it.
// For an account that becomes vacant meanwhile they are listed at once, which serves both.
func TestShootsAreListedLessOften(t *testing.T) {
	t.Parallel()
	marker, cache := &markerFake{}, &noCache{shoots: []engine.Shoot{{Binding: "a"}}}
	now := time.Unix(1000, 0)
	s := Labels{Worker: marker, Cache: cache, Now: func() time.Time { return now }}
	sweeps := func(during time.Duration, names ...string) int {
		t.Helper()
		before := cache.lists
		for end := now.Add(during); now.Before(end); now = now.Add(15 * time.Second) {
			if err := s.markVacant(t.Context(), vacantAccounts(names...)); err != nil {
				t.Fatal(err)
			}
		}
		return cache.lists - before
	}
	if n := sweeps(2*time.Minute, "a"); n != 8 {
		t.Errorf("%d lists in the first two minutes, want one for each sweep", n)
	}
	sweeps(time.Hour, "a")
	if n := sweeps(time.Hour, "a"); n != 12 {
		t.Errorf("%d lists in the third hour, want one every five minutes", n)
	}
	if n := sweeps(15*time.Second, "a", "b"); n != 1 || !slices.Equal(marker.asked, []string{"b"}) {
		t.Errorf("%d lists for one more, asked for %v", n, marker.asked)
	}
	cache.shoots = nil
	if sweeps(longestLook, "a"); !slices.Contains(marker.asked, "a") {
		t.Error("an account that no Shoot refers to any more is not marked")
	}
}

// TestRefusedMarksAreTriedLessOften: an account that is internal, whose other name a Shoot names, or whose mark
// Gardener refuses, has the Shoots listed no more often than one that a Shoot names.
func TestRefusedMarksAreTriedLessOften(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		became dirtying.Marking
		fails  map[string]bool
	}{
		{name: "internal", became: dirtying.Unmarked},
		{name: "a Shoot names it by another name", became: dirtying.InUse},
		{name: "refused", fails: map[string]bool{"a": true}},
	} {
		marker, cache := &markerFake{became: c.became, fails: c.fails}, &noCache{}
		now := time.Unix(1000, 0)
		s := Labels{Worker: marker, Cache: cache, Now: func() time.Time { return now }}
		hour := func() {
			for end := now.Add(time.Hour); now.Before(end); now = now.Add(15 * time.Second) {
				if err := s.markVacant(t.Context(), vacantAccounts("a")); err != nil && !c.fails["a"] {
					t.Fatal(err)
				}
			}
		}
		hour()
		cache.lists, marker.asked = 0, nil
		if hour(); cache.lists != 12 || len(marker.asked) != 12 {
			t.Errorf("%s: %d lists and %d attempts in the second hour, want one every five minutes", c.name, cache.lists, len(marker.asked))
		}
	}
}
