package main

// audit looks whether Redis has a runtime assigned for nothing but requests that the ledger
// has refused, with no event of the runtime in motion (rule 11).
func (m *model) audit(s *state, w int, r uint8) {
	for p := range m.pools {
		rt := s.pools[p].runtimes[r]
		if m.off[ruleAudit] || rt.state != assignedRuntime || !m.refused(s, rt.requests) || m.inMotion(s, r) {
			continue
		}
		n := *s
		again, possible := m.twice(&n, w, auditKey+r)
		if !possible {
			continue
		}
		n.workers[w] = worker{at: auditing, key: auditKey + r, pool: p, read: uint16(rt.requests)}
		m.add(&n, w, "audits, and finds that the ledger has refused what %s is assigned for", onRuntime(r)).fault = again
	}
}

// refused reports whether all of these requests are refused, and there are any.
func (m *model) refused(s *state, requests uint8) bool {
	for e := range uint8(len(m.events)) {
		if has(requests, e) && s.replies[e].status != rejected && s.replies[e].status != exhausted && s.replies[e].status != superseded {
			return false
		}
	}
	return requests != 0
}

// inMotion reports whether an event of the runtime is not settled, or waits.
func (m *model) inMotion(s *state, r uint8) bool {
	for i, v := range m.events {
		e := uint8(i)
		if v.kind != release && v.of == r && (has(s.published, e) && !has(s.acked, e) || has(s.room, e)) {
			return true
		}
	}
	return false
}

// repair takes back what one of the requests holds, then the next.
func (m *model) repair(s *state, w int) {
	n := *s
	k := &n.workers[w]
	e := uint8(0)
	for !has(uint8(k.read), e) {
		e++
	}
	r := m.redis.run(&n.pools[k.pool], call{script: takeBack, runtime: k.key - auditKey, request: e})
	if r.notBuilt {
		m.giveUp(s, w)
		return
	}
	if k.read &^= 1 << e; k.read == 0 {
		*k = worker{}
	}
	m.script(&n, w, "takes back what %s holds, as the audit found", onEvent(e), r)
}
