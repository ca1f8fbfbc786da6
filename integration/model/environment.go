package main

import "strings"

// publishers publish their events, each once, at any time that their order permits.
func (m *model) publishers(s *state) {
	for i, v := range m.events {
		e := uint8(i)
		if has(s.published, e) || !m.publishable(s, v) {
			continue
		}
		n := *s
		n.published |= bit(e)
		if v.kind == release && !m.genless {
			n.freed[e] = s.labels[v.of].generation
		}
		m.fault(&n, -1, "%s is published", onEvent(e))
	}
}

func (m *model) publishable(s *state, v event) bool {
	switch v.kind {
	case deprovision:
		on := s.shoots[v.of]
		return m.asked(s, v.of) && (on == 0 || on == gone || m.early)
	case release:
		return s.labels[v.of].dirty && !s.refers(v.of)
	default:
		return true
	}
}

// asked reports whether a provision of the runtime is published.
func (m *model) asked(s *state, runtime uint8) bool { return m.any(s, provision, runtime) }

func (m *model) any(s *state, k kind, of uint8) bool {
	for e, v := range m.events {
		if v.kind == k && v.of == of && has(s.published, uint8(e)) && !has(s.forgotten, uint8(e)) {
			return true
		}
	}
	return false
}

// home is the index plus 1 of the binding that the publisher knows the runtime to live on, 0 for none.
func (m *model) home(s *state, runtime uint8) uint8 {
	if m.any(s, deprovision, runtime) {
		return 0
	}
	for e, v := range m.events {
		if v.kind == provision && v.of == runtime && s.replies[e].status == assigned && !has(s.forgotten, uint8(e)) {
			return s.replies[e].binding
		}
	}
	return 0
}

// clusters creates clusters on the assigned accounts, and deletes them.
func (m *model) clusters(s *state) {
	if !m.shoots {
		return
	}
	for r := range uint8(maxRuntimes) {
		home := m.home(s, r)
		switch on := s.shoots[r]; {
		case on == 0 && home > 0:
			n := *s
			n.shoots[r] = home
			m.fault(&n, -1, "the cluster of %s appears", onRuntime(r))
		case on > 0 && on != gone:
			n := *s
			n.shoots[r] = gone
			m.fault(&n, -1, "the cluster of %s is gone", onRuntime(r))
		}
	}
}

// trouble adds the faults: losses of Redis, deadlines, changed rules, writes of others, and forgotten assignments.
func (m *model) trouble(s *state) {
	if s.left.loss > 0 && (s.pools[0].built() || s.pools[1].built() || s.bucket.built()) {
		n := *s
		n.left.loss--
		m.lose(&n)
		m.fault(&n, -1, "REDIS LOSES EVERYTHING", thing{})
	}
	if s.left.expire > 0 {
		for i, v := range m.events {
			e := uint8(i)
			if v.kind != provision || !has(s.published, e) || has(s.expired, e) || s.replies[e].status.final() {
				continue
			}
			n := *s
			n.left.expire--
			n.expired |= bit(e)
			m.fault(&n, -1, "the deadline of %s passes", onEvent(e))
		}
	}
	if s.left.rules > 0 {
		for i, v := range m.events {
			if e := uint8(i); v.kind == provision && has(s.published, e) && !has(s.unmatched, e) {
				n := *s
				n.left.rules--
				n.unmatched |= bit(e)
				m.fault(&n, -1, "the rules change and do not match %s any more", onEvent(e))
			}
		}
	}
	if s.left.others > 0 {
		for b := range uint8(m.bindings) {
			m.anotherWrites(s, b)
		}
		m.pausing(s)
	}
	if s.left.forgets > 0 {
		m.forget(s)
	}
}

func (m *model) lose(s *state) {
	for p := range s.pools {
		lost := s.pools[p].epoch
		s.pools[p] = pool{}
		if m.off[ruleBuilt] {
			s.pools[p] = emptyPool(lost)
		}
	}
	s.bucket = bucket{}
}

// anotherWrites adds the writes of others to a binding's labels: c cleans it, k claims it for tenant 2 and K
// for tenant 1, o cordons it, d deletes the binding, r recreates it, m moves it to the other pool.
func (m *model) anotherWrites(s *state, b uint8) {
	l := s.labels[b]
	write := func(what string) {
		n := *s
		n.left.others--
		m.write(&n, b, l)
		m.fault(&n, -1, what, onBinding(b))
	}
	may := func(who string) bool { return strings.Contains(m.others, who) }
	switch {
	case l.dirty && !s.refers(b) && may("c"):
		l.tenant, l.dirty = 0, false
		write("somebody takes dirty and tenant off %s by hand")
	case l.unclaimed() && may("k"):
		l.tenant = 2
		write("somebody labels %s for t2 by hand")
	case l.unclaimed() && may("K"):
		l.tenant = 1
		write("somebody labels %s for t1 by hand")
	}
	if l = s.labels[b]; !l.cordoned && may("o") {
		l.cordoned = true
		write("somebody cordons %s")
	}
	switch l = s.labels[b]; {
	case l.deleted && may("r"):
		l = label{pool: l.pool}
		write("somebody makes %s anew")
	case !l.deleted && may("d"):
		l = label{pool: l.pool, deleted: true}
		write("somebody deletes %s")
	case may("m"):
		l.pool = 1 - l.pool
		write("somebody moves %s to the other pool")
	}
}

// pausing adds an operator's pause of a pool (p), and its end (u).
func (m *model) pausing(s *state) {
	for p := range m.pools {
		paused, what := s.pools[p].paused, "somebody pauses the pool"
		if paused {
			what = "somebody ends the pause of the pool"
		}
		if s.pools[p].built() && strings.Contains(m.others, map[bool]string{false: "p", true: "u"}[paused]) {
			n := *s
			n.left.others--
			n.pools[p].paused = !paused
			m.fault(&n, -1, what, thing{})
		}
	}
}

// forget makes Redis forget the runtime of an answered assignment, but not its count, as no script does.
func (m *model) forget(s *state) {
	for p := range m.pools {
		for r, rt := range s.pools[p].runtimes {
			if rt.state == assignedRuntime && m.home(s, uint8(r)) > 0 && !m.inMotion(s, uint8(r)) {
				n := *s
				n.left.forgets--
				n.pools[p].runtimes[r] = runtime{}
				m.fault(&n, -1, "Redis forgets %s", onRuntime(uint8(r)))
			}
		}
	}
}

// write keeps the previous value only if caches may be stale.
func (m *model) write(s *state, b uint8, l label) { s.write(b, l, m.budget.stale > 0) }

// internalBinding reports whether the binding must never be claimed.
func (m *model) internalBinding(b uint8) bool { return has(m.internal, b) }
