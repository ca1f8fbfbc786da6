package main

// The places of a rebuild are the pools and the directory.
const directoryPlace = 2

func (m *model) missing(s *state) uint8 {
	set := uint8(0)
	for p := range m.pools {
		if !m.counts(s, s.pools[p].site, p) {
			set |= bit(p)
		}
	}
	if m.directory && !m.counts(s, s.bucket.site, directoryPlace) {
		set |= bit(directoryPlace)
	}
	return set
}

// counts reports whether a place needs no rebuild: it is built, and its epoch is in force.
func (m *model) counts(s *state, at site, place uint8) bool {
	return at.built() && (!m.replicated || m.off[ruleTakeOver] || at.epoch == s.record[place])
}

// beginRebuild writes a new token (rule 13a). It replaces the token of a rebuild that is old, or whose worker
// died.
func (m *model) beginRebuild(s *state, w int) {
	places := m.missing(s)
	if places == 0 {
		return
	}
	n := *s
	key := rebuildKey + uint8(m.at)
	again, possible := m.twice(&n, w, key)
	if !possible || m.replicated && s.left.rebuilds == 0 {
		return
	}
	n.tokens++
	if m.replicated {
		n.left.rebuilds--
		n.depose(places)
	}
	m.redis.writeToken(&n, places, n.tokens)
	n.workers[w] = worker{at: sealing, key: key, made: n.tokens, places: places}
	if m.replicated {
		n.workers[w].version = s.version
		if n.workers[w].at = recording; m.off[ruleRecordFirst] {
			m.gatherAtOnce(&n, w)
			n.workers[w].at = recording
		}
		m.add(&n, w, "begins to rebuild server "+string("AB"[m.at])+" of Redis under a token of its own", thing{}).fault = again
		return
	}
	if m.stepwise {
		if m.off[ruleOrder] {
			n.workers[w].at = ledgerReading
		}
		m.add(&n, w, "begins to rebuild Redis under a token of its own", thing{}).fault = again
		return
	}
	m.gatherAtOnce(&n, w)
	m.add(&n, w, "begins to rebuild Redis: token, seal, ledger, labels, Shoots", thing{}).fault = again
}

// depose deletes the places whose epochs are not in force.
func (s *state) depose(places uint8) {
	for p := range s.pools {
		if has(places, uint8(p)) {
			s.pools[p] = pool{site: site{token: s.pools[p].token}}
		}
	}
	if has(places, directoryPlace) {
		s.bucket = bucket{site: site{token: s.bucket.token}}
	}
}

func (m *model) gatherAtOnce(n *state, w int) {
	m.sealAll(n)
	k := &n.workers[w]
	k.read, k.at = m.found.id(gathered{replies: n.replies, labels: n.labels, shoots: n.shoots}), installing
}

// unsettled reports whether an event has to be sealed: it is published and not answered.
func unsettled(s *state, e uint8) bool {
	open := has(s.published, e) && !has(s.acked, e) || has(s.room, e)
	return open && !s.replies[e].status.final()
}

func (m *model) sealAll(n *state) {
	for e := range uint8(len(m.events)) {
		if unsettled(n, e) && !m.off[ruleSeal] {
			sealOne(n, e)
		}
	}
}

// sealOne publishes a non-final message, so that an earlier decision on the event cannot be published (rule
// 13b). A waiting reply is published again.
func sealOne(n *state, e uint8) {
	r := reply{status: sealed}
	if n.replies[e].status == waiting {
		r = n.replies[e]
	}
	n.answer(e, r)
}

func (m *model) seal(s *state, w int) {
	n := *s
	k := &n.workers[w]
	if !m.stepwise {
		m.gatherAtOnce(&n, w)
		m.add(&n, w, "seals, and reads ledger, labels and Shoots", thing{})
		return
	}
	for e := k.next; e < uint8(len(m.events)); e++ {
		if unsettled(s, e) && !m.off[ruleSeal] {
			sealOne(&n, e)
			k.next = e + 1
			m.add(&n, w, "seals %s", onEvent(e))
			return
		}
	}
	k.next = 0
	if m.off[ruleOrder] {
		m.takeIn(&n, w, labelsReading)
		return
	}
	m.takeIn(&n, w, ledgerReading)
}

// takeIn makes one of the reads: of the ledger, then of the labels, then of the Shoots.
func (m *model) takeIn(n *state, w int, read at) {
	k := &n.workers[w]
	g := m.found.all[k.read]
	var what string
	switch read {
	case ledgerReading:
		g.replies, what, k.at = n.replies, "reads the ledger to its end", labelsReading
		if m.off[ruleOrder] {
			k.at = sealing
		}
	case labelsReading:
		g.labels, what, k.at = n.labels, "lists the bindings", shootsReading
	default:
		g.shoots, what, k.at = n.shoots, "lists the Shoots", installing
	}
	k.read = m.found.id(g)
	m.add(n, w, what, thing{})
}

func (m *model) readLedger(s *state, w int) { n := *s; m.takeIn(&n, w, ledgerReading) }
func (m *model) readLabels(s *state, w int) { n := *s; m.takeIn(&n, w, labelsReading) }
func (m *model) readShoots(s *state, w int) { n := *s; m.takeIn(&n, w, shootsReading) }

// install installs the places if the token is unchanged (rule 13e): in one step, or if stepwise one by one in any order.
func (m *model) install(s *state, w int) {
	if !m.stepwise {
		n := *s
		what := ""
		for p := range uint8(directoryPlace + 1) {
			if has(s.workers[w].places, p) {
				what = m.installOne(&n, w, p)
			}
		}
		m.add(&n, w, what, thing{})
		return
	}
	for p := range uint8(directoryPlace + 1) {
		if has(s.workers[w].places, p) {
			n := *s
			what := m.installOne(&n, w, p)
			m.add(&n, w, what, thing{})
		}
	}
}

// installOne installs a place, and describes the outcome.
func (m *model) installOne(n *state, w int, p uint8) string {
	k := &n.workers[w]
	installed := m.installed(n, p, k.made, k.read)
	if k.places &^= bit(p); k.places == 0 {
		*k = worker{}
	}
	if !installed {
		return "does not install, since the token is another's"
	}
	return installTexts[p]
}

var installTexts = [...]string{"installs the pool", "installs the second pool", directoryPlace: "installs the directory"}

func (m *model) installed(n *state, p, token uint8, read uint16) bool {
	if p == directoryPlace {
		if m.off[ruleToken] {
			n.bucket.token = token
		}
		return m.dirs.install(&n.bucket, token, m.derived(read).directory)
	}
	pool := &n.pools[p]
	if m.off[ruleToken] && !pool.built() {
		pool.token = token
	}
	machine := m.redis.thaw(*pool)
	if !machine.Install(epochName(token), m.derived(read).snapshots[m.poolName(p)]) || pool.built() {
		return false
	}
	*pool = m.redis.freeze(machine, 0)
	return true
}
