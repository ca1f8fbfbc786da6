package main

// depart looks up the pool of a runtime that is deprovisioned. If the runtime is unknown, the
// directory records that it is gone.
func (m *model) depart(s *state, w int) {
	n := *s
	k := &n.workers[w]
	of := m.events[k.key].of
	at, notBuilt := m.dirs.depart(&n.bucket, of, m.off[ruleDepart])
	if notBuilt {
		m.giveUp(s, w)
		return
	}
	if at.pool == gone || at.pool == 0 {
		k.at, k.outcome, k.sequence, k.placeless = publishing, released, at.sequence, true
		m.add(&n, w, "finds in the directory that %s has no pool", onRuntime(of))
		return
	}
	k.at, k.pool = releasing, at.pool-1
	m.add(&n, w, "looks up the pool of %s", onRuntime(of))
}

// releaseRuntime removes the runtime from its binding (rule 7).
func (m *model) releaseRuntime(s *state, w int) {
	n := *s
	k := &n.workers[w]
	of := m.events[k.key].of
	p := &n.pools[k.pool]
	if was := p.runtimes[of].state; p.built() && m.off[ruleGone] && was != assignedRuntime && was != goneRuntime {
		k.at, k.outcome, k.sequence = publishing, released, p.sequence
		m.add(&n, w, "finds nothing to release of %s", onRuntime(of))
		return
	}
	r := m.redis.run(p, call{script: releaseRuntime, runtime: of})
	if r.notBuilt {
		m.giveUp(s, w)
		return
	}
	k.outcome, k.sequence, k.on = released, r.sequence, r.binding
	if r.binding > 0 {
		k.binding, k.tenant, k.generation = r.binding-1, r.tenant, r.generation
	}
	// A tenant other than 0 means that the account has to become dirty.
	if r.binding == 0 || r.count > 0 || r.state < draining || m.internalBinding(k.binding) {
		k.tenant = 0
	}
	if k.at = superseding; !m.mayWait(s, of) {
		m.afterSupersede(k)
	}
	m.script(&n, w, "releases %s in Redis", onRuntime(of), r)
}

// mayWait reports whether a provision of the runtime has no final reply yet.
func (m *model) mayWait(s *state, of uint8) bool {
	for e, v := range m.events {
		if v.kind == provision && v.of == of && has(s.published, uint8(e)) && !s.replies[e].status.final() {
			return true
		}
	}
	return false
}

func (m *model) afterSupersede(k *worker) {
	if k.at = publishing; k.tenant != 0 {
		k.at = inspecting
	}
}

// inspect reads the binding and the Shoots (rule 8).
func (m *model) inspect(s *state, w int) {
	n := *s
	k := &n.workers[w]
	on := onBinding(k.binding)
	n.look(w, k.binding, true)
	l := k.view
	elsewhere := !l.isIn(k.pool) && !m.off[ruleElsewhere]
	same := l.tenant == k.tenant && l.generation <= k.generation || l.tenant == 0 && l.generation < k.generation
	switch {
	case s.refers(k.binding) && !m.off[ruleShoots], l.dirty, l.deleted, elsewhere, !same && !m.off[ruleOwn]:
		m.marked(k)
	case m.off[ruleDirtying]:
		k.at = dirtyWriting
	default:
		k.at = dirtyAsking
	}
	m.add(&n, w, "reads %s and the Shoots", on)
}

// marked ends the marking: a deprovision goes on to its answer, and a sweep ends.
func (m *model) marked(k *worker) {
	if k.key >= sweepKey {
		*k = worker{}
		return
	}
	k.at = publishing
}

func (m *model) askDirty(s *state, w int) {
	n := *s
	k := &n.workers[w]
	on := onBinding(k.binding)
	r := m.redis.run(&n.pools[k.pool], call{script: beginDirtying, binding: k.binding, generation: k.generation})
	if r.notBuilt {
		m.giveUp(s, w)
		return
	}
	switch k.at = dirtyWriting; {
	case !r.ok:
		m.marked(k)
		m.script(&n, w, "asks whether %s may become dirty: no", on, r)
		return
	case r.pristine:
		k.at = unclaiming
		m.script(&n, w, "asks whether %s may become dirty: nobody was answered with it, it goes back", on, r)
		return
	}
	if m.shoots && !m.off[ruleRelook] && !m.off[ruleShoots] {
		k.at = relooking
	}
	m.script(&n, w, "asks whether %s may become dirty: yes", on, r)
}

// lookAgain looks for a Shoot that appeared after the first look: its runtime was assigned
// and removed before Redis permitted the mark. The sweep then tries again.
func (m *model) lookAgain(s *state, w int) {
	n := *s
	k := &n.workers[w]
	on := onBinding(k.binding)
	if k.at = dirtyWriting; s.refers(k.binding) {
		m.marked(k)
	}
	m.add(&n, w, "reads the Shoots of %s again", on)
}

