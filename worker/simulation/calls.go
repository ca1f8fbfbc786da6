package simulation

import (
	"context"
	"slices"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/simulation/gate"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
)

type call = gate.Call

// ask sends a call of a process through the gate.
func ask[T any](ctx context.Context, p *process, c call, do func(context.Context) (T, error)) (T, error) {
	c.By = p
	return gate.Ask(ctx, p.world.gate, c, do)
}

// looks are Redis calls that change nothing. "heads" and "time" change nothing either, but count as changes here.
var looks = []string{
	"place", "status", "in use", "queue", opPools, "bindings", "runtimes", "places", "runtime", "binding", opBuilt, "blocks of", "all blocks", "ranges built",
}

// seldom are calls that a history contains only a few times.
var seldom = []string{
	"mark freed", "begin dirtying", "release runtime", "revoke", "take back", "refuse", "install", "install ranges", "release blocks", "doubt",
	"free", "mark dirty", "unclaim", "purge " + events.StreamWaiting, "purge " + events.StreamReplies,
}

// turns are calls that are no writes, but whose order the scheduler decides nevertheless.
var turns = []string{opAsk, opDeliver, opInfo, opReopen}

// meets reports whether an armed fault may strike this call. A fault strikes only calls of the port that its item
// draws; a quarter of the faults only calls that change something, a quarter only seldom ones. RebuildCut strikes
// calls of a rebuild that change something, on any port; in one case of three it strikes none.
func meets(c *call, i plans.Item) bool {
	if p, _ := c.By.(*process); i.Kind == plans.RebuildCut {
		return p != nil && c.Actor == p.rebuilds && changes(c) && i.M>>4%3 > 0
	}
	if gate.Ports[i.N%len(gate.Ports)] != c.Port {
		return false
	}
	switch i.M >> 10 % 4 {
	case 0:
		return slices.Contains(seldom, c.Op)
	case 1:
		return changes(c)
	default:
		return true
	}
}

// changes reports whether the call counts as one that changes something: it is a write, and not one of looks.
func changes(c *call) bool { return c.Write && !slices.Contains(looks, c.Op) }

// Straight reports whether a call passes without the scheduler. Of the reads of the actor whose turn it is (mine), and
// of the fence's, three of four do, except those of turns. None does while its port is down, or if an armed fault meets
// it. The draw depends only on the seed, the step and the call, not on the order of goroutines. No call of a rebuild
// passes: its goroutines share what they have read.
func (p *process) Straight(c *call, mine, down bool) bool {
	if down || !mine && c.Actor != p.looks || changes(c) || slices.Contains(turns, c.Op) || c.Actor == p.rebuilds {
		return false
	}
	sum := p.world.plan.Seed ^ uint64(p.world.steps)<<16 ^ uint64(len(c.Actor)<<12^len(c.Op)<<6^len(c.Arg))
	return sum*0x9e3779b97f4a7c15>>40%4 > 0 && !slices.ContainsFunc(p.world.armed, func(i plans.Item) bool { return meets(c, i) })
}

// Dead reports whether the process has died.
func (p *process) Dead() bool { return p.dead.Load() }
