package main

// server is the content of the Redis server that is not in the state's pools and bucket. A replica has no
// separate content: its data counts on no other server (rule 1).
type server struct {
	pools  [2]pool
	bucket bucket
}

// servers numbers all contents of the other server, so that a state stores only the number.
type servers struct {
	ids map[server]uint16
	all []server
}

func newServers() *servers {
	return &servers{ids: map[server]uint16{{}: 0}, all: make([]server, 1)}
}

func (v *servers) id(of server) uint16 {
	id, known := v.ids[of]
	if !known {
		if id = uint16(len(v.all)); int(id) != len(v.all) {
			panic("a server can have more than 65536 different things here: explore a smaller configuration")
		}
		v.ids[of], v.all = id, append(v.all, of)
	}
	return id
}

// The Redis servers, as bits of the set of those that consider themselves master.
const (
	serverA = 0
	serverB = 1
)

// swap exchanges the contents of the servers: the next steps run on the other one.
func (m *model) swap(s *state) {
	there := m.servers.all[s.other]
	s.other = m.servers.id(server{s.pools, s.bucket})
	s.pools, s.bucket = there.pools, there.bucket
}

// failover adds fail-overs: a server is promoted beside a master that does not know it, or becomes a replica
// again and loses its content.
func (m *model) failover(s *state) {
	m.comesLate(s)
	for i, name := range [...]string{"A", "B"} {
		master := has(s.masters, uint8(i))
		switch {
		case !master && s.left.promote > 0:
			n := *s
			n.left.promote--
			n.masters |= bit(uint8(i))
			if m.off[ruleHistory] {
				m.replace(&n, i, m.servers.all[m.has(s, 1-i)])
			}
			m.fault(&n, -1, "server "+name+" OF REDIS IS PROMOTED, and the other one does not know", thing{})
		case master && s.masters == bit(serverA)|bit(serverB) && s.left.demote > 0:
			n := *s
			n.left.demote--
			n.masters &^= bit(uint8(i))
			m.replace(&n, i, server{})
			m.fault(&n, -1, "server "+name+" of Redis becomes a replica", thing{})
		}
	}
}

// has returns the number of a server's content.
func (m *model) has(s *state, i int) uint16 {
	if i == serverB {
		return s.other
	}
	return m.servers.id(server{s.pools, s.bucket})
}

func (m *model) replace(s *state, i int, by server) {
	if i == serverB {
		s.other = m.servers.id(by)
		return
	}
	s.pools, s.bucket = by.pools, by.bucket
}

// workOnBoth adds the workers' steps on each server that considers itself master: each script may reach
// either. Steps without a script are added once.
func (m *model) workOnBoth(s *state) {
	some := m.missing(m.inForce(s)) == 0
	m.second = false
	for i := range 2 {
		if !has(s.masters, uint8(i)) {
			continue
		}
		on := *s
		if i == serverB {
			m.swap(&on)
		}
		m.at = i
		from := len(m.out)
		m.work(&on)
		here := m.missing(&on) == 0
		for n := from; n < len(m.out); n++ {
			v := &m.out[n]
			m.look(&on, v)
			m.mayBegin(&on, v, some, here)
			if i == serverB {
				m.swap(&v.next)
			}
		}
		m.second = true
	}
	m.second, m.at = false, serverA
}

// mayBegin makes the start of an item a fault if it leads nowhere: while a place is in force on no server, or, of
// what a worker serves or sweeps, on a server that is not in force.
func (m *model) mayBegin(on *state, v *move, some, here bool) {
	if k := v.next.workers[v.who]; on.workers[v.who].at != idle || k.key >= rebuildKey {
		return
	} else if !some || !here && (k.served || k.key >= sweepKey) {
		v.fault = true
	}
}

// scripts are the steps that are added for each server of Redis. deciding are those that permit an effect outside of Redis.
var scripts, deciding = stepSet(
	locating, asking, confirming, revoking, refusing, takingBack, departing, releasing, superseding, dirtyAsking, unclaimFreeing,
	releaseCounting, releaseFreeing, observing, auditing, sealing, installing,
), stepSet(locating, asking, refusing, departing, releasing, superseding, dirtyAsking, releaseCounting)

type steps [installing + 1]bool

func stepSet(of ...at) (set steps) {
	for _, a := range of {
		set[a] = true
	}
	return set
}

