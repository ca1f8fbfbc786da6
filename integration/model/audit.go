package main

import (
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine/account"
)

// drifts numbers the drifts that audits have found.
type drifts struct {
	ids   map[account.Drift]uint16
	all   []account.Drift
	known map[audited][]account.Drift
}

// audited is the input of an audit.
type audited struct {
	pools                  [2]pool
	bucket                 bucket
	replies                [maxEvents]reply
	labels                 [maxBindings]label
	shoots                 [maxRuntimes]uint8
	published, acked, room uint8
}

func newDrifts() *drifts {
	return &drifts{ids: map[account.Drift]uint16{}, known: map[audited][]account.Drift{}}
}

func (d *drifts) id(of account.Drift) uint16 {
	id, known := d.ids[of]
	if !known {
		id = uint16(len(d.all))
		d.ids[of], d.all = id, append(d.all, of)
	}
	return id
}

// audit compares Redis with ledger, labels and Shoots by the code that workers audit with, and lets the
// worker repair one of the drifts. An audit reads everything twice, which is one step here. The number of audits
// is limited by a budget: otherwise an audit and a second delivery could undo each other's work for ever.
func (m *model) audit(s *state, w int) {
	if m.missing(s) != 0 {
		return
	}
	for _, d := range m.drifting(s) {
		on, key := onBinding(bindingIndex(d.Binding)-1), auditKey+maxRuntimes+bindingIndex(d.Binding)
		if d.Runtime != "" {
			r := uint8(slices.Index(m.redis.ids[:], d.Runtime))
			on, key = onRuntime(r), auditKey+r
		}
		n := *s
		again, possible := m.twice(&n, w, key)
		if !possible {
			continue
		}
		n.left.audits--
		n.workers[w] = worker{at: auditing, key: key, pool: uint8(slices.Index(poolNames[:], d.Pool)), read: m.redis.drifts.id(d)}
		m.add(&n, w, "audits, and finds "+string(d.Kind)+" of %s", on).fault = again
	}
}

// drifting returns the drifts that a repair mends, except for runtimes and bindings with an event in flight.
func (m *model) drifting(s *state) []account.Drift {
	of := audited{s.pools, s.bucket, s.replies, s.labels, s.shoots, s.published, s.acked, s.room}
	found, known := m.redis.drifts.known[of]
	if !known {
		found = m.compare(s)
		m.redis.drifts.known[of] = found
	}
	return found
}

func (m *model) compare(s *state) []account.Drift {
	g := m.gathering(gathered{replies: s.replies, labels: s.labels, shoots: s.shoots})
	for e, v := range m.events {
		if has(s.room, uint8(e)) {
			g.Waits(m.redis.ids[v.of])
		}
	}
	redis := g.Found()
	for p := range m.pools {
		pool, have := m.poolName(p), m.redis.snapshot(s.pools[p])
		for name, rec := range have.Bindings {
			redis.AddRecord(pool, name, rec)
		}
		for id, rt := range have.Runtimes {
			redis.AddRuntime(pool, id, rt)
			if rt.State == account.RuntimeAssigned && !m.directory {
				redis.AddPlace(id, account.Place{Pool: pool})
			}
		}
		redis.Built(pool, have.Sequence)
	}
	for r, at := range s.bucket.places {
		if at.pool != 0 && at.pool != gone {
			redis.AddPlace(m.redis.ids[r], account.Place{Pool: m.poolName(at.pool - 1)})
		}
	}
	found := redis.Compare()
	lacking := map[string]bool{}
	for _, d := range found {
		if d.Runtime != "" && d.Lacking != "" && m.moving(s, d) {
			lacking[d.Lacking] = true
		}
	}
	found = slices.DeleteFunc(found, func(d account.Drift) bool { return lacking[d.Binding] || m.moving(s, d) })
	for i := range found {
		found[i].Message = "" // it may contain numbers that make equal drifts differ
		found[i].Refused = found[i].Kind == account.RuntimeUnknown && m.refused(s, requestSet(found[i].Entry.Request))
	}
	return slices.DeleteFunc(found, func(d account.Drift) bool { return m.leaves(found, d) })
}

