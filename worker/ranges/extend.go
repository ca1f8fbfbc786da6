package ranges

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Runtimes say where a runtime is: package counters.
type Runtimes interface {
	// Runtime returns a runtime's place and record, zero for an unknown one.
	Runtime(ctx context.Context, id string) (account.Place, account.Runtime, error)
}

// Reconciler serves the clusters that network rules match only by now: those that were
// answered before a rule was there, or before its selector matched them or their
// Cluster had the labels that it asks for. Each gets
// an extra reply, beside the one answer to its request. Every worker does it: what
// a cluster gets is decided in Redis, and the first extra reply of an id stands.
type Reconciler struct {
	Ranges   Allocator
	Networks Networks
	Ledger   Ledger
	Runtimes Runtimes
	Rebuild  Rebuilder
	Subjects events.Subjects
	Observer observe.Observer
	// Keeper compares Redis with what is remembered. Defaults to no comparison.
	Keeper Keeper
	// Configs writes beside the ledger. Defaults to nothing that is written.
	Configs *ClusterConfigs
	// Follower says what selectors look at. Defaults to what the event said.
	Follower *Follower

	once      sync.Once
	signal    chan struct{}
	exhausted atomic.Bool // in the last pass a rule found no room
}

// extend serves one cluster. Of what it takes, nothing is given back while the
// runtime is there: the id is that of all workers, and one of them may be about to
// publish it. What another's reply does not have is in the next one.
func (x *Reconciler) extend(ctx context.Context, config *network.Config, runtime string, answers []events.Reply) error {
	last := inForce(answers)
	matching := config.Match(x.Follower.standing(last.Cluster, last.ShootName))
	_, skipped := lacking(matching, answers)
	for _, s := range skipped {
		x.Observer.Skipped(ctx, observe.Skipped{Runtime: runtime, Skipped: s})
	}
	for {
		rules, _ := lacking(matching, answers)
		if len(rules) == 0 {
			return nil
		}
		place, err := x.begin(ctx, runtime, answers)
		if err != nil {
			return err
		}
		if place.taken != nil {
			answers = append(slices.Clip(answers), *place.taken)
			continue
		}
		held, err := x.acquire(ctx, runtime, place.request, rules)
		if err != nil || answered(held, answers) {
			return err // answered: there is no room for what it lacks
		}
		_, rt, err := x.runtime(ctx, runtime)
		if err != nil {
			return err
		}
		if rt.State != account.RuntimeAssigned {
			return x.withdraw(ctx, runtime, place)
		}
		_, err = x.Ledger.Publish(ctx, place.subject, extra(place.request, inForce(answers), held), place.sequence)
		if err == nil {
			x.served(ctx, runtime, place.request, held, answers)
			if x.Configs != nil {
				x.Configs.Changed(runtime)
			}
			return nil
		}
		if !errors.Is(err, events.ErrWrongLastSequence) {
			return err
		}
		// Another worker's reply, which the next round finds; or Redis was lost, and
		// nothing of this is held any more.
	}
}

// begun is an extra reply that is not there yet: a worker that rebuilds Redis
// after this refuses it, as it does with the answers to events.
type begun struct {
	request  string
	subject  string
	sequence uint64        // that the reply is to follow
	taken    *events.Reply // the extra reply that is there already
}

// begin announces the next extra reply of a runtime in the ledger.
func (x *Reconciler) begin(ctx context.Context, runtime string, answers []events.Reply) (begun, error) {
	for n := 1; ; n++ {
		b := begun{request: extraRequest(answers[0].RequestID, n)}
		if slices.ContainsFunc(answers, func(r events.Reply) bool { return r.RequestID == b.request }) {
			continue
		}
		b.subject = x.Subjects.Reply(runtime, b.request)
		stored, found, err := x.Ledger.Last(ctx, b.subject)
		if errors.Is(err, events.ErrUnknownReply) {
			continue // whatever it is, this id is taken
		}
		if err != nil {
			return b, err
		}
		if !found {
			seal := events.Reply{RequestID: b.request, RuntimeID: runtime, Status: events.StatusSealed}
			b.sequence, err = x.Ledger.Publish(ctx, b.subject, seal, 0)
			if !errors.Is(err, events.ErrWrongLastSequence) {
				return b, err
			}
			n-- // another worker was faster: read it
			continue
		}
		switch stored.Reply.Status {
		case events.StatusSealed:
			b.sequence = stored.Sequence
			return b, nil
		case events.StatusAssigned:
			b.taken = &stored.Reply
			return b, nil
		default:
			// A publisher's request of this id.
		}
	}
}

// acquire takes what rules ask for, each by itself: one without room keeps no other
// back. It returns all that the cluster has then.
func (x *Reconciler) acquire(ctx context.Context, runtime, request string, rules []network.Rule) ([]network.Applied, error) {
	var held []network.Applied
	for _, rule := range rules {
		got, err := x.Ranges.Acquire(ctx, runtime, request, []network.Rule{rule})
		if engine.CodeOf(err) == engine.CodeNetworkExhausted {
			x.exhausted.Store(true)
			x.Observer.Extended(ctx, observe.Extended{Runtime: runtime, Request: request, Rule: rule.ID, Err: err})
			continue
		}
		if err != nil {
			return nil, x.notBuilt(err)
		}
		for _, s := range got.Skipped {
			x.Observer.Skipped(ctx, observe.Skipped{Runtime: runtime, Skipped: s})
		}
		held = got.Applied
	}
	return held, nil
}

