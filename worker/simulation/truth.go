package simulation

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	eventstreams "github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/worker/simulation/promises"
	"github.com/hap-worker/hap-worker/worker/simulation/trace"
)

// truth has the requests of publishers, the answers to them, and the promises that follow. It is derived from
// stored messages, labels and faults; gained and installed come from calls of Redis.
type truth struct {
	ids      int
	runtimes []*client
	requests []*request
	clusters map[string]bool // runtimes that have had a Shoot

	final     map[string]events.Reply     // the final replies, by subject
	owned     map[string]string           // by subject, if the last reply says that a deprovision has taken the id: its tenant
	lives     map[string]*life            // by runtime, from its first assignment until retention forgets it
	all       []*life                     // in the order of their answers
	deadlines map[string]time.Time        // of waiting requests, by subject, as the waiting reply named it
	force     map[string]events.Reply     // by runtime: of the replies that assign or end it, that with the highest sequence
	given     map[string][]promises.Block // by runtime: the blocks of all its assignments; later ones may lack the blocks of removed rules
	excused   map[string]bool             // runtimes with an excused request
	unread    bool                        // an event was deleted by hand whose request had its answer: perhaps no worker has read that
	changed   int                         // the moment of the last reply, change of a label or install
	installed int                         // the step of the last call that installs
	claims    map[string]string           // tenant, by binding and generation of a claim
	buried    map[uint64]bool             // sequences of HAP_EVENTS with a dead letter
	edited    map[string]bool             // bindings that were changed by hand, except plans.MovedUsed
	labels    map[string]engine.Binding
	freed     map[string]string // by binding: the release that removed its labels last
	gained    map[string]int    // by decision: the limit under which Redis counted a runtime on a binding
}

// life is a runtime that was answered with a binding.
type life struct {
	runtime, tenant, binding, pool string
	generation, sequence           int64
	limit                          int                     // of the binding when this runtime was counted on it, 0 or 1<<20 for none
	blocks                         map[string]netip.Prefix // by rule and injection
	leaves                         bool                    // it was deprovisioned (see world.leaves), or retention has forgotten it
	since                          int                     // the step of its first answer
	lost                           int                     // the step after which the event of its first answer was deleted, 0 if it was there until then
}

func (t *truth) init() {
	t.clusters, t.final, t.lives, t.claims = map[string]bool{}, map[string]events.Reply{}, map[string]*life{}, map[string]string{}
	t.owned = map[string]string{}
	t.buried, t.edited, t.labels = map[uint64]bool{}, map[string]bool{}, map[string]engine.Binding{}
	t.deadlines, t.freed = map[string]time.Time{}, map[string]string{}
	t.gained, t.force, t.excused = map[string]int{}, map[string]events.Reply{}, map[string]bool{}
	t.given = map[string][]promises.Block{}
}

// replied is called for each reply that is stored: it checks the reply against the invariants, and records it.
func (w *world) replied(subject string, r events.Reply) {
	t := &w.truth
	w.note("ledger", r.RequestID, "is "+string(r.Status), trace.Reply(r))
	if was, final := t.final[subject]; final {
		w.bad("I7 OneAnswer", "%s was answered %s, and %s after that", r.RequestID, was.Status, r.Status)
	}
	t.changed = w.moments
	w.isolated(subject, r)
	if delete(t.owned, subject); r.For == events.TypeDeprovision {
		t.owned[subject] = r.GlobalAccountID
		w.taken(subject, r.GlobalAccountID) // also if the deprovision took a provision's id before the provision was answered
	}
	if r.Waiting != nil {
		t.deadlines[subject] = r.Waiting.Deadline
	}
	if !r.Final() {
		return
	}
	t.final[subject] = r
	if l := t.lives[r.RuntimeID]; r.Status == events.StatusReleased && l != nil && !l.leaves && !t.excused[l.runtime] {
		w.bad("Isolation", "runtime %s of %s is deprovisioned by another tenant's %s", l.runtime, l.tenant, r.RequestID)
	}
	for binding, by := range t.freed {
		if by == r.RequestID && r.Status != events.StatusReturned && !t.edited[binding] {
			w.bad("I7 OneAnswer", "release %s took the labels off %s, and is answered %s", by, binding, r.Status)
		}
	}
	// Superseded also means that the runtime is gone (rule 13).
	if r.Status == events.StatusAssigned || r.Status == events.StatusReleased || r.Error != nil && r.Error.Code == engine.CodeSuperseded && r.Decision != nil {
		if before := t.force[r.RuntimeID].Decision; before == nil || r.Decision.Sequence >= before.Sequence {
			t.force[r.RuntimeID] = r
		}
	}
	if r.Status == events.StatusAssigned {
		for _, b := range promises.Given(r) {
			if !slices.Contains(t.given[r.RuntimeID], b) {
				t.given[r.RuntimeID] = append(t.given[r.RuntimeID], b)
			}
		}
		w.answered(subject, r)
		w.counted(r)
	}
}

