package dirtying_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/dirtying"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// records returns a fixed permit or error, and records the calls of a marker's other ports.
type records struct {
	permit account.Permit
	err    error
	during func() // while the permit is asked for

	permits int
	freed   []string
	woken   []string // pools
	wanted  []string // pools
}

func (r *records) BeginDirtying(context.Context, string, string, int64) (account.Permit, error) {
	r.permits++
	if r.during != nil {
		r.during()
	}
	return r.permit, r.err
}

func (r *records) MarkFreed(_ context.Context, _, binding string, _ int64) (bool, error) {
	r.freed = append(r.freed, binding)
	return true, nil
}

func (r *records) WakePool(pool string) { r.woken = append(r.woken, pool) }
func (r *records) Wanted(pool string)   { r.wanted = append(r.wanted, pool) }

// The last runtime has left account b of tenant ga, in pool aws with generation 3.
func TestMarkDirty(t *testing.T) {
	t.Parallel()
	claimed := engine.Binding{Name: "b", HyperscalerType: "aws", Tenant: "ga", Generation: 3}
	dirty, free, cordoned := claimed, claimed, claimed
	dirty.Dirty, free.Tenant, cordoned.Cordoned = true, "", true
	given, pristine := account.Permit{Given: true, Tenant: "ga"}, account.Permit{Given: true, Tenant: "ga", Pristine: true}
	for _, c := range []struct {
		name    string
		before  func(*memory.Gardener)
		during  func(*memory.Gardener) // once, while the permit is asked for
		permit  account.Permit
		err     error
		became  dirtying.Marking
		label   engine.Binding // afterwards
		permits int
	}{
		{"no Shoot refers to it", nil, nil, given, nil, dirtying.Marked, dirty, 1},
		{"no request was answered with it", nil, nil, pristine, nil, dirtying.Unclaimed, free, 1},
		{"a Shoot refers to it", shoot, nil, given, nil, dirtying.InUse, claimed, 0},
		{"a Shoot came meanwhile", nil, shoot, given, nil, dirtying.InUse, claimed, 1},
		{"it was revived", nil, nil, account.Permit{}, nil, dirtying.Unmarked, claimed, 1},
		{"it is marked already", func(g *memory.Gardener) { g.Put(dirty) }, nil, given, nil, dirtying.Marked, dirty, 0},
		{"it is gone", func(g *memory.Gardener) { g.Delete("b") }, nil, given, nil, dirtying.Unmarked, engine.Binding{}, 0},
		{"it is gone meanwhile", nil, func(g *memory.Gardener) { g.Delete("b") }, given, nil, dirtying.Unmarked, engine.Binding{}, 1},
		{"it was cordoned meanwhile", nil, func(g *memory.Gardener) { g.Put(cordoned) }, given, nil, dirtying.Marked, cordoned, 2},
		{"its pool is not built", nil, nil, account.Permit{}, account.ErrNotBuilt, dirtying.Unmarked, claimed, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			garden := memory.NewGardener("garden-kyma", "CredentialsBinding", claimed)
			if c.before != nil {
				c.before(garden)
			}
			r := &records{permit: c.permit, err: c.err}
			r.during = func() {
				if c.during != nil && r.permits == 1 {
					c.during(garden)
				}
			}
			m := dirtying.New(dirtying.Options{Bindings: garden, Shoots: garden, Records: r, Rebuild: r, Wakes: r, Observer: &observe.Observer{}})
			became, err := m.MarkDirty(t.Context(), "aws", "b", "ga", 3)
			if became != c.became || !errors.Is(err, c.err) || r.permits != c.permits {
				t.Errorf("it became %d after %d permits, %v; want %d after %d", became, r.permits, err, c.became, c.permits)
			}
			label, err := garden.Get(t.Context(), "b")
			if err != nil && engine.CodeOf(err) != engine.CodeUnknownBinding {
				t.Fatal(err)
			}
			marked := c.became == dirtying.Marked
			if label.Tenant != c.label.Tenant || label.Dirty != marked || label.Generation != c.label.Generation || label.Cordoned != c.label.Cordoned {
				t.Errorf("its label is %+v, want %+v", label, c.label)
			}
			freed := c.became == dirtying.Unclaimed
			if slices.Equal(r.freed, []string{"b"}) != freed || slices.Equal(r.woken, []string{"aws"}) != freed {
				t.Errorf("freed are %v, woken %v", r.freed, r.woken)
			}
			if wanted := len(r.wanted) > 0; wanted != errors.Is(c.err, account.ErrNotBuilt) {
				t.Errorf("rebuilds are wanted of %v", r.wanted)
			}
		})
	}
}

// conflicts refuses each mark, since another writer is always faster.
type conflicts struct {
	*memory.Gardener
	writes int
}

func (c *conflicts) MarkDirty(context.Context, engine.Binding, engine.Mark) (engine.Binding, error) {
	c.writes++
	return engine.Binding{}, engine.ErrConflict
}

// A mark that always conflicts is repeated with pauses, and its error is returned in the end.
func TestMarkThatConflicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		garden := &conflicts{Gardener: memory.NewGardener("garden-kyma", "CredentialsBinding", engine.Binding{Name: "b", HyperscalerType: "aws", Tenant: "ga", Generation: 3})}
		r := &records{permit: account.Permit{Given: true, Tenant: "ga"}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r.during = func() {
			if r.permits > 1000 {
				cancel()
			}
		}
		m := dirtying.New(dirtying.Options{Bindings: garden, Shoots: garden, Records: r, Rebuild: r, Wakes: r, Observer: &observe.Observer{}})
		_, err := m.MarkDirty(ctx, "aws", "b", "ga", 3)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), engine.ErrConflict.Error()) || garden.writes > 30 {
			t.Errorf("it ends after %d writes with %v", garden.writes, err)
		}
	})
}

func shoot(g *memory.Gardener) { g.PutShoot(engine.Shoot{Name: "s", Binding: "b"}) }
