package main

// begin lets an idle worker start something. To start what another worker works on costs a second delivery (twice).
func (m *model) begin(s *state, w int) {
	for i := range m.events {
		e := uint8(i)
		if !has(s.published, e) {
			continue
		}
		if !m.second {
			m.deliver(s, w, e)
		}
		m.serve(s, w, e)
	}
	for b := range uint8(m.bindings) {
		m.sweep(s, w, b)
	}
	if s.left.retains > 0 {
		for r := range uint8(maxRuntimes) {
			m.retain(s, w, r)
		}
	}
	if s.left.audits > 0 {
		m.audit(s, w)
	}
	m.beginRebuild(s, w)
}

// twice takes a second delivery from the budget if another worker works on the key. again reports whether one does,
// possible whether the step is possible.
func (m *model) twice(n *state, w int, key uint8) (again, possible bool) {
	if !n.held(w, key) {
		return false, true
	}
	if n.left.dup == 0 {
		return true, false
	}
	n.left.dup--
	return true, true
}

// deliver delivers an event of the stream. The worker reads the stored reply, unless this is the first delivery: then
// it assumes that there is none (rule 11).
func (m *model) deliver(s *state, w int, e uint8) {
	if has(s.acked, e) {
		return
	}
	n := *s
	again, possible := m.twice(&n, w, e)
	if !possible {
		return
	}
	first := !has(s.delivered, e)
	n.delivered |= bit(e)
	k := &n.workers[w]
	*k = worker{key: e}
	if m.off[ruleLookLast] {
		k.looked = s.record[0]
	}
	what := "takes %s"
	if first {
		k.current = s.replies[e].status == unanswered
		m.enter(&n, w)
	} else {
		m.readStored(&n, w)
		what = "takes %s again and reads what is stored"
	}
	m.add(&n, w, what, onEvent(e)).fault = again
}

// readStored reads the event's stored reply: a final one stands; otherwise the handling begins, or begins
// anew.
func (m *model) readStored(n *state, w int) {
	k := &n.workers[w]
	stored := n.replies[k.key].status
	*k = worker{
		key: k.key, current: true, served: k.served, looked: k.looked, waited: k.waited || stored == waiting,
		pool: k.pool, asked: k.asked, // where it may have a place
	}
	if stored == waiting {
		k.since = n.replies[k.key].sequence
	}
	if stored.final() {
		k.at = acking
		if m.events[k.key].kind == provision && stored != assigned && !m.off[ruleTakeBack] {
			k.at = takingBack
		}
		return
	}
	m.enter(n, w)
}

// enter starts the decision.
func (m *model) enter(n *state, w int) {
	k := &n.workers[w]
	v := m.events[k.key]
	switch v.kind {
	case deprovision:
		k.at = releasing
		if m.directory {
			k.at = departing
		}
	case release:
		k.at, k.pool = releaseReading, n.labels[v.of].at()
	default:
		if has(n.unmatched, k.key) {
			k.at, k.outcome, k.placeless = publishing, rejected, true
			return
		}
		k.tenant = m.tenants[v.of]
		if k.at = asking; m.directory {
			k.at = locating
			return
		}
		k.barred = m.bars(n, k.tenant, 0)
	}
}

// bars returns the tenant's and the unclaimed bindings of the pool that must not gain runtimes, by the cache.
func (m *model) bars(s *state, tenant, pool uint8) uint8 {
	barred := uint8(0)
	for b := range uint8(m.bindings) {
		l := s.labels[b]
		if l.isIn(pool) && (l.tenant == tenant || l.tenant == 0) && (l.cordoned || m.internalBinding(b)) {
			barred |= bit(b)
		}
	}
	return barred
}

// takeBack undoes what the request has in Redis, because its final reply says otherwise (rule 11).
func (m *model) takeBack(s *state, w int) {
	n := *s
	k := &n.workers[w]
	v := m.events[k.key]
	if m.directory && !k.asked {
		at, known, notBuilt := m.dirs.look(n.bucket, v.of)
		if notBuilt {
			m.giveUp(s, w)
			return
		}
		if !known || at.pool == gone {
			k.at = acking
			m.add(&n, w, "finds that the stored reply stands", thing{})
			return
		}
		k.pool = at.pool - 1
	}
	r := m.redis.run(&n.pools[k.pool], call{script: takeBack, runtime: v.of, request: k.key, tenant: m.tenants[v.of]})
	if r.notBuilt {
		m.giveUp(s, w)
		return
	}
	k.at = acking
	m.script(&n, w, "takes back what %s holds, if anything", onEvent(k.key), r)
}

// publish stores the final reply, if the subject's last message is still the one that was read when the
// handling began. Otherwise it reads the new one (rule 11).
func (m *model) publish(s *state, w int) {
	n := *s
	k := &n.workers[w]
	e := k.key
	stored := s.replies[e].status
	if !k.current && !m.off[ruleLast] && (stored.final() || !m.off[ruleOver]) {
		m.readStored(&n, w)
		m.add(&n, w, "is refused its reply to %s and reads what is stored", onEvent(e))
		return
	}
	r := reply{status: k.outcome, sequence: k.sequence, pool: k.pool + 1, binding: k.on}
	switch {
	case m.events[e].kind == release:
		r = reply{status: k.outcome}
	case k.placeless:
		r.pool = 0
	}
	n.answer(e, r)
	if k.at = acking; m.events[e].kind == provision && k.outcome != assigned && !m.off[ruleTakeBack] {
		k.at = takingBack
	}
	broken := ""
	if stored.final() {
		broken = "I7 OneAnswer: a second final reply"
	}
	m.add(&n, w, publishTexts[k.outcome], onEvent(e)).broken = broken
}

var publishTexts = [...]string{
	assigned: "answers %s: assigned", released: "answers %s: released", superseded: "answers %s: Superseded",
	exhausted: "answers %s: PoolExhausted", returned: "answers %s: returned", notDirty: "answers %s: NotDirty",
	inUse: "answers %s: BindingInUse", unknown: "answers %s: UnknownBinding", stale: "answers %s: StaleRelease", rejected: "answers %s: NoMatchingRule",
}

// ack settles the event, after a final reply or a recorded wait.
func (m *model) ack(s *state, w int) {
	n := *s
	k := n.workers[w]
	if !k.served {
		n.acked |= bit(k.key)
	}
	if s.replies[k.key].status.final() && (k.waited || k.served) {
		n.room &^= bit(k.key)
	}
	if n.workers[w] = (worker{}); m.off[ruleRecord] && s.replies[k.key].status == waiting && !has(s.room, k.key) {
		n.workers[w] = k
		n.workers[w].at = entering
	}
	what := "acknowledges %s"
	if k.served {
		what = "takes %s out of the waiting room"
	}
	m.add(&n, w, what, onEvent(k.key))
}