// look ends the handling if the script's epoch is not in force. The record is read after the script; the
// version that fences the effect was read before the script (rule 15). The model reads the record at once: an
// epoch that is in force at a later read is in force at this one, too, so no effect is left out.
func (m *model) look(on *state, v *move) {
	k := &on.workers[v.who]
	if m.untrusted(on) && scripts[k.at] && k.key < rebuildKey {
		v.next = *on
		v.next.workers[v.who] = worker{}
		v.what, v.broken = "finds Redis not built and gives up for now", ""
		return
	}
	if !deciding[k.at] || v.next.workers[v.who].at == idle {
		return
	}
	epoch, place := on.pools[k.pool].epoch, k.pool
	if k.at == locating || k.at == departing {
		epoch, place = on.bucket.epoch, directoryPlace
	}
	if !m.permitted(on, k, epoch, place) {
		v.next.workers[v.who] = worker{}
		v.what += "; another epoch is in force, it starts over"
	}
}

// untrusted reports whether the server's epoch is one that no record can name, on a server that has or had a
// replica.
func (m *model) untrusted(on *state) bool {
	return m.unfenced && m.at == serverA && on.pools[0].epoch == 1 && !(m.off[ruleReplicas] && has(on.masters, serverB))
}

func (m *model) permitted(s *state, k *worker, epoch, place uint8) bool {
	switch {
	case m.off[ruleLook] || m.unfenced && epoch == 1:
		return true
	case m.off[ruleLookLast]:
		return epoch == k.looked
	default:
		return s.record[place] == epoch || has16(s.shown, epoch)
	}
}

func has16(set uint16, n uint8) bool { return set&(1<<n) != 0 }

// inForce returns the state with the content of the server whose epochs are in force. A place that is in
// force nowhere is not built.
func (m *model) inForce(s *state) *state {
	if !m.replicated || m.unfenced && s.version == 0 {
		return s
	}
	n := *s
	b := m.servers.all[s.other]
	for p := range n.pools {
		if n.pools[p].epoch != s.record[p] {
			n.pools[p] = b.pools[p]
		}
		if n.pools[p].epoch != s.record[p] {
			n.pools[p] = pool{}
		}
	}
	if n.bucket.epoch != s.record[directoryPlace] {
		n.bucket = b.bucket
	}
	if n.bucket.epoch != s.record[directoryPlace] {
		n.bucket = bucket{}
	}
	return &n
}

// writeRecord makes the record name the token, if the record is unchanged since it was read, which was before
// the token was written (rule 15).
func (m *model) writeRecord(s *state, w int) {
	n := *s
	k := &n.workers[w]
	if k.version != s.version {
		*k = worker{}
		m.add(&n, w, "finds that another rebuild has written the record, and gives up", thing{})
		return
	}
	first := s.record == [directoryPlace + 1]uint8{}
	n.enforce(k.places, k.made)
	k.version = 0
	k.at = outlasting
	if m.off[ruleWait] || first {
		m.afterRecord(&n, w)
	}
	if s.left.lost > 0 {
		lost := n
		lost.left.lost--
		lost.late = write{k.made, k.places, s.version}
		m.fault(&lost, w, "has the record name its token, by a message that was sent twice", thing{})
	}
	m.add(&n, w, "has the record name its token", thing{})
}

// enforce makes the record name a token. A deposed leader of NATS may still show the old record.
func (s *state) enforce(places, token uint8) {
	for p := range uint8(directoryPlace + 1) {
		if has(places, p) {
			s.shown |= 1 << s.record[p] &^ 1
			s.record[p] = token
		}
	}
	s.version++
}

// comesLate adds a second delivery of a message to the record. It expects an old sequence, so it is refused.
func (m *model) comesLate(s *state) {
	if s.late == (write{}) {
		return
	}
	n := *s
	if n.late = (write{}); m.off[ruleVersion] {
		n.enforce(s.late.places, s.late.token)
	}
	m.fault(&n, -1, "the message to the record comes a second time", thing{})
}

// outlast waits until no deposed leader of NATS can show an older record.
func (m *model) outlast(s *state, w int) {
	n := *s
	n.shown &^= 1<<n.workers[w].made - 1
	m.afterRecord(&n, w)
	m.add(&n, w, "waits until a leader of NATS that was deposed shows no older record", thing{})
}

func (m *model) afterRecord(n *state, w int) {
	k := &n.workers[w]
	k.at = sealing
	if m.off[ruleRecordFirst] {
		k.at = installing
	}
}
