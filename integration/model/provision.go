package main

import (
	"cmp"

	"github.com/hap-worker/hap-worker/engine/account"
)

// locate looks up the runtime's pool: the rule's, unless an earlier request has put it into another (I10).
func (m *model) locate(s *state, w int) {
	n := *s
	k := &n.workers[w]
	v := m.events[k.key]
	at, notBuilt := m.dirs.locate(&n.bucket, v.of, v.pool)
	if notBuilt {
		m.giveUp(s, w)
		return
	}
	if at.pool == gone {
		k.at, k.outcome, k.sequence, k.placeless = publishing, superseded, at.sequence, true
		m.add(&n, w, "finds in the directory that %s is gone", onRuntime(v.of))
		return
	}
	k.at, k.pool = asking, at.pool-1
	if m.off[rulePlace] {
		k.pool = v.pool
	}
	if !s.pools[k.pool].built() {
		m.giveUp(s, w)
		return
	}
	k.made = s.pools[k.pool].epoch
	k.barred = m.bars(&n, k.tenant, k.pool)
	m.add(&n, w, "looks up the pool of %s", onRuntime(v.of))
}

// views are the labels that a decision sees, by binding.
type views struct {
	labels   [maxBindings]label
	aged     uint8 // the bindings whose previous label the cache shows
	reversed bool
}

// ask runs assign (rule 3). A label that the worker has read itself is used as read; the others come from the
// cache, which may be stale. A real worker asks first without suggestions, then with them. The model takes both
// for one step.
func (m *model) ask(s *state, w int) {
	k := s.workers[w]
	now := views{labels: s.labels}
	if k.live {
		now.labels[k.binding] = k.view
	}
	first := m.asks(s, w, now, nil)
	if first.notBuilt {
		return
	}
	if m.bindings == maxBindings && m.pools == 1 {
		other := now
		other.reversed = true
		m.asks(s, w, other, &first)
	}
	if s.left.stale == 0 {
		return
	}
	for b := range uint8(m.bindings) {
		if s.before[b] != s.labels[b] && (!k.live || k.binding != b) {
			behind := now
			behind.labels[b], behind.aged = s.before[b], bit(b)
			m.asks(s, w, behind, &first)
		}
	}
}

// asks adds the step of a request with these views, unless it comes to the same as the result than.
func (m *model) asks(s *state, w int, v views, than *result) result {
	n := *s
	k := &n.workers[w]
	e := k.key
	c := call{
		script: assign, runtime: m.events[e].of, request: e, tenant: k.tenant, barred: k.barred, reversed: v.reversed,
		shared: m.shared, inTurn: m.off[ruleTurn] || k.served && m.turn(s, k.pool, e),
	}
	if m.directory && !m.off[ruleRebuilt] {
		c.epoch = k.made
	}
	for b := range uint8(m.bindings) {
		m.offer(&c, *k, v.labels[b], b)
	}
	if m.off[ruleBarred] {
		c.barred = 0
	}
	r := m.redis.run(&n.pools[k.pool], c)
	if than != nil && (r == *than && (v.aged == 0 || r.binding == 0 || !has(v.aged, r.binding-1))) {
		return r
	}
	if r.notBuilt {
		m.giveUp(s, w)
		return r
	}
	what := m.decided(&n, w, r, v)
	if v.aged > 0 {
		n.left.stale--
		what += "; its cache is behind"
	}
	on := onEvent(e)
	if r.outcome == account.Assigned {
		on = onBinding(r.binding - 1)
	}
	move := m.add(&n, w, what, on)
	move.broken, move.fault = r.broken, v.aged > 0
	if r.gains {
		move.broken = cmp.Or(r.broken, m.mayGain(s, w, r))
	}
	return r
}

