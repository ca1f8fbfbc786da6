package reconcile

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/dirtying"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// runMarker is a Marker that marks with a function.
type runMarker struct {
	mark func(ctx context.Context) (dirtying.Marking, error)

	mu     sync.Mutex
	woken  []string // pools
	shared []string // pools
}

func (m *runMarker) WakeTenant(pool, _ string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.woken = append(m.woken, pool)
}

func (m *runMarker) SharedPools(names []string) { m.shared = names }

func (m *runMarker) MarkDirty(ctx context.Context, _, _, _ string, _ int64) (dirtying.Marking, error) {
	return m.mark(ctx)
}

// runLabels runs over an account that drains in pool aws. It returns what is told of failures.
func runLabels(t *testing.T, marker *runMarker, others ...engine.Binding) (*Labels, *[]error) {
	t.Helper()
	s, told := newLabels(t, marker, account.Draining, others...)
	go s.Run(t.Context())
	synctest.Wait()
	return s, told
}

// newLabels has an account in this state in pool aws. It returns what will be told of failures.
func newLabels(t *testing.T, marker *runMarker, state account.State, others ...engine.Binding) (*Labels, *[]error) {
	t.Helper()
	draining := engine.Binding{Name: "a", HyperscalerType: "aws", Tenant: "ga", Generation: 1}
	counters, told := memory.NewCounters(), &[]error{}
	_, begun := counters.BeginRebuild(t.Context(), "aws", "e", time.Time{}, 0)
	_, built := counters.Install(t.Context(), "aws", "e", account.Snapshot{
		Bindings: map[string]account.Record{"a": {State: state, Tenant: "ga", Generation: 1}},
	})
	if err := errors.Join(begun, built); err != nil {
		t.Fatal(err)
	}
	garden := memory.NewGardener("garden-kyma", "CredentialsBinding", append(others, draining)...)
	s := &Labels{
		Worker: marker, Bindings: garden, Cache: garden, Follower: counters, Rebuild: &rebuilds{}, Budget: time.Hour,
		Observer: observe.Observer{OnRetry: func(_ context.Context, i observe.Retry) { *told = append(*told, i.Err) }},
	}
	return s, told
}

// A label that changes does not wait for the marks of a sweep.
func TestLabelsAreFollowedDuringAMark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		marker := &runMarker{mark: func(ctx context.Context) (dirtying.Marking, error) {
			<-ctx.Done()
			return dirtying.Unmarked, context.Cause(ctx)
		}}
		s, _ := runLabels(t, marker)
		s.Changed(engine.Binding{Name: "b", HyperscalerType: "aws"}, false)
		synctest.Wait()
		if !slices.Equal(marker.woken, []string{"aws"}) {
			t.Errorf("woken are %v", marker.woken)
		}
	})
}

// A pool that is not built is told of by its rebuild. It hides no other failure.
func TestFailuresBesideAPoolThatIsNotBuilt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		marker := &runMarker{mark: func(context.Context) (dirtying.Marking, error) { return dirtying.Unmarked, engine.ErrUnavailable }}
		_, told := runLabels(t, marker, engine.Binding{Name: "g", HyperscalerType: "gcp", Tenant: "gg"})
		if len(*told) != 1 || !errors.Is((*told)[0], engine.ErrUnavailable) || errors.Is((*told)[0], account.ErrNotBuilt) {
			t.Errorf("told is %v", *told)
		}
	})
}

