package worker

import (
	"context"
	"math/rand/v2"
	"strconv"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// Ranges allots network blocks to clusters, which are named by their runtime:
// package counters. Every method may return account.ErrNotBuilt; all of them can be
// repeated.
type Ranges interface {
	// Acquire applies rules to a cluster on behalf of a request, all or none. An
	// engine.Error with CodeNetworkExhausted where one finds no room;
	// network.ErrUnknownParent where Redis has the parents of another configuration.
	Acquire(ctx context.Context, cluster, request string, rules []network.Rule) (network.Acquired, error)
	// Return takes back what the request, with every attempt at it, or one
	// network.Attempt alone relied on and no other does.
	Return(ctx context.Context, cluster, request string) ([]network.Applied, error)
	// Release gives back all that a cluster has.
	Release(ctx context.Context, cluster string) ([]network.Applied, error)
}

// Networks gives the network configuration of now; nil where there is none.
type Networks interface{ Config() *network.Config }

// clusterOf is what the selectors of network rules look at.
func clusterOf(c *events.Cluster, shoot string) network.Cluster {
	if c == nil {
		return network.Cluster{Name: shoot}
	}
	return network.Cluster{Name: c.Name, Namespace: c.Namespace, Labels: c.Labels, Purposes: c.Purposes}
}

// acquire takes the blocks of a cluster, before its account: who waits for either
// holds neither. full says that there is no room.
func (w *Worker) acquire(ctx context.Context, d *delivery) (applied []network.Applied, full, err error) {
	if w.opts.Ranges == nil {
		return nil, nil, nil
	}
	e := d.event
	var rules []network.Rule
	if d.networks = w.opts.Networks.Config(); d.networks != nil {
		rules = d.networks.Match(clusterOf(e.Provision.Cluster, e.Provision.ShootName))
	}
	got, err := w.opts.Ranges.Acquire(ctx, e.RuntimeID, d.attempt(), rules)
	if engine.CodeOf(err) == engine.CodeNetworkExhausted {
		return nil, err, nil
	}
	if err != nil {
		return nil, nil, w.notBuilt(err, "")
	}
	w.listener.step(ctx, StepAcquired)
	for _, skipped := range got.Skipped {
		w.listener.skipped(ctx, SkippedInfo{Runtime: e.RuntimeID, Skipped: skipped})
	}
	return got.Applied, nil, nil
}

// extendLate asks for another pass over all clusters where the rules are others than
// those that an assignment was decided by: the pass for the change may have read the
// ledger before it was stored.
func (w *Worker) extendLate(d *delivery, r events.Reply) {
	if w.opts.Ranges != nil && r.Status == events.StatusAssigned && d.networks != w.opts.Networks.Config() {
		w.opts.Extend.Wanted()
	}
}

// attempt names this handling of the event among those who have it in hand at the
// same time: every worker serves a request that waits.
func (d *delivery) attempt() string {
	if d.handler == "" {
		d.handler = strconv.FormatUint(rand.Uint64(), 36)
	}
	return network.Attempt(d.event.ID, d.handler)
}

// giveBack returns the blocks that a handling relied on which ends without an
// assignment: another one may be about to answer with them.
func (w *Worker) giveBack(ctx context.Context, d *delivery) error {
	return w.returnRanges(ctx, d.event, d.attempt())
}

// giveBackAll returns the blocks that any handling of an event relied on, once its
// final answer is another than an assignment.
func (w *Worker) giveBackAll(ctx context.Context, e events.Event) error {
	return w.returnRanges(ctx, e, e.ID)
}

func (w *Worker) returnRanges(ctx context.Context, e events.Event, by string) error {
	if w.opts.Ranges == nil || e.Provision == nil {
		return nil
	}
	gone, err := w.opts.Ranges.Return(ctx, e.RuntimeID, by)
	if len(gone) > 0 {
		w.Wake()
		w.opts.Extend.Freed()
	}
	return w.notBuilt(err, "")
}

// freeRanges gives back all blocks of a runtime that goes.
func (w *Worker) freeRanges(ctx context.Context, runtime string) error {
	if w.opts.Ranges == nil {
		return nil
	}
	gone, err := w.opts.Ranges.Release(ctx, runtime)
	if len(gone) > 0 {
		w.opts.Extend.Freed()
	}
	return w.notBuilt(err, "")
}

// note asks for what a final reply changes beside the ledger.
func (w *Worker) note(r events.Reply) {
	if w.opts.Notes != nil && (r.Status == events.StatusAssigned || r.Status == events.StatusReleased) {
		w.opts.Notes.Changed(r.RuntimeID)
	}
}

// blocks are the network part of a reply.
func blocks(applied []network.Applied) []events.Network {
	var out []events.Network
	for _, rule := range applied {
		for _, block := range rule.Blocks {
			out = append(out, events.Network{Rule: rule.Rule, ID: block.ID, CIDR: block.CIDR.String(), Paths: block.Paths})
		}
	}
	return out
}

// patch are the operations that put blocks into a Shoot.
func patch(given []events.Network) []events.PatchOperation {
	var out []events.PatchOperation
	for _, block := range given {
		for _, path := range block.Paths {
			out = append(out, events.PatchOperation{Op: "add", Path: path, Value: block.CIDR})
		}
	}
	return out
}
