package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// words joins what there is to say.
type words []string

func (w *words) add(format string, args ...any) { *w = append(*w, fmt.Sprintf(format, args...)) }

func (w *words) addIf(said bool, format string, args ...any) {
	if said {
		w.add(format, args...)
	}
}

func (w *words) String() string { return strings.Join(*w, ", ") }

// labels writes what the labels of a binding say.
func labels(b engine.Binding) string {
	w := words{fmt.Sprintf("%s in %s", b.Name, b.Pool().Name())}
	w.addIf(b.Tenant != "", "of %s", b.Tenant)
	w.addIf(b.Tenant == "", "unclaimed")
	w.addIf(b.Generation > 0, "generation %d", b.Generation)
	w.addIf(b.Dirty, "dirty")
	w.addIf(b.Internal, "internal")
	w.addIf(b.Cordoned, "cordoned")
	w.addIf(b.Deleting, "being deleted")
	w.addIf(b.ReleasedBy != "", "released by %s", b.ReleasedBy)
	return w.String()
}

// since is a moment as the time since the story began, in seconds: pauses are random.
func since(at time.Time) string {
	return at.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).Round(time.Second).String()
}

// replied writes a reply.
func replied(r events.Reply) string {
	w := words{fmt.Sprintf("%s is %s", r.RequestID, r.Status)}
	if b := r.Binding; b != nil {
		w.add("%s", b.Name)
		w.addIf(b.Generation > 0, "generation %d", b.Generation)
		w.addIf(b.Shared, "shared")
		w.addIf(b.Claimed, "claimed")
	}
	if r.Clusters != nil {
		w.add("clusters %d", *r.Clusters)
	}
	w.addIf(r.Limit > 0, "limit %d", r.Limit)
	if d := r.Decision; d != nil {
		w.addIf(d.Rule != "", "rule %s", d.Rule)
		w.addIf(d.Pool != "", "pool %s", d.Pool)
		w.addIf(d.Origin != "", "origin %s", d.Origin)
		for _, a := range d.Attempts {
			w.add("%s %s", a.Binding, a.Result)
		}
	}
	for _, n := range r.Network {
		w.add("%s has %s", strings.Join(n.Paths, " and "), n.CIDR)
	}
	for _, op := range r.ShootPatch {
		w.addIf(strings.Contains(op.Path, "BindingName"), "%s %v", strings.TrimPrefix(op.Path, "/spec/"), op.Value)
	}
	if i := r.Implementation; i != nil {
		w.add("%s:%s", i.Path, i.Revision)
		for _, injected := range i.Inject {
			w.add("with %s as %s", injected.ID, injected.Name)
		}
	}
	w.addIf(r.MarkedDirty, "marked dirty")
	w.addIf(r.Draining, "draining")
	if waiting := r.Waiting; waiting != nil {
		w.add("%s", waiting.Reason)
		w.addIf(waiting.Position > 0, "position %d", waiting.Position)
		w.add("until %s", since(waiting.Deadline))
	}
	if e := r.Error; e != nil {
		w.add("%s: %s", e.Code, e.Message)
		w.addIf(e.Retryable, "retryable")
	}
	return w.String()
}

// frees records that an event removes the label of a binding: a release, or a departure from an unused claim.
func (w *world) frees(binding string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.freed = append(w.freed, binding)
}

func (w *world) releases(binding string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.freed, binding)
}