// mayGain checks an assignment against what the worker knew: who waits, and which bindings are cordoned or
// internal.
func (m *model) mayGain(s *state, w int, r result) string {
	k := s.workers[w]
	p := s.pools[k.pool]
	first := m.redis.run(&p, call{script: queue}).first
	switch {
	case p.paused:
		return "a pool gains a runtime while it is paused"
	case has(k.barred, r.binding-1):
		return "I5 NoDirty: a cordoned or internal binding gains a runtime"
	case r.claims && first > 0 && first-1 != m.events[k.key].of && !(k.served && m.turn(s, k.pool, k.key)):
		return "FIFO: an account is claimed ahead of those who wait"
	}
	return ""
}

// offer adds a label to those that the script gets. The script must not choose a binding that is cordoned or internal,
// but may have chosen it before.
func (m *model) offer(c *call, k worker, l label, b uint8) {
	if !l.isIn(k.pool) || l.dirty || !m.shared && l.tenant != 0 && l.tenant != k.tenant {
		return
	}
	if l.cordoned || m.internalBinding(b) {
		c.barred |= bit(b)
	}
	if m.shared {
		c.offered |= bit(b)
	} else {
		c.offered |= bit(b)
		c.generations[b] = l.generation
		if l.tenant != 0 {
			c.labelled |= bit(b)
		}
	}
}

// decided sets the worker's next step after a decision, and returns the text of this step.
func (m *model) decided(n *state, w int, r result, v views) string {
	k := &n.workers[w]
	k.sequence, k.asked = r.sequence, m.directory
	switch r.outcome {
	case account.Superseded:
		k.at, k.outcome = publishing, superseded
		return "asks for an account for %s: its runtime is gone"
	case account.Refused:
		k.at, k.outcome = publishing, exhausted
		return "asks for an account for %s: it was refused"
	case account.Waiting:
		return m.nothing(n, w)
	}
	b := r.binding - 1
	if k.binding != b || !k.live {
		k.binding, k.view, k.live, k.fresh = b, v.labels[b], false, v.labels[b] == n.labels[b] && !has(v.aged, b)
	}
	k.generation, k.made, k.on = r.generation, r.epoch, r.binding
	if r.confirmed || m.off[ruleLabel] {
		k.at, k.outcome = publishing, assigned
		return "asks for an account and gets %s, which may be answered"
	}
	if m.off[ruleRead] {
		k.at = reading
		return "asks for an account and gets %s, not confirmed"
	}
	m.verdict(k)
	return "asks for an account and gets %s, not confirmed"
}

// nothing sets the next step if no account fits: the request waits, or is refused at its deadline (rule 12).
func (m *model) nothing(n *state, w int) string {
	k := &n.workers[w]
	switch {
	case has(n.expired, k.key) && m.off[ruleRefuse]:
		k.at, k.outcome, k.sequence = publishing, exhausted, n.pools[k.pool].sequence+1
		return "asks for an account for %s: there is none, and its deadline has passed"
	case has(n.expired, k.key):
		k.at = refusing
		return "asks for an account for %s: there is none, and its deadline has passed"
	case k.served && k.sequence != k.since && !m.off[ruleWaitsOn]:
		// Its record is new: another worker may have answered the request and taken back the old record.
		k.at = lookingAgain
		return "asks for an account for %s: there is none, it waits anew"
	case k.served:
		n.workers[w] = worker{}
		return "asks for an account for %s: there is none, it waits on"
	default:
		k.at = entering
		if m.off[ruleRecord] {
			k.at = sayingWaiting
		}
		return "asks for an account for %s: there is none"
	}
}

// verdict sets the step that follows from the label that was read (rule 4).
func (m *model) verdict(k *worker) {
	l := k.view
	switch {
	case l.dirty || l.tenant != 0 && l.tenant != k.tenant || !l.isIn(k.pool):
		// The cache may be stale; only a live read may cost another tenant its claim.
		if k.at = reading; k.live {
			k.at = revoking
		}
	case l.tenant == k.tenant && l.generation == k.generation && (l.epoch == k.made || m.off[ruleFence]):
		k.at = confirming
		m.unlessConfirmed(k)
	default:
		k.at = labelling
	}
}

// unlessConfirmed skips confirm if its rule is switched off.
func (m *model) unlessConfirmed(k *worker) {
	if m.off[ruleConfirm] {
		k.at, k.outcome = publishing, assigned
	}
}
