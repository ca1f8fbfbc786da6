package main

// sweep compares a binding in the cache with its record (rule 10): a label that contradicts the record is
// followed, and an account that drains is marked dirty.
func (m *model) sweep(s *state, w int, b uint8) {
	l := s.labels[b]
	for p := range m.pools {
		rec := s.pools[p].bindings[b]
		switch {
		case !s.pools[p].built():
		case l.isIn(p):
			m.follow(s, w, p, b, l)
			if s.left.stale > 0 && s.before[b] != l {
				m.follow(s, w, p, b, s.before[b])
			}
			m.markVacant(s, w, p, b)
		case rec.state != free && rec.state != claiming && !m.off[ruleLeft]:
			// It has left the pool: no label here belongs to a claim.
			m.follow(s, w, p, b, label{generation: aboveAll, deleted: true})
		}
		m.doubt(s, w, p, b)
	}
}

// aboveAll is a generation that no claim reaches.
const aboveAll = 200

func (m *model) markVacant(s *state, w int, p, b uint8) {
	rec, l := s.pools[p].bindings[b], s.labels[b]
	vacant := rec.count == 0 && rec.state >= draining && !l.dirty
	if !vacant || s.refers(b) || m.internalBinding(b) || !sameClaim(l, rec) {
		return
	}
	n := *s
	again, possible := m.twice(&n, w, sweepKey+b)
	if !possible {
		return
	}
	n.workers[w] = worker{at: inspecting, key: sweepKey + b, pool: p, binding: b, tenant: rec.tenant, generation: rec.generation}
	m.add(&n, w, "sweeps %s, which nobody is on", onBinding(b)).fault = again
}

// doubt makes a claim unconfirmed if its account was taken away while runtimes are on it, or was made again while it
// drains.
func (m *model) doubt(s *state, w int, p, b uint8) {
	rec, l := s.pools[p].bindings[b], s.labels[b]
	remade := rec.state != dirtying && l.isIn(p) && l.generation < rec.generation
	if !m.relocates() || !rec.confirmed || rec.count == 0 && !remade || rec.tenant == 0 || l.isIn(p) && l.tenant == rec.tenant && !l.dirty {
		return
	}
	n := *s
	again, possible := m.twice(&n, w, sweepKey+b)
	if !possible {
		return
	}
	r := m.redis.run(&n.pools[p], call{script: doubt, binding: b, generation: rec.generation})
	m.script(&n, w, "sweeps %s, which was taken away from its tenant, and doubts its claim", onBinding(b), r)
	m.out[len(m.out)-1].fault = again
}

// sameClaim reports whether a label shows this claim, or an earlier state because this claim's label was
// never written (rule 8).
func sameClaim(l label, rec record) bool {
	if l.tenant == 0 {
		return l.generation < rec.generation
	}
	return l.tenant == rec.tenant && l.generation <= rec.generation
}

// follow adds a step for a label whose script would change the record. The sweep runs it only for a label
// that contradicts the record. The watch runs it for every change, but may miss one, so nothing may depend on
// it.
func (m *model) follow(s *state, w int, p, b uint8, l label) {
	probe := s.pools[p]
	after := uint8(0) // the label is the cache's
	if l == s.labels[b] || l.deleted {
		after = probe.bindings[b].generation // read live, where the script requires it
	}
	if m.off[ruleFollow] || m.shared && !m.off[ruleSharedLabel] || !m.redis.run(&probe, observation(b, l, after)).change {
		return
	}
	n := *s
	again, possible := m.twice(&n, w, sweepKey+b)
	if !possible {
		return
	}
	n.workers[w] = worker{at: observing, key: sweepKey + b, pool: p, binding: b, view: l, generation: after}
	what, trouble := "sweeps %s and sees its label", again
	if l.deleted {
		what = "sweeps %s, which has left the pool"
	} else if l != s.labels[b] {
		n.left.stale--
		what, trouble = "sweeps %s and sees its label as it was before", true
	}
	if !l.deleted && !contradicts(l, s.pools[p].bindings[b]) {
		what, trouble = "is told of the label of %s by the watch", true
	}
	m.add(&n, w, what, onBinding(b)).fault = trouble
}

// contradicts is the function of that name of package reconcile.
func contradicts(l label, r record) bool {
	switch r.state {
	case free:
		return l.tenant != 0 || l.dirty
	case claiming:
		return false // its claim is in flight
	default:
		return l.tenant != r.tenant || l.dirty != (r.state == dirtying) || l.dirty && l.generation < r.generation
	}
}

func observation(b uint8, l label, after uint8) call {
	return call{script: observe, binding: b, tenant: l.tenant, dirty: l.dirty, generation: l.generation, after: after}
}

func (m *model) observe(s *state, w int) {
	n := *s
	k := n.workers[w]
	n.workers[w] = worker{}
	r := m.redis.run(&n.pools[k.pool], observation(k.binding, k.view, k.generation))
	what := "lets the record of %s follow its label"
	if !r.change {
		what = "would let the record of %s follow its label: it says nothing new"
	}
	m.script(&n, w, what, onBinding(k.binding), r)
}
