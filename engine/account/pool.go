package account

import (
	"cmp"
	"maps"
	"slices"
)

// Pool is the account protocol of one pool in memory: the scripts of Redis as plain Go. It is not safe for
// concurrent use; Redis, too, runs one script after the other.
type Pool struct {
	site
	paused   bool
	bindings map[string]Record
	runtimes map[string]Runtime
	index    index
	turns    map[string]int64 // by tenant: the sequence at which a waiting request of the tenant was last served
}

// NewPool returns a pool that is not built: BeginRebuild and Install build it.
func NewPool() *Pool {
	return &Pool{bindings: map[string]Record{}, runtimes: map[string]Runtime{}, index: newIndex(), turns: map[string]int64{}}
}

// Clone returns an independent copy, for simulations.
func (p *Pool) Clone() *Pool {
	clone := *p
	clone.index = p.index.clone()
	clone.bindings, clone.runtimes, clone.turns = maps.Clone(p.bindings), maps.Clone(p.runtimes), maps.Clone(p.turns)
	return &clone
}

// Binding returns the record of a binding, a free one if there is no record.
func (p *Pool) Binding(name string) Record {
	if rec, known := p.bindings[name]; known {
		return rec
	}
	return Record{State: Free}
}

// Runtime returns the record of a runtime, the zero Runtime for an unknown one.
func (p *Pool) Runtime(id string) Runtime { return p.runtimes[id] }

// Bindings returns all records, sorted by name.
func (p *Pool) Bindings() []NamedRecord {
	all := make([]NamedRecord, 0, len(p.bindings))
	for name, rec := range p.bindings {
		all = append(all, NamedRecord{Binding: name, Record: rec})
	}
	slices.SortFunc(all, func(a, b NamedRecord) int { return cmp.Compare(a.Binding, b.Binding) })
	return all
}

// Runtimes returns all runtimes, sorted by id.
func (p *Pool) Runtimes() []NamedRuntime {
	all := make([]NamedRuntime, 0, len(p.runtimes))
	for id, rt := range p.runtimes {
		all = append(all, NamedRuntime{ID: id, Runtime: rt})
	}
	slices.SortFunc(all, func(a, b NamedRuntime) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Each calls the functions with every binding and every runtime, in no order. It is for checks after every
// step.
func (p *Pool) Each(binding func(string, Record), runtime func(string, Runtime)) {
	for name, rec := range p.bindings {
		binding(name, rec)
	}
	for id, rt := range p.runtimes {
		runtime(id, rt)
	}
}

// Status summarizes the pool.
func (p *Pool) Status() Status {
	return Status{
		Built: p.epoch != "", Epoch: p.epoch, Sequence: p.sequence, Paused: p.paused,
		Bindings: len(p.bindings), Runtimes: len(p.runtimes), Waiting: len(p.index.waiting),
	}
}

// Pause stops new assignments: requests wait, or are refused if they must not wait (Request.Now). Existing
// assignments stay, and are repeated to requests for them. It may return ErrNotBuilt.
func (p *Pool) Pause() error { return p.setPaused(true) }

// Resume ends Pause. It may return ErrNotBuilt.
func (p *Pool) Resume() error { return p.setPaused(false) }

func (p *Pool) setPaused(paused bool) error {
	if p.epoch == "" {
		return ErrNotBuilt
	}
	p.paused = paused
	return nil
}

// put stores a binding's record. It drops the record of a free binding without runtimes, since a binding
// without a record is free.
func (p *Pool) put(name string, rec Record) {
	if rec.State == Free && rec.Count == 0 {
		p.drop(name)
		return
	}
	p.keep(name, rec)
}

// unassign takes one runtime off the binding's record. A claim without runtimes begins to drain (see less).
// unassign does not change the runtime's record.
func (p *Pool) unassign(binding string) {
	if rec, known := p.bindings[binding]; known {
		p.put(binding, rec.less())
	}
}

// less returns the record with one runtime fewer. Rule 7: a claim without runtimes drains. Confirmed does
// not change: a claim whose label was never seen stays unconfirmed. A dirtying binding stays dirtying, and a
// shared one has no claim to lose.
func (rec Record) less() Record {
	rec.Count = max(0, rec.Count-1)
	if rec.Count == 0 && !rec.shared() && (rec.State == Claiming || rec.State == InUse) {
		rec.State = Draining
	}
	return rec
}

// last reports whether the binding is claimed, no longer claiming, and has at most one runtime.
func (rec Record) last() bool { return rec.State == InUse && rec.Count <= 1 && !rec.shared() }

// shared reports whether the binding is in a shared pool: in use, without a tenant.
func (rec Record) shared() bool { return rec.State == InUse && rec.Tenant == "" }

// idle reports whether the record is a claim without runtimes that no deprovision emptied: it was adopted
// from a label, or made by a rebuild or a repair.
func (rec Record) idle() bool {
	return rec.State == InUse && rec.Count == 0 && !rec.shared()
}

// loose reports whether the binding follows its label (rule 10): no runtime is
// on it and it is draining, dirtying or an idle claim.
func (rec Record) loose() bool {
	return rec.Count == 0 && (rec.State == Draining || rec.State == Dirtying || rec.idle())
}
