package inspect

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// aboutSelector is the subject of sentences that -o table leaves out.
const aboutSelector = "selector"

// telling turns the decision record of a reply into sentences.
type telling struct {
	reply    events.Reply
	decision *events.Decision
	out      []reason
}

func (e *telling) say(about, text string, args ...any) {
	e.out = append(e.out, reason{About: about, Text: fmt.Sprintf(text, args...)})
}

// rule explains which rule matched and why each rule that the decision recorded as passed over was not applied.
func (e *telling) rule() {
	d := e.decision
	switch {
	case d.Rule != "":
		e.say("rule", "%s; asked for %s; leads to pool %s", cli.Numbered(d.RuleNumber, d.Rule), e.asked(), d.Pool)
	case e.reply.Error != nil && e.reply.Error.Code == engine.CodeNoMatchingRule:
		e.say("rule", "none matches; asked for %s", e.asked())
	case d.Pool != "" && e.reply.Plan != "" && e.reply.Status != events.StatusReleased && d.Sequence > 0 && !e.superseded():
		e.say("rule", "not asked: an earlier request put the runtime into pool %s, where it stays", d.Pool)
	}
	for _, p := range d.Passed {
		e.say("not", "%s: %s", cli.Numbered(p.RuleNumber, p.Rule), p.Why)
	}
	if d.LabelSelector != "" {
		e.say(aboutSelector, "%s", d.LabelSelector)
	}
}

func (e *telling) superseded() bool {
	return e.reply.Error != nil && e.reply.Error.Code == engine.CodeSuperseded
}

func (e *telling) asked() string {
	text := "plan " + e.reply.Plan
	if e.reply.Provider != "" && e.reply.Provider != e.reply.Plan {
		text += ", provider " + e.reply.Provider
	}
	return text + ", platform region " + cmp.Or(e.decision.PlatformRegion, "none") +
		", hyperscaler region " + cmp.Or(e.decision.HyperscalerRegion, "none")
}

// account explains how the account was found.
func (e *telling) account() {
	b := e.reply.Binding
	if b == nil || e.reply.Status != events.StatusAssigned {
		return
	}
	clusters := ""
	if e.reply.Clusters != nil {
		limit := e.reply.Limit
		if b.Shared {
			limit = 0 // a shared account has none
		}
		clusters = fmt.Sprintf("; with this one it has %s", view.ClustersOf(*e.reply.Clusters, limit))
	}
	e.say("account", "%s%s%s", b.Name, e.found(), clusters)
}

func (e *telling) found() string {
	switch account.Origin(e.decision.Origin) {
	case account.Own:
		return ", the tenant's own: " + e.first()
	case account.Revived:
		return ", the tenant's own, which was draining: no other one of the tenant's could take the cluster"
	case account.Labelled:
		return ": its label gave it to the tenant already, and Redis did not know it"
	case account.Claimed:
		return ", newly claimed: " + e.whyClaimed()
	case account.Shared:
		return ", shared: none of the pool has fewer clusters"
	case account.Adopted:
		return ": a rebuild read it from the Shoot"
	default:
		return ""
	}
}

// first explains why the strategy put the account first.
func (e *telling) first() string {
	switch account.Strategy(e.decision.Strategy) {
	case account.FillMostPopulated:
		return "below the limit it has the most clusters (fill-most-populated)"
	case account.FillFirst:
		return "of those below the limit it was claimed last (fill-first)"
	case account.RoundRobin:
		return "of those below the limit it has the fewest clusters (round-robin)"
	default:
		return "the tenant has one account in a pool, whatever its clusters"
	}
}

func (e *telling) whyClaimed() string {
	own := 0
	for _, c := range e.decision.Considered {
		if c.Own && c.Verdict != string(account.Chosen) {
			own++
		}
	}
	switch own {
	case 0:
		return "the tenant had none in the pool"
	case 1:
		return "the tenant's account could not take the cluster"
	default:
		return fmt.Sprintf("none of the tenant's %d accounts could take the cluster", own)
	}
}

// considered explains for each recorded account that was not chosen why it was passed over.
func (e *telling) considered() {
	for _, c := range e.decision.Considered {
		if c.Verdict != string(account.Chosen) {
			e.say("passed over", "%s: %s", c.Binding, e.verdict(c))
		}
	}
	if len(e.decision.Considered) >= account.MaxConsidered {
		e.say("passed over", "the list has room for %d; further accounts may have been looked at", account.MaxConsidered)
	}
}

