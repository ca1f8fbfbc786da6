package main

import "github.com/hap-worker/hap-worker/engine/account"

// serve serves a request from the waiting room (rule 12). A request that would only wait on is not tried.
func (m *model) serve(s *state, w int, e uint8) {
	if !has(s.room, e) || !m.servable(s, e) {
		return
	}
	n := *s
	again, possible := m.twice(&n, w, e)
	if !possible {
		return
	}
	n.workers[w] = worker{key: e, served: true, waited: true}
	m.readStored(&n, w)
	m.add(&n, w, "serves %s, which waits", onEvent(e)).fault = again
}

// servable reports whether serving the request would do more than let it wait on.
func (m *model) servable(s *state, e uint8) bool {
	if s.replies[e].status.final() || has(s.expired, e) || has(s.unmatched, e) {
		return true
	}
	runtime := m.events[e].of
	p := s.pools[m.poolFor(s, e)]
	return p.built() && p.runtimes[runtime].state != waitingRuntime || m.fits(s, e)
}

// fits reports whether there is an account for a request, stated independently of the protocol: one of its
// tenant's with room, or an unclaimed one.
func (m *model) fits(s *state, e uint8) bool {
	tenant := m.tenants[m.events[e].of]
	at := m.poolFor(s, e)
	single := m.limit == 0
	own, spare, stuck := false, false, false
	for b := range uint8(m.bindings) {
		rec, l := s.pools[at].bindings[b], s.labels[b]
		if !l.isIn(at) || s.pools[at].paused {
			continue
		}
		if m.shared {
			own = own || !l.dirty && !l.cordoned
			continue
		}
		barred := l.tenant == tenant && (l.cordoned || m.internalBinding(b))
		mine := rec.tenant == tenant && rec.state >= claiming && rec.state <= draining
		switch {
		case mine && barred:
			stuck = stuck || single && rec.count > 0
		case mine:
			own = own || single || rec.count < m.limit
		case rec.state == free && rec.count == 0 && !l.dirty && !l.cordoned && !m.internalBinding(b):
			spare = spare || l.tenant == 0 || l.tenant == tenant
		}
	}
	return (own || spare) && !stuck
}

// poolFor is the index of the pool that decides a request.
func (m *model) poolFor(s *state, e uint8) uint8 {
	if at := s.bucket.places[m.events[e].of]; m.directory && at.pool != 0 && at.pool != gone {
		return at.pool - 1
	}
	return m.events[e].pool
}

// turn reports whether it is the request's turn: it is the first in the queue, or the first can have no
// account, or has no request in the room.
func (m *model) turn(s *state, at, e uint8) bool {
	p := s.pools[at]
	first := m.redis.run(&p, call{script: queue}).first
	if first == 0 || first-1 == m.events[e].of {
		return true
	}
	for o := range uint8(len(m.events)) {
		if m.events[o].kind == provision && m.events[o].of == first-1 && has(s.room, o) {
			return !m.fits(s, o)
		}
	}
	return true
}

// readAgain reads whether a request that waits anew was answered meanwhile.
func (m *model) readAgain(s *state, w int) {
	n := *s
	k := &n.workers[w]
	if s.replies[k.key].status.final() {
		m.readStored(&n, w)
	} else {
		*k = worker{}
	}
	m.add(&n, w, "reads once more what is stored of %s", onEvent(s.workers[w].key))
}

// enterRoom stores the request in the waiting room before its event is acknowledged, so that it is never
// lost.
func (m *model) enterRoom(s *state, w int) {
	n := *s
	k := &n.workers[w]
	e := k.key
	n.room |= bit(e)
	k.waited, k.at = true, sayingWaiting
	if m.off[ruleRecord] && has(s.acked, e) {
		*k = worker{}
	} else if m.off[ruleRecord] && s.replies[e].status == waiting && k.current {
		k.at = acking
	}
	m.add(&n, w, "puts %s into the waiting room", onEvent(e))
}

// sayWaiting publishes the waiting reply.
func (m *model) sayWaiting(s *state, w int) {
	n := *s
	k := &n.workers[w]
	e := k.key
	if !k.current {
		m.readStored(&n, w)
		m.add(&n, w, "is refused its waiting for %s and reads what is stored", onEvent(e))
		return
	}
	n.answer(e, reply{status: waiting, pool: k.pool + 1, sequence: k.sequence})
	k.at = acking
	m.add(&n, w, "answers %s: waiting", onEvent(e))
}

// refuseRequest lets a script decide about the refusal at the deadline.
func (m *model) refuseRequest(s *state, w int) {
	n := *s
	k := &n.workers[w]
	e := k.key
	r := m.redis.run(&n.pools[k.pool], call{script: refuse, runtime: m.events[e].of, request: e, tenant: m.tenants[m.events[e].of]})
	if r.notBuilt {
		m.giveUp(s, w)
		return
	}
	k.sequence, k.at = r.sequence, publishing
	what := "refuses %s in Redis"
	switch r.outcome {
	case account.Assigned:
		*k = worker{}
		what = "wants to refuse %s: somebody serves it, it comes again"
	case account.Superseded:
		k.outcome = superseded
	default:
		k.outcome = exhausted
	}
	m.script(&n, w, what, onEvent(e), r)
}

// supersede answers the waiting requests of a runtime that is gone (rule 7).
func (m *model) supersede(s *state, w int) {
	n := *s
	k := &n.workers[w]
	of := m.events[k.key].of
	for i, v := range m.events {
		e := uint8(i)
		if v.kind != provision || v.of != of || !has(s.room, e) {
			continue
		}
		if !s.replies[e].status.final() {
			n.answer(e, reply{status: superseded, pool: k.pool + 1, sequence: k.sequence})
		}
		n.room &^= bit(e)
	}
	m.afterSupersede(k)
	m.add(&n, w, "ends the waiting of %s, if it waits", onRuntime(of))
}