// moving reports whether an event in flight concerns the drift.
func (m *model) moving(s *state, d account.Drift) bool {
	for e, v := range m.events {
		open := has(s.published, uint8(e)) && !has(s.acked, uint8(e))
		if v.kind == release && open && bindingName(v.of) == d.Binding {
			return true
		}
	}
	for r := range uint8(maxRuntimes) {
		on := d.Runtime == m.redis.ids[r]
		for p := range m.pools {
			at := s.pools[p].runtimes[r].binding
			on = on || d.Binding != "" && at == bindingIndex(d.Binding)
		}
		if on && m.inMotion(s, r) {
			return true
		}
	}
	return false
}

// leaves reports whether a repair ignores the drift, or postpones it: a count that is too high is corrected
// only after the forgotten assignments are restored, because the correction would make room that does not
// exist.
func (m *model) leaves(found []account.Drift, d account.Drift) bool {
	switch remedy := d.Remedy(); {
	case remedy != account.Mended && remedy != account.Doubted:
		return true
	case d.Kind == account.RuntimeUnknown:
		return m.off[ruleAudit]
	case d.Kind == account.WaitingUnknown:
		return m.off[ruleWaitsAudit]
	case d.Kind == account.LabelUnfollowed || d.Kind == account.BindingMissing:
		return true // the sweep does the same
	case d.Kind == account.CountWrong && d.Surplus > 0 && !m.off[ruleRestoreFirst]:
		return slices.ContainsFunc(found, func(o account.Drift) bool { return o.Lacking == d.Binding })
	default:
		return false
	}
}

// refused reports whether there are requests in the set, and all were answered with a refusal.
func (m *model) refused(s *state, requests uint8) bool {
	for e := range uint8(len(m.events)) {
		if has(requests, e) && s.replies[e].status != rejected && s.replies[e].status != exhausted && s.replies[e].status != superseded {
			return false
		}
	}
	return requests != 0
}

// inMotion reports whether an event of the runtime is unsettled or waits.
func (m *model) inMotion(s *state, r uint8) bool {
	for i, v := range m.events {
		e := uint8(i)
		if v.kind != release && v.of == r && (has(s.published, e) && !has(s.acked, e) || has(s.room, e)) {
			return true
		}
	}
	return false
}

// repair runs the script that mends the drift.
func (m *model) repair(s *state, w int) {
	n := *s
	k := &n.workers[w]
	d := m.redis.drifts.all[k.read]
	r := m.redis.run(&n.pools[k.pool], call{script: mend, drift: k.read})
	if r.notBuilt {
		m.giveUp(s, w)
		return
	}
	n.workers[w] = worker{}
	what := "mends " + string(d.Kind)
	if !r.change {
		what = "finds that " + string(d.Kind) + " is over"
	}
	m.script(&n, w, what, thing{}, r)
}

// mend does what Audit.mend of package audit does about the drifts that leaves lets pass, but changes no directory.
func (r *redis) mend(p *account.Pool, d account.Drift) (changed bool, err error) {
	switch d.Kind {
	case account.CountWrong:
		return p.Recount(d.Binding)
	case account.RuntimeMissing, account.ShootUnknown, account.RuntimeElsewhere:
		return p.Restore(d.Runtime, d.Entry, d.Wanted, d.Should)
	case account.RuntimeGoneAlready:
		return p.ReleaseUnchanged(d.Runtime, d.Entry)
	case account.WaitingUnknown:
		return p.Forget(d.Runtime, d.Entry.Sequence)
	case account.RuntimeUnknown:
		for request := range strings.FieldsSeq(d.Entry.Request) {
			if err := p.TakeBack(d.Runtime, request, d.Entry.Tenant); err != nil {
				return false, err
			}
		}
		return true, nil
	case account.ShootGone:
		return p.DropAdopted(d.Runtime, d.Binding)
	case account.SequenceBehind:
		return p.Raise(d.Highest)
	default:
		return p.Doubt(d.Binding, d.Record.Generation)
	}
}