// observer adds the facts to the story that neither replies nor labels show.
func (w *world) observer() observe.Observer {
	return observe.Observer{
		OnStep:  w.step,
		OnEvent: w.settled,
		OnClaim: w.claimed,
		OnRetry: func(_ context.Context, r observe.Retry) {
			text, _, _ := strings.Cut(r.Err.Error(), "\n") // without the stack of a panic
			w.triesAgain("tries again: %s: %s", strings.TrimSpace(r.Type+" "+r.ID), text)
		},
		OnCircuit: func(_ context.Context, c observe.Circuit) {
			w.tell("%s: %s", strings.TrimSpace(c.Dependency+" "+c.Pool), map[bool]string{true: "not asked while it fails", false: "asked again"}[c.Open])
		},
		OnRebuild: w.rebuilt,
		OnFollowed: func(_ context.Context, f observe.Followed) {
			if f.Observation.Change == account.BecameFree && w.releases(f.Binding) {
				return // the event that wrote the label updates Redis too, and either may be first
			}
			w.last("%s follows its label: %s, %s", f.Binding, f.Observation.Change, record(f.Observation.Record))
		},
		OnDrift: w.drifted,
		OnSkipped: func(_ context.Context, s observe.Skipped) {
			w.once("%s does not get rule %s: %s is there by rule %s", s.Runtime, s.Skipped.Rule, s.Skipped.Path, s.Skipped.By)
		},
		OnExtended:  w.extended,
		OnNoted:     w.noted,
		OnRefresh:   w.refreshed,
		OnRetention: w.retained,
	}
}

// settled reports events that are not simply acknowledged after their reply.
func (w *world) settled(_ context.Context, e observe.Event) {
	switch {
	case e.Outcome == observe.Served:
		w.tell("%s is served out of the waiting room", e.ID)
	case e.Outcome == observe.NakWithDelay:
		// Whether it was asked once more, or held, depends on pauses, which are drawn.
		_, failure, held := strings.Cut(e.Reason, "the last failure: ")
		if !held {
			failure = e.Reason
		}
		w.once("%s is settled as %s: %s", e.Type+" "+e.ID, e.Outcome, failure)
	case e.Outcome == observe.Ack && e.Delivery > 1: // the number depends on pauses, which are drawn
		w.tell("%s is acknowledged at a later delivery: %s", e.ID, strings.TrimSpace(e.Status+" "+e.Binding))
	case e.Outcome == observe.Ack && e.Status == string(events.StatusRejected), e.Outcome == observe.Ack && e.Reason == "":
	default:
		w.tell("%s is settled as %s: %s", e.Type+" "+e.ID, e.Outcome, e.Reason)
	}
}

func (w *world) claimed(_ context.Context, c observe.Claim) {
	if c.Result == observe.ClaimRevoked {
		w.tell("%s turns out to be another's, dirty or held back", c.Binding)
	}
}

func (w *world) rebuilt(_ context.Context, r observe.Rebuild) {
	if r.Err != nil {
		w.once("the rebuild fails: %v", r.Err)
		return
	}
	if r.Buckets == 0 && len(r.Pools) == 0 {
		w.tell("rebuilt the network ranges: %d rules applied", r.Ranges)
		return
	}
	pools := slices.Sorted(slices.Values(r.Pools))
	if r.Buckets == account.Buckets { // several are installed side by side: what one that failed left is not always the same
		pools = append(pools, "and all buckets")
	}
	w.tell("rebuilt %s of %d replies, %d runtimes, %d sealed", strings.Join(pools, " "), r.Replies, r.Runtimes, r.Sealed)
}

func (w *world) drifted(_ context.Context, d observe.Drift) {
	w.tell("%s", drifts(d.Found, d.Changed, d.NotBuilt, errors.Join(d.Err, d.RepairErr)))
}

