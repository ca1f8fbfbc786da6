package simulation

import (
	"context"
	"slices"

	"github.com/hap-worker/hap-worker/worker/simulation/gate"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
)

type call = gate.Call

// ask sends a call of a process through the gate.
func ask[T any](ctx context.Context, p *process, c call, do func(context.Context) (T, error)) (T, error) {
	c.By, c.Write = p, plans.Calls[c.Op] != plans.Look
	return gate.Ask(ctx, p.world.gate, c, do)
}

// turns are calls that are no writes, but whose order the scheduler decides nevertheless.
var turns = []string{opAsk, opDeliver, opInfo, opReopen}

// meets reports whether an armed fault may strike this call. RebuildCut strikes calls of a rebuild from the first that
// changes something, on any port.
func meets(c *call, i plans.Item) bool {
	if p, _ := c.By.(*process); i.Kind == plans.RebuildCut {
		return p != nil && c.Actor == p.rebuilds && (p.rebuilding || c.Write)
	}
	return i.Meets(c)
}

// Straight reports whether a call passes without the scheduler. Of the reads of the actor whose turn it is (mine), and
// of the fence's, three of four do, except those of turns. None does while its port is down, or if an armed fault meets
// it. The draw depends only on the seed, the step and the call, not on the order of goroutines. No call of a rebuild
// passes: its goroutines share what they have read.
func (p *process) Straight(c *call, mine, down bool) bool {
	if c.Actor == p.extends && c.Op == opState {
		return !down // a pass asks so for several clusters at a time, and the calls have one name
	}
	if down || !mine && c.Actor != p.looks || c.Write || slices.Contains(turns, c.Op) || c.Actor == p.rebuilds {
		return false
	}
	sum := p.world.plan.Seed ^ uint64(p.world.steps)<<16 ^ uint64(len(c.Actor)<<12^len(c.Op)<<6^len(c.Arg))
	return sum*0x9e3779b97f4a7c15>>40%4 > 0 && !slices.ContainsFunc(p.world.armed, func(a armed) bool { return meets(c, a.Item) })
}

// Dead reports whether the process has died.
func (p *process) Dead() bool { return p.dead.Load() }
