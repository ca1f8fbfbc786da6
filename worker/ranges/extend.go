package ranges

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Runtime looks up a runtime: package counters. It returns its place and record, both zero for an unknown one.
type Runtime func(ctx context.Context, id string) (account.Place, account.Runtime, error)

// Reconciler serves clusters that a network rule matches only after they were answered: because the rule, its
// selector or the labels of the Cluster have changed. Each gets an extra reply, besides the answer to its
// request. Every worker runs one: Redis decides which blocks a cluster gets, and the first extra reply of an
// id stands.
type Reconciler struct {
	Ranges   Allocator
	Networks func() *network.Config // the present configuration, nil if there is none
	Ledger   Ledger
	Runtime  Runtime
	Rebuild  account.Rebuilder
	Subjects events.Subjects
	Observer observe.Observer
	// Keeper sets the parents and repairs the ranges in Redis. Nil skips that.
	Keeper Keeper
	// Room is called when requests that wait may find room: the parents of a new configuration are in Redis,
	// or a pass has freed blocks. It may be nil, and must not block.
	Room func()
	// Configs writes the ClusterConfigs. It may be nil.
	Configs *ClusterConfigs
	// Refused is how long a stored refusal says that its request needs no blocks. It has to end before retention deletes
	// the refusal, by more than a handler may work on an event: the request, if it is published again, is a new one by
	// then (rule 14). 0 means for ever.
	Refused time.Duration
	// Now is the clock of the ledger. It is needed where Refused is not 0.
	Now func() time.Time
	// Follower provides the present Cluster for selectors. If it is nil, the event's data are used.
	Follower *Follower

	parents   *network.Config // whose parents the last pass wrote
	once      sync.Once
	signal    chan struct{}
	due       due
	soon      atomic.Bool  // a turn will begin (wakeSoon)
	took      atomic.Int64 // by the last turn, in ns
	exhausted atomic.Bool  // a rule has found no room since the last Freed or Pass
	unserved  unserved
	named     named // kept if there is a Follower
}

// extend takes blocks for the matching rules that no answer of a runtime has, and publishes an extra reply
// with them. If there are no such rules, or none finds room, it publishes no extra reply. If the runtime is no longer
// assigned, or the ledger can never store the reply, it returns the blocks (withdraw). Otherwise it keeps them even if
// this reply is not stored: all workers use the same id, and one of them may be about to publish a reply with these
// blocks. Blocks that another worker's reply does not name are in the next extra reply.
func (x *Reconciler) extend(ctx context.Context, config *network.Config, runtime string, answers []answer) error {
	last := inForce(answers)
	matching := config.Match(x.Follower.standing(last.cluster, last.shoot))
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
		held, full, err := x.acquire(ctx, runtime, place.request, rules)
		if err != nil {
			return err
		}
		if answered(held, answers) { // no missing rule has found room
			x.unserved.set(runtime, full)
			return nil
		}
		last, stands, err := x.wholeAnswer(ctx, runtime, inForce(answers).request)
		if err != nil {
			return err
		}
		if !stands {
			return x.withdraw(ctx, runtime, place)
		}
		_, err = x.Ledger.Publish(ctx, place.subject, extra(place.request, last, held), place.sequence)
		switch {
		case err == nil:
			x.served(ctx, runtime, place.request, held, answers)
			x.unserved.set(runtime, full)
			if x.Configs != nil {
				x.Configs.Changed(runtime)
			}
			return nil
		case errors.Is(err, storage.ErrUnstorable): // as on each retry: other clusters do not wait for this one
			x.Observer.Extended(ctx, observe.Extended{Runtime: runtime, Request: place.request, Rule: rules[0].ID, Err: err})
			return x.withdraw(ctx, runtime, place)
		case !errors.Is(err, storage.ErrWrongLastSequence):
			return err
		}
		// Another worker has stored a reply, or a rebuild has sealed this one. Start over.
	}
}

// wholeAnswer returns the stored answer to a request, and whether it is an assignment whose runtime is still assigned.
func (x *Reconciler) wholeAnswer(ctx context.Context, runtime, request string) (last events.Reply, stands bool, err error) {
	_, rt, err := x.runtime(ctx, runtime)
	if err != nil || rt.State != account.RuntimeAssigned {
		return last, false, err
	}
	stored, found, err := x.Ledger.Last(ctx, x.Subjects.Reply(runtime, request))
	return stored.Reply, found && stored.Reply.Status == events.StatusAssigned, err
}

// begun is an extra reply that a sealed reply has announced in the ledger. A rebuild stores one more sealed reply
// under its id, so that a worker that has read the earlier one can no longer store the extra reply.
type begun struct {
	request  string
	subject  string
	sequence uint64  // sequence that Publish expects
	taken    *answer // set if the extra reply is stored already
}

