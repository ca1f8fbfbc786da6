package main

// readLabel reads the binding from Gardener; the script runs again afterwards (rule 2).
func (m *model) readLabel(s *state, w int) {
	n := *s
	k := &n.workers[w]
	n.look(w, k.binding, true)
	if k.at = asking; m.off[ruleRead] {
		m.verdict(k)
	}
	m.add(&n, w, "reads %s", onBinding(k.binding))
}

// writeLabel writes tenant, generation and epoch over the label that was read.
func (m *model) writeLabel(s *state, w int) {
	k := s.workers[w]
	on := onBinding(k.binding)
	m.claimFails(s, w, on)
	n := *s
	if !k.fresh {
		n.workers[w].at = reading
		m.add(&n, w, "cannot write its claim on %s: somebody has written since", on)
		return
	}
	l := k.view
	l.tenant, l.generation, l.epoch = k.tenant, k.generation, k.made
	if m.relocates() && !m.off[ruleClaimedIn] {
		l.in, l.whose = k.view.at()+1, k.tenant
	}
	m.write(&n, k.binding, l)
	if s.left.lost > 0 {
		lost := n
		lost.left.lost--
		lost.workers[w].at = reading
		m.fault(&lost, w, "writes its claim on %s, and does not hear of it", on)
	}
	n.look(w, k.binding, true)
	n.workers[w].at = confirming
	m.unlessConfirmed(&n.workers[w])
	m.add(&n, w, "writes its claim on %s", on)
}

// claimFails adds the step in which Gardener refuses a claim: the request enters the waiting room, and keeps
// its place in Redis. A request that was served from the room stays there, and an expired one is redelivered.
func (m *model) claimFails(s *state, w int, on thing) {
	if s.left.down == 0 {
		return
	}
	n := *s
	n.left.down--
	k := &n.workers[w]
	if k.served || has(s.expired, k.key) {
		*k = worker{}
	} else {
		k.at, k.on = entering, 0
	}
	m.fault(&n, w, "cannot write its claim on %s: Gardener does not serve", on)
}

// confirmClaim is rule 5.
func (m *model) confirmClaim(s *state, w int) {
	n := *s
	k := &n.workers[w]
	p := &n.pools[k.pool]
	r := m.redis.run(p, m.claim(confirm, s, w))
	switch {
	case r.notBuilt:
		m.giveUp(s, w)
	case r.ok:
		k.at, k.outcome = publishing, assigned
		m.script(&n, w, "confirms %s", onBinding(k.binding), r)
	default:
		k.at = asking
		m.script(&n, w, "is not allowed to confirm %s", onBinding(k.binding), r)
	}
}

// claim returns a call of confirm or revoke with the arguments that the decision returned.
func (m *model) claim(which script, s *state, w int) call {
	k := s.workers[w]
	c := call{
		script: which, runtime: m.events[k.key].of, binding: k.binding,
		generation: k.generation, sequence: k.sequence, epoch: k.made,
	}
	if which == confirm && m.off[ruleEpoch] {
		c.epoch = s.pools[k.pool].epoch
	}
	return c
}

// revokeClaim is rule 6.
func (m *model) revokeClaim(s *state, w int) {
	n := *s
	k := &n.workers[w]
	r := m.redis.run(&n.pools[k.pool], m.claim(revoke, s, w))
	if r.notBuilt {
		m.giveUp(s, w)
		return
	}
	if m.off[ruleRevoke] {
		n.pools[k.pool].vacate(k.binding)
	}
	k.at, k.live = asking, false // the next decision must not be judged by this view
	what := "takes its claim on %s back"
	if !r.ok {
		what = "wants to take its claim on %s back: it has none"
	}
	m.script(&n, w, what, onBinding(k.binding), r)
}

// vacate frees a binding and removes its runtimes.
func (p *pool) vacate(b uint8) {
	p.bindings[b] = record{}
	for i, rt := range p.runtimes {
		if rt.state == assignedRuntime && rt.binding == b+1 {
			p.runtimes[i] = runtime{}
		}
	}
}
