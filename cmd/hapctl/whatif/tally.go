package whatif

import (
	"context"
	"maps"
	"slices"

	"github.com/hap-worker/hap-worker/cmd/hapctl/inspect"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/natural"
	"github.com/hap-worker/hap-worker/worker/simulate"
)

// tallies are the counts of pools, by name.
type tallies map[string]poolCounts

// tallied counts the pools of a simulation.
func tallied(ctx context.Context, sim *simulate.Simulator) (tallies, error) {
	counts := tallies{}
	for _, b := range sim.Bindings() {
		name := b.Pool().Name()
		rec, err := sim.Record(ctx, name, b.Name)
		if err != nil {
			return nil, err
		}
		v := view.NewBinding(view.Place{Pool: name, Binding: b.Name}, &b, &rec, view.Terms{})
		p := inspect.PoolView{Standings: map[account.State]int{}}
		p.Count(&v)
		c := counts[name]
		c.Free, c.Claimed, c.Dirty, c.Clusters = c.Free+p.Free.N, c.Claimed+p.Claimed.N, c.Dirty+p.Dirty.N, c.Clusters+p.Clusters.N
		counts[name] = c
	}
	pools, err := sim.Pools(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range pools {
		c := counts[name]
		if c.Waiting, err = sim.Waiting(ctx, name); err != nil {
			return nil, err
		}
		counts[name] = c
	}
	return counts, nil
}

// changes returns the pools whose counts differ.
func (before tallies) changes(after tallies) []poolChange {
	changed := []poolChange{}
	for _, name := range slices.SortedFunc(maps.Keys(after), natural.Compare) {
		if was, is := before[name], after[name]; was != is {
			changed = append(changed, poolChange{Pool: name, Before: was, After: is})
		}
	}
	return changed
}