// A claim asks the shared pools of the labels and those with records, not all that requests have named.
func TestSharedPools(t *testing.T) {
	t.Parallel()
	counters, asked := memory.NewCounters(), &rebuilds{}
	for pool, records := range map[string]map[string]account.Record{"left+shared": {"a": {State: account.InUse, Count: 1}}, "invented+shared": nil} {
		_, begun := counters.BeginRebuild(t.Context(), pool, "e", time.Time{}, 0)
		_, built := counters.Install(t.Context(), pool, "e", account.Snapshot{Bindings: records})
		if err := errors.Join(begun, built); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := counters.BeginRebuild(t.Context(), "lost+shared", "e", time.Time{}, 0); err != nil {
		t.Fatal(err)
	}
	marker := &runMarker{}
	s := &Labels{
		Worker: marker, Follower: counters, Rebuild: asked,
		Cache: memory.NewGardener("garden-kyma", "CredentialsBinding", engine.Binding{Name: "b", HyperscalerType: "labelled", Shared: true}),
	}
	if pools, err := s.pools(t.Context()); err != nil || len(pools) != 0 {
		t.Fatal(pools, err)
	}
	slices.Sort(marker.shared)
	if want := []string{"labelled+shared", "left+shared", "lost+shared"}; !slices.Equal(marker.shared, want) {
		t.Errorf("the shared pools are %v, not %v", marker.shared, want)
	}
	if !slices.Equal(*asked, rebuilds{"lost+shared"}) {
		t.Errorf("asked for a rebuild of %v", *asked)
	}
}

// slowCache needs a while for its bindings, as where there are very many. It counts how often it is read.
type slowCache struct {
	Cache
	reads *atomic.Int64
}

func (c slowCache) All() iter.Seq[engine.Binding] {
	c.reads.Add(1)
	time.Sleep(100 * time.Millisecond) // virtual
	return c.Cache.All()
}

// Sweeps that take long come less often, unless an account is to be marked.
func TestSweepsRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		state       account.State
		least, most int64
	}{
		{"nothing to mark", account.InUse, 9, 20},
		{"an account drains", account.Draining, 32, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var reads atomic.Int64
				s, _ := newLabels(t, &runMarker{mark: func(context.Context) (dirtying.Marking, error) { return dirtying.Unmarked, nil }}, c.state)
				s.Cache = slowCache{s.Cache, &reads}
				ctx, end := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { s.Run(ctx) })
				time.Sleep(10 * time.Minute) // virtual
				end()
				running.Wait() // a sweep may be in the cache, whose time stands still once the test has returned
				if n := reads.Load(); n < c.least || n > c.most {
					t.Errorf("%d sweeps in ten minutes, want %d to %d", n, c.least, c.most)
				}
			})
		})
	}
}

// failingOnce is a Follower whose first Observe fails.
type failingOnce struct {
	Follower
	failed atomic.Bool
}

func (f *failingOnce) Observe(ctx context.Context, pool string, l account.Label) (account.Observation, error) {
	if !f.failed.Swap(true) {
		return account.Observation{}, errors.New("broken pipe")
	}
	return f.Follower.Observe(ctx, pool, l)
}

// A label that could not be followed is followed by the next sweep, also where sweeps rest. The sweep after that rests
// again.
func TestASweepFollowsWhatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads, followed atomic.Int64
		s, told := newLabels(t, &runMarker{}, account.InUse)
		garden := s.Cache.(*memory.Gardener)
		s.Cache, s.Follower = slowCache{s.Cache, &reads}, &failingOnce{Follower: s.Follower}
		s.Observer.OnFollowed = func(context.Context, observe.Followed) { followed.Add(1) }
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		time.Sleep(time.Second) // virtual; from now on sweeps rest for 50 s
		s.Changed(garden.Put(engine.Binding{Name: "a", HyperscalerType: "aws"}), false)
		synctest.Wait()
		if len(*told) != 1 || followed.Load() != 0 {
			t.Errorf("told of %v, followed %d labels", *told, followed.Load())
		}
		time.Sleep(20 * time.Second) // virtual
		if n := reads.Load(); followed.Load() != 1 || n != 2 {
			t.Errorf("followed %d labels in %d sweeps", followed.Load(), n)
		}
		time.Sleep(40 * time.Second) // virtual
		if n := reads.Load(); n != 2 {
			t.Errorf("%d sweeps in a minute", n)
		}
		end()
		running.Wait()
	})
}