// withdraw returns what was taken for a runtime that is gone: its deprovision may have
// freed its blocks before these were taken. Another worker, which has the same ones and
// saw the runtime before it went, may be about to answer with them, and the ledger may
// not say yet that it is gone: so that answer is refused first, as a rebuild does. Where
// it is stored already, the blocks go with the others, after the reply to the deprovision.
func (x *Reconciler) withdraw(ctx context.Context, runtime string, place begun) error {
	seal := events.Reply{RequestID: place.request, RuntimeID: runtime, Status: events.StatusSealed}
	switch _, err := x.Ledger.Publish(ctx, place.subject, seal, place.sequence); {
	case errors.Is(err, events.ErrWrongLastSequence):
		return nil
	case err != nil:
		return err
	}
	return x.giveBack(ctx, runtime, place.request)
}

func (x *Reconciler) giveBack(ctx context.Context, runtime, request string) error {
	_, err := x.Ranges.Return(ctx, runtime, request)
	return x.notBuilt(err)
}

// runtime looks a runtime up. It asks for a rebuild of the runtime's pool if that is lost: nothing else does where no
// binding is labelled for the pool any more.
func (x *Reconciler) runtime(ctx context.Context, id string) (account.Place, account.Runtime, error) {
	place, rt, err := x.Runtimes.Runtime(ctx, id)
	return place, rt, account.AskForRebuild(err, x.Rebuild.Wanted, place.Pool)
}

// notBuilt asks for a rebuild of the network ranges if they are lost.
func (x *Reconciler) notBuilt(err error) error {
	return account.AskForRebuild(err, x.Rebuild.Wanted, "")
}

func (x *Reconciler) served(ctx context.Context, runtime, request string, held []network.Applied, answers []events.Reply) {
	for _, rule := range held {
		if !answered([]network.Applied{rule}, answers) {
			x.Observer.Extended(ctx, observe.Extended{Runtime: runtime, Request: request, Rule: rule.Rule})
		}
	}
}

// lacking are the rules of those that match that no answer has, without those whose
// path another rule has there.
func lacking(matching []network.Rule, answers []events.Reply) (rules []network.Rule, skipped []network.Skipped) {
	has, by := map[string]bool{}, map[string]string{}
	for _, r := range answers {
		for _, block := range r.Network {
			has[block.Rule] = true
			for _, path := range block.Paths {
				by[path] = block.Rule
			}
		}
	}
	for _, rule := range matching {
		if has[rule.ID] {
			continue
		}
		if path := taken(rule, by); path != nil {
			skipped = append(skipped, network.Skipped{Rule: rule.ID, Path: *path, By: by[*path]})
			continue
		}
		rules = append(rules, rule)
	}
	return rules, skipped
}

// taken is the rule's first path that another writer has.
func taken(rule network.Rule, by map[string]string) *string {
	for _, in := range rule.Injections {
		for i, path := range in.Paths {
			if by[path] != "" {
				return &in.Paths[i]
			}
		}
	}
	return nil
}

// answered reports whether all rules that a cluster has are in its answers.
func answered(held []network.Applied, answers []events.Reply) bool {
	has := map[string]bool{}
	for _, r := range answers {
		for _, block := range r.Network {
			has[block.Rule] = true
		}
	}
	return !slices.ContainsFunc(held, func(a network.Applied) bool { return !has[a.Rule] })
}

// inForce is the answer with the highest sequence, the last stored of several.
func inForce(answers []events.Reply) events.Reply {
	best := answers[0]
	for _, r := range answers[1:] {
		if sequenceOf(r) >= sequenceOf(best) {
			best = r
		}
	}
	return best
}

func sequenceOf(r events.Reply) int64 { return cmp.Or(r.Decision, &events.Decision{}).Sequence }

// extra is the answer in force with all blocks that the cluster has by now. It
// claims nothing, and says nothing new of the runtime's place.
func extra(request string, last events.Reply, held []network.Applied) events.Reply {
	r := last
	r.RequestID, r.Network, r.NetworkPending = request, blocks(held), false
	shoot := last.ShootPatch[:max(0, len(last.ShootPatch)-len(patch(last.Network)))]
	r.ShootPatch = slices.Concat(shoot, patch(r.Network))
	r.ShootMergePatch = events.MergePatch(r.ShootPatch)
	if last.Binding != nil {
		binding := *last.Binding
		binding.Claimed = false
		r.Binding = &binding
	}
	if d := last.Decision; d != nil {
		r.Decision = &events.Decision{
			Sequence: d.Sequence, Pool: d.Pool, Rule: d.Rule, RuleNumber: d.RuleNumber, LabelSelector: d.LabelSelector,
			PlatformRegion: d.PlatformRegion, HyperscalerRegion: d.HyperscalerRegion,
		}
	}
	return r
}