// drifts writes what an audit found and what it changed.
func drifts(found, changed []account.Drift, notBuilt []string, err error) string {
	if err != nil {
		return "the audit fails: " + err.Error()
	}
	var lines []string
	for _, d := range found {
		verb := "finds"
		if slices.ContainsFunc(changed, d.Is) {
			verb = "repairs"
		}
		lines = append(lines, fmt.Sprintf("the audit %s %s: %s", verb, d.Kind, d.Message))
	}
	if len(notBuilt) > 0 {
		lines = append(lines, fmt.Sprintf("not built are %d pools and buckets", len(notBuilt)))
	}
	if len(lines) == 0 {
		return "the audit finds nothing"
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (w *world) extended(_ context.Context, e observe.Extended) {
	if e.Err != nil {
		w.once("no room for rule %s of %s: %v", e.Rule, e.Runtime, e.Err)
		return
	}
	w.tell("%s has rule %s by now", e.Runtime, e.Rule)
}

func (w *world) refreshed(_ context.Context, r observe.Refresh) {
	if r.Restored+r.Released+r.Blocked+r.Unblocked > 0 {
		w.once("refreshed the network ranges: %d restored, %d released, %d blocked, %d unblocked", r.Restored, r.Released, r.Blocked, r.Unblocked)
	}
	for _, conflict := range r.Conflicts {
		w.once("conflict: %s", conflict)
	}
}

func (w *world) retained(_ context.Context, r observe.Retention) {
	if r.Purged+r.Forgotten+r.Removed+len(r.Kept) == 0 && r.Err == nil {
		return
	}
	said := words{fmt.Sprintf("forgets %d runtimes, %d tombstones", r.Purged, r.Forgotten)}
	said.addIf(r.Removed > 0, "%d other replies", r.Removed)
	var kept []string
	for because, n := range r.Kept {
		kept = append(kept, fmt.Sprintf("%d kept as %s", n, because))
	}
	slices.Sort(kept)
	said = append(said, kept...)
	said.addIf(r.Err != nil, "%v", r.Err)
	w.last("%s", said.String())
}

// noted reports writes of ClusterConfigs, but not that there was nothing to write.
func (w *world) noted(_ context.Context, n observe.Noted) {
	if n.Written+n.Removed > 0 || n.Err != nil {
		w.last("noted of %s: %d written, %d removed, %v", n.Runtime, n.Written, n.Removed, n.Err)
	}
}

// record writes what Redis has of a binding.
func record(r account.Record) string {
	w := words{string(r.State)}
	w.addIf(r.Tenant != "", "of %s", r.Tenant)
	w.addIf(r.Generation > 0, "generation %d", r.Generation)
	w.add("clusters %d", r.Count)
	w.addIf(r.State != account.Free && !r.Confirmed && r.Tenant != "", "not confirmed")
	return w.String()
}

// state writes all that Redis, the waiting room and the stream of events have.
func (w *world) state() (string, error) {
	var lines []string
	pools, err := w.redis.Pools(w.ctx)
	if err != nil {
		return "", err
	}
	for _, pool := range pools {
		for b, err := range w.redis.Bindings(w.ctx, pool) {
			if errors.Is(err, account.ErrNotBuilt) {
				lines = append(lines, pool+" is not built")
				break
			}
			lines = append(lines, fmt.Sprintf("%s in %s: %s", b.Binding, pool, record(b.Record)))
		}
		for r, err := range w.redis.Runtimes(w.ctx, pool) {
			if err != nil {
				break
			}
			said := words{fmt.Sprintf("%s in %s: %s", r.ID, pool, r.State)}
			said.addIf(r.Binding != "", "on %s", r.Binding)
			said.addIf(r.State == account.RuntimeAssigned && !r.Confirmed, "not confirmed")
			lines = append(lines, said.String())
		}
	}
	ranges, err := w.blocks.State(w.ctx)
	if err == nil {
		for _, r := range ranges.Records {
			for _, b := range r.Blocks {
				lines = append(lines, fmt.Sprintf("%s has %s by rule %s", r.Cluster, b.CIDR, r.Rule))
			}
		}
	}
	err = w.room.Each(w.ctx, func(r storage.WaitingRequest) error {
		lines = append(lines, fmt.Sprintf("%s waits for %s", r.Event.ID, r.Pool))
		return nil
	})
	backlog, failed := w.ledger.Backlog(w.ctx)
	if n := int64(backlog.Last) - int64(backlog.First) + 1; n > 0 {
		lines = append(lines, fmt.Sprintf("%d events are not settled", n))
	}
	if len(lines) == 0 {
		lines = []string{"nothing is known"}
	}
	return strings.Join(lines, "\n"), errors.Join(err, failed)
}