// taken records that a deprovision of a tenant, "" for an operator's, has taken the request id of a reply subject: the
// deprovision is accepted.
func (w *world) taken(subject, tenant string) {
	for _, q := range w.truth.requests {
		if q.subject == subject && q.event.Deprovision != nil && q.event.Tenant() == tenant {
			w.leaves(q.event.RuntimeID, q.tenant)
		}
	}
}

// leaves records a deprovision: one that the runtime's tenant or an operator publishes, or any that was accepted. It
// ends the runtime if by is the runtime's tenant, or "" (an operator).
func (w *world) leaves(runtime, by string) {
	for _, rt := range w.truth.runtimes {
		if rt.id == runtime {
			rt.leaves = rt.leaves || by == "" || by == rt.tenant
			rt.ended = append(rt.ended, by)
		}
	}
	if l := w.truth.lives[runtime]; l != nil && (by == "" || by == l.tenant) {
		l.leaves = true
	}
}

// isolated checks that the tenant in a reply, if any, is that of a request with the reply's subject. A request
// without a tenant, such as an operator's, permits any.
func (w *world) isolated(subject string, r events.Reply) {
	if r.GlobalAccountID == "" {
		return
	}
	asked := false
	for _, q := range w.truth.requests {
		if q.subject == subject {
			asked = true
			if q.tenant == r.GlobalAccountID || q.tenant == "" {
				return
			}
		}
	}
	if asked {
		w.bad("Isolation", "%s is answered with what is %s's", r.RequestID, r.GlobalAccountID)
	}
}

// told checks each copy of a reply that is sent to an inbox.
func (w *world) told(msg *nats.Msg) {
	r := w.decoded(msg.Data)
	tenant := strings.TrimPrefix(msg.Subject, "_INBOX.")
	if r.GlobalAccountID != "" && r.GlobalAccountID != tenant {
		w.bad("Isolation", "%s hears of %s's request %s", tenant, r.GlobalAccountID, r.RequestID)
	}
}

// buried is called for each stored message that is no reply. If it is a dead letter, buried records its event.
func (w *world) buried(msg *nats.Msg) {
	if n, err := strconv.ParseUint(msg.Header.Get(dead.HeaderSequence), 10, 64); err == nil {
		w.truth.buried[n] = true
	}
}