func (e *telling) verdict(c events.Considered) string {
	whose := "nobody's"
	if c.Own {
		whose = "the tenant's"
	}
	chosen := e.chosen()
	switch account.Verdict(c.Verdict) {
	case account.AtLimit:
		return fmt.Sprintf("the tenant's, at its limit with %s", view.ClustersOf(c.Clusters, e.reply.Limit))
	case account.LessFitting:
		if chosen == "" {
			return fmt.Sprintf("the tenant's, %s: not used: it would be a second account beside the one in use", view.ClustersText(c.Clusters))
		}
		return fmt.Sprintf("the tenant's, %s: %s comes first%s", view.ClustersText(c.Clusters), chosen, e.byStrategy(c))
	case account.BarredHere:
		return fmt.Sprintf("%s, %s: cordoned, internal, being deleted, dirty or a duplicate; it gets no new clusters", whose, view.ClustersText(c.Clusters))
	case account.HeldByOther:
		if c.Own {
			return "the tenant's, on its way to dirty: it gets no new clusters until it is cleaned and released"
		}
		return fmt.Sprintf("held, %s: another tenant's in Redis, or on its way to dirty", view.ClustersText(c.Clusters))
	case account.MoreClusters:
		return fmt.Sprintf("shared, %s: %s comes first, by clusters, then by name", view.ClustersText(c.Clusters), cmp.Or(chosen, "another"))
	default:
		return fmt.Sprintf("%s, %s", c.Verdict, view.ClustersText(c.Clusters))
	}
}

// chosen returns the account that the decision chose, "" for none. A reply that waits for network blocks, or
// that rejects, does not name it.
func (e *telling) chosen() string {
	if e.reply.Binding != nil {
		return e.reply.Binding.Name
	}
	for _, c := range e.decision.Considered {
		if c.Verdict == string(account.Chosen) {
			return c.Binding
		}
	}
	return ""
}

// byStrategy returns the words that say why the chosen account came before c. If c has no clusters, they also name
// draining: c may be draining, which the decision does not say.
func (e *telling) byStrategy(c events.Considered) string {
	switch several := e.decision.Strategy != ""; {
	case several && c.Clusters > 0:
		return " by " + e.decision.Strategy
	case several:
		return ": claimed accounts come before draining ones, then by " + e.decision.Strategy
	case c.Clusters > 0:
		return ", it has more clusters, or as many and was claimed later"
	default:
		return ": claimed accounts come before draining ones, then those with more clusters, then those claimed later"
	}
}

// attempts lists the writes of labels and their results.
func (e *telling) attempts() {
	for _, a := range e.decision.Attempts {
		switch a.Result {
		case "written":
			e.say("claim", "%s: the label was written", a.Binding)
		case "conflict":
			e.say("claim", "%s: lost to a conflict, another client wrote the binding meanwhile; read again", a.Binding)
		case "revoked":
			e.say("claim", "%s: given up: it is another tenant's, dirty, held back, internal, being deleted or of another pool", a.Binding)
		case "unknown":
			e.say("claim", "%s: no answer whether the label was written; read again", a.Binding)
		default:
			e.say("claim", "%s: %s", a.Binding, a.Result)
		}
	}
}

func (e *telling) network() {
	for _, n := range e.reply.Network {
		e.say("network", "%s by rule %s", n.CIDR, n.Rule)
	}
}

// waited explains why a request waits, or how long it waited before its final reply was stored.
func (e *telling) waited(stored time.Time) {
	if w := e.reply.Waiting; w != nil {
		e.say("waits", "%s", e.whyWaiting(w))
		return
	}
	if t := e.decision.Times; t != nil && !t.Waiting.IsZero() {
		e.say("waited", "from %s for %s", t.Waiting.Format(time.RFC3339), stored.Sub(t.Waiting).Round(time.Millisecond))
	}
}