func (m *model) writeDirty(s *state, w int) {
	n := *s
	k := s.workers[w]
	on := onBinding(k.binding)
	if !k.fresh {
		n.workers[w].at = inspecting
		m.add(&n, w, "cannot mark %s dirty: somebody has written since", on)
		return
	}
	l := k.view
	l.dirty = true
	if !m.off[ruleMark] {
		l.tenant, l.generation = k.tenant, k.generation
	}
	m.write(&n, k.binding, l)
	if s.left.lost > 0 {
		lost := n
		lost.left.lost--
		lost.workers[w].at = inspecting
		m.fault(&lost, w, "marks %s dirty, and does not hear of it", on)
	}
	m.marked(&n.workers[w])
	m.add(&n, w, "marks %s dirty", on)
}

// unclaim removes the tenant's name from an account that no answer has assigned.
func (m *model) unclaim(s *state, w int) {
	n := *s
	k := s.workers[w]
	on := onBinding(k.binding)
	if !k.fresh {
		n.workers[w].at = inspecting
		m.add(&n, w, "cannot unclaim %s: somebody has written since", on)
		return
	}
	l := k.view
	l.tenant, l.in, l.whose = 0, 0, 0
	if !m.off[ruleMark] {
		l.generation = k.generation
	}
	m.write(&n, k.binding, l)
	if s.left.lost > 0 {
		lost := n
		lost.left.lost--
		lost.workers[w].at = inspecting
		m.fault(&lost, w, "unclaims %s, and does not hear of it", on)
	}
	n.workers[w].at = unclaimFreeing
	m.add(&n, w, "unclaims %s", on)
}

func (m *model) freeUnclaimed(s *state, w int) {
	n := *s
	k := &n.workers[w]
	on := onBinding(k.binding)
	r := m.redis.run(&n.pools[k.pool], call{script: markFreed, binding: k.binding, generation: k.generation})
	if r.notBuilt {
		m.giveUp(s, w)
		return
	}
	m.marked(k)
	m.script(&n, w, "frees %s in Redis", on, r)
}

// readReleased reads the account to release (rule 9).
func (m *model) readReleased(s *state, w int) {
	n := *s
	k := &n.workers[w]
	e, b := k.key, m.events[k.key].of
	n.look(w, b, true)
	l := k.view
	k.pool = l.at()
	k.generation = s.freed[e]
	if m.genless {
		k.generation = l.generation
	}
	answer := func(o status) { k.at, k.outcome = publishing, o }
	switch {
	case l.deleted:
		answer(unknown)
	case l.releasedBy == e+1 && !m.off[ruleReleased]:
		if k.at = releaseFreeing; !l.unclaimed() {
			answer(returned)
		}
	case !m.genless && l.generation != k.generation && !m.off[ruleGeneration]:
		answer(stale)
	case !l.dirty:
		answer(notDirty)
	default:
		k.at = releaseCounting
	}
	m.add(&n, w, "reads %s, which is to be released", onBinding(b))
}

func (m *model) countReleased(s *state, w int) {
	n := *s
	k := &n.workers[w]
	r := m.redis.run(&n.pools[k.pool], call{script: countInUse, binding: k.binding})
	if r.notBuilt {
		m.giveUp(s, w)
		return
	}
	if k.at = releaseWriting; r.count > 0 {
		k.at, k.outcome = publishing, inUse
	}
	m.script(&n, w, "counts who is on %s", onBinding(k.binding), r)
}

func (m *model) writeReleased(s *state, w int) {
	n := *s
	k := s.workers[w]
	on := onBinding(k.binding)
	if !k.fresh {
		n.workers[w].at = releaseReading
		m.add(&n, w, "cannot clean %s: somebody has written since", on)
		return
	}
	l := k.view
	l.tenant, l.dirty, l.releasedBy = 0, false, k.key+1
	l.in, l.whose = 0, 0
	m.write(&n, k.binding, l)
	if s.left.lost > 0 {
		lost := n
		lost.left.lost--
		lost.workers[w].at = releaseReading
		m.fault(&lost, w, "takes tenant and dirty off %s, and does not hear of it", on)
	}
	n.workers[w].at = releaseFreeing
	broken := ""
	if !m.genless && k.view.generation != s.freed[k.key] {
		broken = "I5 NoDirty: an account is returned that was not cleaned since its last claim"
	}
	m.add(&n, w, "takes tenant and dirty off %s", on).broken = broken
}

func (m *model) free(s *state, w int) {
	n := *s
	k := &n.workers[w]
	p := &n.pools[k.pool]
	c := call{script: markFreed, binding: k.binding, generation: k.generation}
	if m.off[ruleFreed] {
		c.generation = p.bindings[k.binding].generation
	}
	r := m.redis.run(p, c)
	if r.notBuilt {
		m.giveUp(s, w)
		return
	}
	k.at, k.outcome = publishing, returned
	what := "frees %s in Redis"
	if !r.ok {
		what = "wants to free %s in Redis: that claim is over"
	}
	m.script(&n, w, what, onBinding(k.binding), r)
}
