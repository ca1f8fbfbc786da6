// Package ranges allots network blocks to clusters. The Allotter does so while an event is handled. The
// Reconciler runs beside it: it serves clusters that rules match only later, and compares Redis with the
// ledger and the ClusterConfigs. docs/protocol.md has the rules.
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

// Allotter allots blocks while an event is handled. A nil Allotter allots none: a worker has it if its
// configuration has no section network, and in a shadow.
type Allotter struct {
	Blocks   Allocator
	Networks func() *network.Config // the present configuration, nil if there is none
	Late     Passes
	// Required makes a request wait while there is no network configuration. By default it is answered
	// without blocks, and the answer says so.
	Required bool
	// Notes is called with each runtime whose blocks may have changed. It may be nil.
	Notes interface{ Changed(runtime string) }
	// Follower checks whether each stored assignment has all rules that match the present Cluster. It may be nil.
	Follower *Follower
	Rebuild  account.Rebuilder
	Observer observe.Observer
}

// Passes requests what the Reconciler serves. No method blocks.
type Passes interface {
	// Wanted requests a pass over all clusters.
	Wanted()
	// Soon requests that a runtime's cluster is served, for what may happen often.
	Soon(runtime string)
	// Freed reports that blocks became free.
	Freed()
}

// Held are the blocks on which one attempt at an event relies.
type Held struct {
	Applied []network.Applied
	Full    error           // an engine.Error with CodeNetworkExhausted if the request has to wait, otherwise nil
	Missing bool            // there is no configuration
	config  *network.Config // configuration that was applied; nil if there was none
}

// Blocks returns the network part of a reply.
func (h Held) Blocks() []events.Network { return blocks(h.Applied) }

// Patch returns the operations that put the blocks into a Shoot.
func (h Held) Patch() []events.PatchOperation { return patch(h.Blocks()) }

// Lacks returns the rule and injection that found no room, "" if none did.
func (h Held) Lacks() string {
	if full, ok := errors.AsType[*network.Exhausted](h.Full); ok {
		return full.Rule + " " + full.Injection
	}
	return ""
}

// Allots reports whether the worker allots blocks at all.
func (a *Allotter) Allots() bool { return a != nil }

// Acquire takes the blocks of a provision's cluster in the name of attempt, a network.Attempt. If there is no
// room, or no configuration although Required is set, it sets Held.Full and returns no error.
func (a *Allotter) Acquire(ctx context.Context, e events.Event, attempt string) (Held, error) {
	if a == nil {
		return Held{}, nil
	}
	held := Held{config: a.Networks()}
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
	if otherParents(err, held.config) {
		a.Late.Wanted() // a pass writes the parents
	}
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

// otherParents reports whether err says that Redis has the parents of another configuration, as after a rebuild by a
// worker without a configuration or with an earlier one.
func otherParents(err error, config *network.Config) bool {
	if full, ok := errors.AsType[*network.Exhausted](err); ok {
		return len(full.Left) == 0 && len(config.Parents) > 0
	}
	return errors.Is(err, network.ErrUnknownParent)
}

// Return returns the blocks of a provision that were taken in the name of by: a request with all its
// attempts, or one network.Attempt. It reports whether any became free, and which other attempts at the
// request still rely on blocks.
func (a *Allotter) Return(ctx context.Context, e events.Event, by string) (freed bool, kept []string, err error) {
	if a == nil || e.Provision == nil {
		return false, nil, nil
	}
	returned, err := a.Blocks.Return(ctx, e.RuntimeID, by)
	return a.freed(returned.Gone), returned.Kept, a.notBuilt(err)
}

// Release frees all blocks of a runtime that is gone (rule 7), and reports whether any became free. The
// caller must first store in the ledger that the runtime is gone. Until then a rebuild would restore the
// runtime with its blocks, which another runtime may have by then. Redis must have it gone too, so that a
// handler which takes blocks for the runtime later notices that, and returns them.
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

// Stored is called after a reply was stored. If it is an assignment and the rules have changed since it was
// decided, Stored requests that its cluster is served: the pass for that change may have read the ledger before this
// reply.
func (a *Allotter) Stored(r events.Reply, held Held) {
	if a != nil && r.Status == events.StatusAssigned {
		if held.config != a.Networks() {
			a.Late.Soon(r.RuntimeID)
		}
		a.Follower.answered(r, held.Applied)
	}
	a.noted(r)
}

// Stands is called if a reply is found stored: the worker that stored it may have stopped before Stored. If it is
// an assignment that does not have all rules that match its cluster now, Stands requests that this cluster is served.
func (a *Allotter) Stands(r events.Reply) {
	if a != nil && r.Status == events.StatusAssigned {
		if config := a.Networks(); config != nil {
			lacks, _ := lacking(config.Match(a.Follower.standing(r.Cluster, r.ShootName)), []answer{answerOf(r)})
			if len(lacks) > 0 {
				a.Late.Soon(r.RuntimeID)
			}
		}
	}
	a.noted(r)
}

// noted requests the update of the runtime's ClusterConfigs if r is assigned or released.
func (a *Allotter) noted(r events.Reply) {
	if a != nil && a.Notes != nil && (r.Status == events.StatusAssigned || r.Status == events.StatusReleased) {
		a.Notes.Changed(r.RuntimeID)
	}
}

func (a *Allotter) notBuilt(err error) error { return account.AskForRebuild(err, a.Rebuild, "") }