// whyWaiting returns the reason for waiting, as far as the decision recorded it.
func (e *telling) whyWaiting(w *events.Waiting) string {
	text := waitingReason(w.Reason, e.decision.Pool)
	switch {
	case w.Reason != events.WaitingPoolEmpty:
	case e.onlyAccount() != "":
		text = "the tenant may have one account, and the one in use gains no clusters; if it is cordoned, hapctl uncordon " + cli.QuoteWord(e.onlyAccount()) + " ends that"
	case w.Position > 1:
		text += "; workers serve " + cli.Count(w.Position-1, "other request") + " first"
	case len(e.decision.Considered) == 0:
		text += ", or the pool was paused"
	}
	return text
}

// onlyAccount returns the account in use of a tenant that may have one, if the account gains no clusters: then
// the tenant begins no second one (I4; see account.Decision.MayNotClaim). It returns "" otherwise.
func (e *telling) onlyAccount() string {
	if e.decision.Strategy != "" || engine.ParsePool(e.decision.Pool).Shared {
		return ""
	}
	for _, c := range e.decision.Considered {
		if c.Verdict == string(account.BarredHere) && c.Clusters > 0 {
			return c.Binding
		}
	}
	return ""
}

// waitingReason returns a reason for waiting as a sentence.
func waitingReason(r events.WaitingReason, pool string) string {
	switch r {
	case events.WaitingPoolEmpty:
		return "in pool " + pool + " the tenant has no account with room, and none is free for it"
	case events.WaitingNetworkFull:
		return "the parents of a network rule have no room"
	case events.WaitingNetworkMissing:
		return "there are no network rules, and network.required is true"
	case events.WaitingUnavailable:
		return "Gardener did not take the claim of an account in time"
	default:
		return string(r)
	}
}

// changed explains the effect of a deprovision or a release.
func (e *telling) changed() {
	r := e.reply
	if r.Status == events.StatusReturned && r.Binding != nil {
		e.say("changed", "%s is free again", r.Binding.Name)
	}
	c := e.decision.Changed
	if r.Status != events.StatusReleased || c == nil {
		return
	}
	if c.By != "" {
		e.say("by", "%s published the deprovision", c.By)
	}
	switch c.Runtime {
	case string(account.RuntimeGone):
		e.say("changed", "nothing: the runtime was gone already")
		return
	case string(account.RuntimeWaiting):
		e.say("changed", "the runtime waited and is gone; request %s was answered Superseded", c.Superseded)
	case "none":
		e.say("changed", "nothing was on record of the runtime; a provision that comes late is answered Superseded")
	default:
		if r.Binding != nil {
			e.say("changed", "the runtime was on %s and is gone", r.Binding.Name)
		}
	}
	e.left()
}

// left explains the state in which a deprovision left the account.
func (e *telling) left() {
	r := e.reply
	if r.Binding == nil || r.Clusters == nil {
		return
	}
	switch {
	case *r.Clusters > 0:
		e.say("changed", "%s keeps %s", r.Binding.Name, view.ClustersText(*r.Clusters))
	case r.MarkedDirty:
		e.say("changed", "%s is empty and was marked dirty: it waits to be cleaned and released", r.Binding.Name)
	case r.Draining:
		e.say("changed", "%s is empty and drains: it is marked dirty once no Shoot refers to it, and the tenant may come back before", r.Binding.Name)
	case r.Binding.Shared:
		e.say("changed", "%s is shared and stays in its pool", r.Binding.Name)
	default:
		e.say("changed", "%s is empty and was not marked: it is internal, was revived meanwhile, or nobody was ever answered with it", r.Binding.Name)
	}
}

// times lists the moments of the decision: the first with its time, each later one with the time since the
// first.
func (e *telling) times(stored time.Time) {
	t := e.decision.Times
	if t == nil {
		return
	}
	var words []string
	var first time.Time
	for _, at := range []struct {
		what string
		time time.Time
	}{{"published", t.Published}, {"taken up", t.Began}, {"decided", t.Decided}, {"label written", t.Claimed}, {"stored", stored}} {
		switch {
		case at.time.IsZero():
		case first.IsZero():
			first = at.time
			words = append(words, at.what+" "+at.time.UTC().Format("2006-01-02T15:04:05.000Z"))
		default:
			words = append(words, fmt.Sprintf("%s +%s", at.what, at.time.Sub(first).Round(time.Millisecond)))
		}
	}
	e.say("times", "%s", strings.Join(words, ", "))
}
