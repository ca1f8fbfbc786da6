package main

import "strings"

// check returns the invariant that a state violates, "" for none: the answers to publishers, the labels and
// Redis must agree at all times.
func (m *model) check(s *state) string {
	s = m.inForce(s)
	var counts, serves [maxBindings]uint8
	var homes [maxRuntimes]uint8 // by tenant
	for r := range uint8(maxRuntimes) {
		home := m.home(s, r)
		if home == 0 {
			continue
		}
		b, tenant := home-1, m.tenants[r]
		if broken := m.checkHome(s, r, b); broken != "" {
			return broken
		}
		if serves[b] != 0 && serves[b] != tenant && !m.shared && !strings.Contains(m.others, "d") {
			return "I3 OneTenant: runtimes of two tenants live on one binding"
		}
		if m.limit == 0 && !m.shared && homes[tenant] != 0 && homes[tenant] != home {
			return "I4 OneAccount: a tenant with one account lives on two"
		}
		counts[b]++
		serves[b], homes[tenant] = tenant, home
		if m.limit > 0 && counts[b] > m.limit {
			return "I2 WithinLimit: more runtimes live on a binding than the limit"
		}
	}
	if !m.edits() {
		for b := range uint8(m.bindings) {
			if s.labels[b].dirty && s.refers(b) {
				return "I5 NoDirty: a binding is dirty under a cluster that is still there"
			}
		}
	}
	return m.checkEvents(s)
}

// checkHome checks a runtime that lives on a binding.
func (m *model) checkHome(s *state, r, b uint8) string {
	switch l := s.labels[b]; {
	case m.shared || strings.Contains(m.others, "d"): // no claim; or taken away by hand
	case l.dirty:
		return "I5 NoDirty: the binding of a live runtime is dirty"
	case l.tenant != m.tenants[r]:
		return "I3 OneTenant: a runtime lives on a binding that is not labelled for its tenant"
	}
	if m.budget.forgets == 0 && !m.counted(s, r, b) {
		return "I6 CountsTrue: a runtime is not counted on the binding that it lives on"
	}
	for e, v := range m.events {
		if v.kind == provision && v.of == r && s.replies[e].status == assigned && s.replies[e].binding != b+1 {
			return "I1 OneBinding: a runtime was answered with two bindings"
		}
	}
	return ""
}

// counted reports whether a pool has the runtime on the binding, or a pool is not built.
func (m *model) counted(s *state, r, b uint8) bool {
	for p := range m.pools {
		if rt := s.pools[p].runtimes[r]; !s.pools[p].built() || rt.state == assignedRuntime && rt.binding == b+1 {
			return true
		}
	}
	return false
}

func (m *model) checkEvents(s *state) string {
	for i, v := range m.events {
		e := uint8(i)
		if !has(s.acked, e) || s.replies[e].status.final() || has(s.forgotten, e) {
			continue
		}
		if v.kind != provision || !has(s.room, e) || s.replies[e].status != waiting {
			return "I8 NothingLost: an event is settled that is neither answered nor waits"
		}
	}
	return ""
}

// checkQuiet checks a state in which workers have no step left.
func (m *model) checkQuiet(s *state) string {
	s = m.inForce(s)
	if m.replicated && m.missing(s) != 0 && s.left.rebuilds == 0 {
		return "" // the budget is spent
	}
	if m.budget.audits > 0 && s.left.audits == 0 && len(m.drifting(s)) > 0 {
		return "" // likewise
	}
	if m.missing(s) != 0 {
		return "I8 NothingLost: Redis is never rebuilt"
	}
	for i, v := range m.events {
		e := uint8(i)
		if !has(s.published, e) || has(s.forgotten, e) && s.replies[e].status == unanswered {
			continue
		}
		final := s.replies[e].status.final()
		switch refused := s.replies[e].status == notDirty || s.replies[e].status == stale; {
		case !has(s.acked, e):
			return "I8 NothingLost: an event is never settled"
		case has(s.room, e) && final:
			return "I8 NothingLost: an answered request stays in the waiting room"
		case !final && has(s.expired, e):
			return "I8 NothingLost: a request waits beyond its deadline"
		case !final && m.fits(s, e):
			return "I8 NothingLost: a request waits that could be served"
		case v.kind == release && refused && s.labels[v.of].releasedBy == e+1:
			return "I7 OneAnswer: a release took effect and was refused"
		}
	}
	if broken := m.quietRuntimes(s); broken != "" {
		return broken
	}
	for b := range uint8(m.bindings) {
		if broken := m.quietBinding(s, b); broken != "" {
			return broken
		}
	}
	return ""
}

func (m *model) quietRuntimes(s *state) string {
	for r := range uint8(maxRuntimes) {
		counted, waits := false, false
		for p := range m.pools {
			state := s.pools[p].runtimes[r].state
			counted = counted || state == assignedRuntime
			waits = waits || state == waitingRuntime
		}
		if counted != (m.home(s, r) > 0) {
			return "I6 CountsTrue: who is counted in the end is not who lives"
		}
		if m.misled(s, r) {
			return "I6 CountsTrue: the directory does not lead to a runtime that is counted"
		}
		if waits && !m.waits(s, r) {
			return "I6 CountsTrue: Redis has a runtime wait that has no request in the waiting room"
		}
	}
	return ""
}

func (m *model) waits(s *state, runtime uint8) bool {
	for e, v := range m.events {
		if v.kind == provision && v.of == runtime && has(s.room, uint8(e)) {
			return true
		}
	}
	return false
}

func (m *model) quietBinding(s *state, b uint8) string {
	l := s.labels[b]
	for p := range m.pools {
		if rec := s.pools[p].bindings[b]; !l.isIn(p) && rec.state != free && rec.count == 0 {
			return "an account is leaked: a pool that it has left keeps it"
		}
	}
	rec := s.pools[l.at()].bindings[b]
	if l.deleted || m.shared {
		return ""
	}
	quarrel := m.edits() || m.budget.forgets > 0 || m.budget.loss > 0 || m.replicated // then an idle claim is legal
	switch {
	case rec.state == free && !l.unclaimed():
		return "I6 CountsTrue: Redis never learns of a label"
	case rec.state == claiming:
		return "I8 NothingLost: a claim is never confirmed"
	case rec.state == claimed && rec.count == 0 && !quarrel:
		return "an account is leaked: claimed, with nobody on it"
	case rec.count > 0 && strings.Contains(m.others, "d"): // taken away from under its runtimes
	case rec.state == claimed && l.tenant != rec.tenant:
		return "I3 OneTenant: a label is not what Redis says in the end"
	case rec.state >= draining && rec.count == 0 && !l.dirty && !s.refers(b) && !m.internalBinding(b):
		return "an account is leaked: it drains for ever"
	}
	return ""
}