// answered checks an assignment against the earlier ones, and records it.
func (w *world) answered(subject string, r events.Reply) {
	t := &w.truth
	l := t.lives[r.RuntimeID]
	if l == nil {
		l = &life{
			runtime: r.RuntimeID, tenant: r.GlobalAccountID, binding: r.Binding.Name, pool: r.Decision.Pool, since: w.steps,
			limit: cmp.Or(t.gained[gain(r.RuntimeID, r.Binding.Name, r.Decision.Sequence)], r.Limit), blocks: map[string]netip.Prefix{},
		}
		for _, rt := range t.runtimes {
			l.leaves = l.leaves || rt.id == r.RuntimeID && (slices.Contains(rt.ended, "") || slices.Contains(rt.ended, l.tenant))
		}
		for _, q := range t.requests {
			if q.subject == subject {
				l.lost = q.lost
			}
		}
		t.lives[r.RuntimeID] = l
		t.all = append(t.all, l)
	}
	if l.binding != r.Binding.Name && !t.unsealed(l) {
		w.bad("I1 OneBinding", "runtime %s was answered with %s, and now with %s", l.runtime, l.binding, r.Binding.Name)
	}
	l.generation, l.sequence = r.Binding.Generation, max(l.sequence, r.Decision.Sequence)
	claim := fmt.Sprintf("%s %d", l.binding, l.generation)
	if other, known := t.claims[claim]; known && other != l.tenant && !t.edited[l.binding] {
		w.bad("I3 OneTenant", "claim %d of %s was answered to %s and to %s", l.generation, l.binding, other, l.tenant)
	}
	t.claims[claim] = l.tenant
	if l.leaves {
		return
	}
	if t.holds(l) {
		w.among(l)
	}
	w.blocks(l, r)
}

// unsealed reports whether the event of this answer was deleted by hand, and a rebuild installed after that: it had
// nothing to seal, and may have read the ledger before the answer was stored (protocol.md, "What is not covered").
func (t *truth) unsealed(l *life) bool { return l.lost > 0 && t.installed > l.lost }

// holds reports whether a runtime holds its account: it does not leave, and no rebuild may have missed it.
func (t *truth) holds(l *life) bool { return !l.leaves && !t.unsealed(l) }

// gain is the key of a decision that counted a runtime on a binding.
func gain(runtime, binding string, sequence int64) string {
	return fmt.Sprint(runtime, " ", binding, " ", sequence)
}

// among checks an answer against the label and the other runtimes of the pool: I2, I3, I4, I5.
func (w *world) among(l *life) {
	t := &w.truth
	if b := t.labels[l.binding]; b.Dirty && !t.edited[l.binding] {
		w.bad("I5 NoDirty", "runtime %s is on %s, which is dirty", l.runtime, l.binding)
	}
	there, limit := 0, 0
	for _, o := range t.all {
		if !t.holds(o) || o.pool != l.pool {
			continue
		}
		if o.binding == l.binding {
			there++
			limit = max(limit, o.limit)
			if o.limit == 0 {
				limit = 1 << 20
			}
			if o.tenant != l.tenant && !t.edited[l.binding] {
				w.bad("I3 OneTenant", "%s serves %s of %s and %s of %s", l.binding, min(o.runtime, l.runtime), o.tenant, max(o.runtime, l.runtime), l.tenant)
			}
			continue
		}
		if o.tenant == l.tenant && !w.settings.MayHaveSeveral(l.tenant) && !t.edited[l.binding] && !t.edited[o.binding] {
			w.bad("I4 OneAccount", "%s has %s and %s of pool %s", l.tenant, min(o.binding, l.binding), max(o.binding, l.binding), l.pool)
		}
	}
	if there > limit {
		w.bad("I2 WithinLimit", "%s has %d runtimes, the limit is %d", l.binding, there, limit)
	}
}

// blocks checks that each network block of an answer is the one of earlier answers, if they had one for this
// rule and injection (I10), and that it overlaps with no other runtime's (I9).
func (w *world) blocks(l *life, r events.Reply) {
	for _, n := range r.Network {
		cidr := netip.MustParsePrefix(n.CIDR)
		key := n.Rule + " " + n.ID + strings.Join(n.Paths, ",")
		if was, known := l.blocks[key]; known && was != cidr && !w.truth.unsealed(l) {
			w.bad("I10 Stable", "runtime %s was answered with %s and now with %s by rule %s", l.runtime, was, cidr, n.Rule)
		}
		l.blocks[key] = cidr
		for _, o := range w.truth.all {
			if o == l || !w.truth.holds(o) || !w.truth.holds(l) {
				continue
			}
			for _, other := range o.blocks {
				if other.Overlaps(cidr) {
					w.bad("I9 NoOverlap", "%s is given to %s while %s has %s", cidr, l.runtime, o.runtime, other)
				}
			}
		}
	}
}

