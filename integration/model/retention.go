package main

import "github.com/hap-worker/hap-worker/engine/account"

// retain starts to forget a runtime whose release is in force, and which no event in flight concerns (rule
// 14). Ages are not modelled: the release may be old enough at any time.
func (m *model) retain(s *state, w int, r uint8) {
	last, found := m.released(s, r)
	if !found || m.missing(s) != 0 || !m.forgettable(s, r) || m.inHand(s, r) {
		return
	}
	if m.inMotion(s, r) && !m.off[ruleBacklog] {
		return
	}
	n := *s
	again, possible := m.twice(&n, w, retainKey+r)
	if !possible {
		return
	}
	n.left.retains--
	asked := uint8(0) // events so far
	for e, v := range m.events {
		if v.kind != release && v.of == r && has(s.published, uint8(e)) {
			asked |= bit(uint8(e))
		}
	}
	n.workers[w] = worker{at: purging, barred: asked, key: retainKey + r, next: last, read: m.found.id(gathered{replies: s.replies})}
	m.add(&n, w, "finds that %s was released long ago", onRuntime(r)).fault = again
}

// released returns the event whose reply is the release in force.
func (m *model) released(s *state, r uint8) (last uint8, found bool) {
	highest := uint8(0)
	for i, v := range m.events {
		if reply := s.replies[i]; v.kind != release && v.of == r && reply.sequence >= highest && reply.status != unanswered {
			highest = reply.sequence
			if reply.status == released {
				last, found = uint8(i), true
			} else if reply.status != superseded {
				found = false
			}
		}
	}
	return last, found
}

// forgettable reports whether the runtime is gone or unknown in Redis, and its last account neither drains nor
// waits for its dirty label.
func (m *model) forgettable(s *state, r uint8) bool {
	for p := range m.pools {
		rt := s.pools[p].runtimes[r]
		if rt.state != unknownRuntime && rt.state != goneRuntime {
			return false
		}
		if b := int(rt.binding) - 1; b >= 0 {
			left := s.pools[p].bindings[b].state
			if left == draining || left == dirtying && !s.labels[b].dirty {
				return false
			}
		}
	}
	return true
}

// inHand reports whether a worker handles an event of the runtime.
func (m *model) inHand(s *state, r uint8) bool {
	for i := range s.workers {
		k := s.workers[i]
		if k.at != idle && k.key < sweepKey && m.events[k.key].kind != release && m.events[k.key].of == r {
			return true
		}
	}
	return false
}

// purge deletes the runtime's replies that were read: first all but the release, and then, if everything is built
// and the runtime is still forgettable, the release. Later requests for the runtime count as new.
func (m *model) purge(s *state, w int) {
	n := *s
	k := &n.workers[w]
	r := k.key - retainKey
	if k.at == purgingRest && (m.missing(s) != 0 || !m.forgettable(s, r)) {
		*k = worker{}
		m.add(&n, w, "does not forget %s yet", onRuntime(r))
		return
	}
	n.forgotten |= k.barred
	read := m.found.all[k.read].replies
	for i, v := range m.events {
		e := uint8(i)
		if v.kind == release || v.of != r {
			continue
		}
		if s.replies[e] == read[e] && (e != k.next || k.at == purgingRest) {
			n.answer(e, reply{})
		}
	}
	what := "purges what the ledger has of %s before its release"
	if k.at++; k.at == droppingEntry {
		what = "purges the release of %s"
		if m.off[ruleEntryFirst] {
			k.at = droppingRecord
		}
	}
	m.add(&n, w, what, onRuntime(r))
}

// dropEntry removes the runtime from the directory, if its entry or its record in the pool is a tombstone.
func (m *model) dropEntry(s *state, w int) {
	n := *s
	k := &n.workers[w]
	r := k.key - retainKey
	if at := s.bucket.places[r]; s.bucket.built() && (at.pool == gone || at.pool > 0 && (m.off[ruleEntryFirst] || s.pools[at.pool-1].runtimes[r].state == goneRuntime)) {
		n.bucket.places[r] = place{}
	}
	if k.at = droppingRecord; m.off[ruleEntryFirst] {
		*k = worker{}
	}
	m.add(&n, w, "drops the entry of %s in the directory", onRuntime(r))
}

// dropRecord removes the tombstone when no worker can still use the entry. If the ledger has a new reply to
// the runtime, it restores the entry.
func (m *model) dropRecord(s *state, w int) {
	n := *s
	k := &n.workers[w]
	r := k.key - retainKey
	if m.inHand(s, r) && !m.off[ruleSettled] {
		return
	}
	what := "drops the record of %s"
	for p := range m.pools {
		rt := s.pools[p].runtimes[r]
		switch {
		case rt.state != goneRuntime || !s.bucket.built():
		case m.known(s, r):
			if _, notBuilt := m.dirs.locate(&n.bucket, r, p); !notBuilt {
				what = "finds that the ledger knows %s again, and puts its entry back"
			}
		case s.bucket.places[r].pool != p+1 || m.off[ruleEntryFirst]:
			m.redis.run(&n.pools[p], call{script: forget, runtime: r, sequence: rt.sequence})
		}
	}
	if *k = (worker{}); m.off[ruleEntryFirst] {
		*k = worker{at: droppingEntry, key: retainKey + r}
	}
	m.add(&n, w, what, onRuntime(r))
}

// known reports whether the ledger has a reply to the runtime.
func (m *model) known(s *state, r uint8) bool {
	for e, v := range m.events {
		if v.kind != release && v.of == r && s.replies[e].status != unanswered {
			return true
		}
	}
	return false
}

// misled reports whether the runtime is assigned in a pool that the directory does not name.
func (m *model) misled(s *state, r uint8) bool {
	for p := range m.pools {
		if m.directory && s.pools[p].runtimes[r].state == assignedRuntime && s.bucket.places[r].pool != p+1 {
			return true
		}
	}
	return false
}

func (r *redis) forget(p *account.Pool, c call) (bool, error) {
	return p.Forget(r.ids[c.runtime], int64(c.sequence))
}
