// Package ranges allots network blocks to clusters: on the path of an event through the
// Allotter, and beside it through the Reconciler, which serves the clusters that rules
// match later and holds Redis against ledger and ClusterConfigs. docs/protocol.md has
// the rules.
package ranges

import (
	"context"
	"errors"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Allotter allots blocks on the path of an event. A nil one allots none: that is a
// worker without network configuration.
type Allotter struct {
	Blocks   Allocator
	Networks Networks
	Late     Passes
	// Required makes a request wait while there are no rules. Defaults to false: it is
	// answered without blocks, and the answer says so.
	Required bool
	// Notes are told whose blocks change. Defaults to nothing that is told.
	Notes interface{ Changed(runtime string) }
	// Follower is asked about assignments that were stored. Defaults to nothing that is followed.
	Follower *Follower
	Rebuild  Rebuilder
	Observer observe.Observer
}

// Passes asks for another pass of the Reconciler.
type Passes interface {
	// Wanted asks for a pass over all clusters.
	Wanted()
	// Freed says that blocks came free.
	Freed()
}

// Held are the blocks that one handling of an event relies on.
type Held struct {
	Applied []network.Applied
	Full    error           // that there is no room, an engine.Error with CodeNetworkExhausted
	Missing bool            // there are no rules yet
	config  *network.Config // by which it was decided
}

// Blocks returns the network part of a reply.
func (h Held) Blocks() []events.Network { return blocks(h.Applied) }

// Patch returns the operations that put the blocks into a Shoot.
func (h Held) Patch() []events.PatchOperation { return patch(h.Blocks()) }

// Allots reports whether there are blocks to be had at all.
func (a *Allotter) Allots() bool { return a != nil }

// Acquire takes the blocks of a provision's cluster on behalf of attempt, a
// network.Attempt.
func (a *Allotter) Acquire(ctx context.Context, e events.Event, attempt string) (Held, error) {
	if a == nil {
		return Held{}, nil
	}
	held := Held{config: a.Networks.Config()}
	held.Missing = held.config == nil
	if held.Missing && a.Required {
		held.Full = &engine.Error{
			Code: engine.CodeNetworkExhausted, Err: errors.New("there is no valid network configuration, and network.required is true"),
			Hint: "create the IPAMConfig, or mend it, and ask again under a new id",
		}
		return held, nil
	}
	var rules []network.Rule
	if !held.Missing {
		rules = held.config.Match(clusterOf(e.Provision.Cluster, e.Provision.ShootName))
	}
	got, err := a.Blocks.Acquire(ctx, e.RuntimeID, attempt, rules)
	if engine.CodeOf(err) == engine.CodeNetworkExhausted {
		held.Full = err
		return held, nil
	}
	if err != nil {
		return held, a.notBuilt(err)
	}
	a.Observer.Step(ctx, observe.StepAcquired)
	for _, skipped := range got.Skipped {
		a.Observer.Skipped(ctx, observe.Skipped{Runtime: e.RuntimeID, Skipped: skipped})
	}
	held.Applied = got.Applied
	return held, nil
}

// Return takes back the blocks of a provision that by relied on, a request or one
// network.Attempt of it. It reports whether any came free, and which other attempts at
// the request rely on blocks.
func (a *Allotter) Return(ctx context.Context, e events.Event, by string) (freed bool, kept []string, err error) {
	if a == nil || e.Provision == nil {
		return false, nil, nil
	}
	returned, err := a.Blocks.Return(ctx, e.RuntimeID, by)
	return a.freed(returned.Gone), returned.Kept, a.notBuilt(err)
}

// Release takes back all blocks of a runtime that is gone, rule 7, and reports whether
// any came free. The ledger has to say that it is gone: until then a rebuild finds the
// runtime with its blocks, and its next answer names them, so that a runtime which they
// were given to meanwhile would share them. Redis has the runtime gone by then, so that
// a handler that takes blocks for it finds that out afterwards, and returns them.
func (a *Allotter) Release(ctx context.Context, runtime string) (freed bool, err error) {
	if a == nil {
		return false, nil
	}
	gone, err := a.Blocks.Release(ctx, runtime)
	return a.freed(gone), a.notBuilt(err)
}

func (a *Allotter) freed(gone []network.Applied) bool {
	if len(gone) > 0 {
		a.Late.Freed()
	}
	return len(gone) > 0
}

// Stored is called after a reply was stored. If the rules have changed since the assignment was
// decided, it asks for another pass over all clusters: the pass for that change may have read the
// ledger before this reply.
func (a *Allotter) Stored(r events.Reply, held Held) {
	if a != nil && r.Status == events.StatusAssigned {
		if held.config != a.Networks.Config() {
			a.Late.Wanted()
		}
		a.Follower.answered(r, held.Applied)
	}
	a.Stands(r)
}

// Stands asks for what a final reply changes beside the ledger.
func (a *Allotter) Stands(r events.Reply) {
	if a != nil && a.Notes != nil && (r.Status == events.StatusAssigned || r.Status == events.StatusReleased) {
		a.Notes.Changed(r.RuntimeID)
	}
}

func (a *Allotter) notBuilt(err error) error {
	if errors.Is(err, account.ErrNotBuilt) {
		a.Rebuild.Wanted("")
	}
	return err
}