// labelled checks each change of a binding, and queues it for the watches.
func (w *world) labelled(b engine.Binding, deleted bool) {
	t := &w.truth
	for _, p := range w.processes {
		if !p.dead.Load() {
			seen := b
			seen.Deleting = b.Deleting && !w.off("deleting") // without rule 3: caches offer a binding although it is being deleted
			p.watched = append(p.watched, watched{seen, deleted})
		}
	}
	t.changed = w.moments
	was := t.labels[b.Name]
	if deleted {
		delete(t.labels, b.Name)
		return
	}
	t.labels[b.Name] = b
	w.note("label", b.Name, trace.Label(b), "")
	if was.Deleting && was.Tenant == "" && b.Tenant != "" && !b.Dirty {
		w.bad("I5 NoDirty", "%s is claimed for %s while it is being deleted", b.Name, b.Tenant)
	}
	if t.edited[b.Name] {
		return
	}
	for _, l := range t.all {
		if l.binding != b.Name || !t.holds(l) {
			continue
		}
		switch {
		case b.Dirty:
			w.bad("I5 NoDirty", "%s is marked dirty under runtime %s", b.Name, l.runtime)
		case b.Tenant != l.tenant:
			w.bad("I3 OneTenant", "%s is labelled %q while %s of %s is on it", b.Name, b.Tenant, l.runtime, l.tenant)
		}
	}
	if was.Tenant != "" && b.Tenant != "" && was.Tenant != b.Tenant {
		w.bad("I3 OneTenant", "%s went from %s to %s without a release", b.Name, was.Tenant, b.Tenant)
	}
	if b.Dirty && !was.Dirty {
		_ = w.garden.Shoots(context.Background(), func(s engine.Shoot) error {
			if s.Binding == b.Name {
				w.bad("I5 NoDirty", "%s is marked dirty under the Shoot of %s", b.Name, s.RuntimeID)
			}
			return nil
		})
	}
}

// freed checks each release that removes the labels of a binding. A release must not end another claim than the one
// that was cleaned, nor free the account of a runtime that was answered before the release was published (rule 9),
// except in another pool to which the binding was moved by hand (rule 10).
func (w *world) freed(b engine.Binding, by string) {
	t, binding := &w.truth, b.Name
	t.freed[binding] = by
	at := slices.IndexFunc(t.requests, func(q *request) bool { return q.event.ID == by })
	if at >= 0 && !t.edited[binding] {
		if claim, now := t.requests[at].cleaned, t.labels[binding].Generation; claim != 0 && claim != now {
			w.bad("I5 NoDirty", "release %s takes the labels off %s at claim %d, and claim %d was cleaned", by, binding, now, claim)
		}
	}
	for _, l := range t.all {
		taken := t.edited[binding] && l.pool != b.Pool().Name()
		if at >= 0 && l.binding == binding && !taken && t.holds(l) && !t.excused[l.runtime] && l.since < t.requests[at].since {
			w.bad("I3 OneTenant", "%s is released under runtime %s", binding, l.runtime)
		}
	}
}

// forgotten records that retention has deleted a runtime's replies: later requests for it count as new (rule
// 14).
func (w *world) forgotten(ctx context.Context, subjects string) {
	t := &w.truth
	for _, q := range t.requests {
		if q.subject == subjects {
			delete(t.final, q.subject) // subjects is that of a single reply, to a request without an account
			w.excuse(q)
			continue
		}
		if q.event.RuntimeID == "" || w.subjects.RuntimeReplies(q.event.RuntimeID) != subjects {
			continue
		}
		if _, err := w.broker.Message(ctx, events.StreamReplies, eventstreams.Query{LastFor: q.subject}); err == nil {
			continue // a later reply than the purged ones is still there
		}
		delete(t.final, q.subject)
		delete(t.force, q.event.RuntimeID)
		w.excuse(q)
		if l := t.lives[q.event.RuntimeID]; l != nil {
			l.leaves = true
			delete(t.lives, l.runtime)
		}
	}
}