// begin announces the next extra reply of a runtime in the ledger, or finds one that is announced or stored.
func (x *Reconciler) begin(ctx context.Context, runtime string, answers []answer) (begun, error) {
	for n := 1; ; n++ {
		b := begun{request: extraRequest(answers[0].request, n)}
		if slices.ContainsFunc(answers, func(r answer) bool { return r.request == b.request }) {
			continue
		}
		b.subject = x.Subjects.Reply(runtime, b.request)
		stored, found, err := x.Ledger.Last(ctx, b.subject)
		if errors.Is(err, events.ErrUnknownReply) {
			continue // a newer version uses this id
		}
		if err != nil {
			return b, err
		}
		if !found {
			seal := events.Reply{RequestID: b.request, RuntimeID: runtime, Status: events.StatusSealed}
			b.sequence, err = x.Ledger.Publish(ctx, b.subject, seal, 0)
			if !errors.Is(err, storage.ErrWrongLastSequence) {
				return b, err
			}
			n-- // another worker was faster: read its message
			continue
		}
		switch stored.Reply.Status {
		case events.StatusSealed:
			if stored.Reply.For == "" {
				b.sequence = stored.Sequence
				return b, nil
			}
			// An event has taken this id: try the next one.
		case events.StatusAssigned:
			taken := answerOf(stored.Reply)
			b.taken = &taken
			return b, nil
		default:
			// A publisher has used this id: try the next one.
		}
	}
}

// acquire takes the blocks of each rule separately, so that a rule without room does not prevent the others.
// It returns all rules that the cluster has after that, or nil if none of these rules found room; and the ids of
// those that found none.
func (x *Reconciler) acquire(ctx context.Context, runtime, request string, rules []network.Rule) (held []network.Applied, full []string, err error) {
	for _, rule := range rules {
		got, err := x.Ranges.Acquire(ctx, runtime, request, []network.Rule{rule})
		if engine.CodeOf(err) == engine.CodeNetworkExhausted {
			x.exhausted.Store(true)
			full = append(full, rule.ID)
			x.Observer.Extended(ctx, observe.Extended{Runtime: runtime, Request: request, Rule: rule.ID, Err: err})
			continue
		}
		if err != nil {
			return nil, nil, x.notBuilt(err)
		}
		for _, s := range got.Skipped {
			x.Observer.Skipped(ctx, observe.Skipped{Runtime: runtime, Skipped: s})
		}
		held = got.Applied
	}
	return held, full, nil
}

// withdraw returns the blocks of an extra reply that is not to be stored. If the runtime is gone, its deprovision
// may have freed its blocks before these were taken. Another worker, which saw the runtime before it went, may be
// about to publish an extra reply with the same blocks. So withdraw first seals the id, as a rebuild does, which
// makes that publish fail. If another worker has stored the extra reply, or has withdrawn it and may have done so
// before these blocks were taken, withdraw returns nothing and requests a pass, which reads what the ledger has.
func (x *Reconciler) withdraw(ctx context.Context, runtime string, place begun) error {
	seal := events.Reply{RequestID: place.request, RuntimeID: runtime, Status: events.StatusSealed}
	switch _, err := x.Ledger.Publish(ctx, place.subject, seal, place.sequence); {
	case errors.Is(err, storage.ErrWrongLastSequence):
		x.Wanted()
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

// runtime looks up a runtime. If its bucket or pool is not built, runtime requests a rebuild: for a pool
// without bindings nothing else does.
func (x *Reconciler) runtime(ctx context.Context, id string) (account.Place, account.Runtime, error) {
	place, rt, err := x.Runtime(ctx, id)
	return place, rt, account.AskForRebuild(err, x.Rebuild, place.Pool)
}

// notBuilt returns err, and requests a rebuild if err says that the network ranges are not built.
func (x *Reconciler) notBuilt(err error) error {
	return account.AskForRebuild(err, x.Rebuild, "")
}

func (x *Reconciler) served(ctx context.Context, runtime, request string, held []network.Applied, answers []answer) {
	for _, rule := range held {
		if !answered([]network.Applied{rule}, answers) {
			x.Observer.Extended(ctx, observe.Extended{Runtime: runtime, Request: request, Rule: rule.Rule})
		}
	}
}

// lacking returns the matching rules that no answer has. It skips rules with a path that another rule has set
// in an answer.
func lacking(matching []network.Rule, answers []answer) (rules []network.Rule, skipped []network.Skipped) {
	has, by := map[string]bool{}, map[string]string{}
	for _, r := range answers {
		for _, applied := range r.applied {
			has[applied.Rule] = true
			for path := range applied.ByPath() {
				by[path] = applied.Rule
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

// taken returns the rule's first path that another rule has set, or nil.
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

// answered reports whether the answers have all the rules in held.
func answered(held []network.Applied, answers []answer) bool {
	has := map[string]bool{}
	for _, r := range answers {
		for _, applied := range r.applied {
			has[applied.Rule] = true
		}
	}
	return !slices.ContainsFunc(held, func(a network.Applied) bool { return !has[a.Rule] })
}

// inForce returns the answer with the highest decision sequence; if several have it, the last stored of
// these.
func inForce(answers []answer) answer {
	best := answers[0]
	for _, r := range answers[1:] {
		if r.sequence >= best.sequence {
			best = r
		}
	}
	return best
}

// extra returns an extra reply: a copy of the answer last with all blocks that the cluster has now, Claimed
// false, and of its Decision only the sequence, the pool, the rule, the label selector and the regions.
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
