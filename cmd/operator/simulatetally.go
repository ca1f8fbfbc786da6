package operator

import (
	"context"
	"maps"
	"slices"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/simulate"
)

// tallies are how full pools are, by name.
type tallies map[string]poolCounts

// tallied counts what a simulation has now.
func tallied(ctx context.Context, sim *simulate.Simulator) (tallies, error) {
	counts := tallies{}
	for _, b := range sim.Bindings() {
		name := b.Pool().Name()
		rec, err := sim.Record(ctx, name, b.Name)
		if err != nil {
			return nil, err
		}
		v := newBindingView(place{name, b.Name}, &b, &rec, terms{})
		p := poolView{Standings: map[account.State]int{}}
		p.count(&v)
		c := counts[name]
		c.Free, c.Claimed, c.Dirty, c.Clusters = c.Free+p.Free.n, c.Claimed+p.Claimed.n, c.Dirty+p.Dirty.n, c.Clusters+p.Clusters.n
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

// changes are the pools that are not as they were.
func (before tallies) changes(after tallies) []poolChange {
	changed := []poolChange{}
	for _, name := range slices.SortedFunc(maps.Keys(after), natural) {
		if was, is := before[name], after[name]; was != is {
			changed = append(changed, poolChange{Pool: name, Before: was, After: is})
		}
	}
	return changed
}
