package account

// What a reconciliation may change in Redis. Each looks again whether what it was
// told is still so, and changes nothing otherwise.

// Recount makes the binding's count the number of runtimes that are assigned to
// it, and reports whether that changed it. A claim that it leaves empty does not
// drain: only a deprovision drains an account. ErrNotBuilt.
func (p *Pool) Recount(binding string) (bool, error) {
	if p.epoch == "" {
		return false, ErrNotBuilt
	}
	count := 0
	for _, rt := range p.runtimes {
		if rt.State == RuntimeAssigned && rt.Binding == binding {
			count++
		}
	}
	rec := p.Binding(binding)
	if rec.Count == count {
		return false, nil
	}
	rec.Count, rec.Pristine = count, false
	p.put(binding, rec)
	return true, nil
}

// Restore restores an assignment that ledger or Shoot have and Redis lost: rt, on
// a binding that is to be like should where Redis has no record of it. was is the
// runtime's record as it was read. It reports whether it did. ErrNotBuilt.
func (p *Pool) Restore(runtime string, was, rt Runtime, should Record) (bool, error) {
	if p.epoch == "" {
		return false, ErrNotBuilt
	}
	if p.runtimes[runtime] != was || p.bindings[rt.Binding].State == Claiming {
		return false, nil // a worker is at it
	}
	if was.State == RuntimeAssigned {
		p.unassign(was.Binding)
	}
	rec, known := p.bindings[rt.Binding] // which may be the one that it was on
	switch {
	case !known:
		rec = should
		rec.Confirmed, rec.Count = rec.shared(), 0
	case rec.State == Draining:
		rec.State = InUse
	}
	rec.Count, rec.Pristine = rec.Count+1, false
	p.put(rt.Binding, rec)
	p.remember(runtime, rt)
	p.sequence = max(p.sequence, rt.Sequence)
	return true, nil
}

// DropAdopted forgets a runtime that came from a Shoot alone, and goes with it. A
// claim that it leaves empty does not drain. It reports whether it did. ErrNotBuilt.
func (p *Pool) DropAdopted(runtime, binding string) (bool, error) {
	if p.epoch == "" {
		return false, ErrNotBuilt
	}
	rt := p.runtimes[runtime]
	if rt.State != RuntimeAssigned || rt.Origin != Adopted || rt.Binding != binding {
		return false, nil
	}
	if rec, known := p.bindings[binding]; known {
		rec.Count = max(0, rec.Count-1)
		p.put(binding, rec)
	}
	p.forget(runtime)
	return true, nil
}

// Doubt makes a claim unconfirmed, so that its next assignment looks at its
// label first (rule 4), and reports whether it was confirmed. ErrNotBuilt.
func (p *Pool) Doubt(binding string, generation int64) (bool, error) {
	if p.epoch == "" {
		return false, ErrNotBuilt
	}
	rec := p.bindings[binding]
	if !rec.Confirmed || rec.shared() || rec.Generation != generation {
		return false, nil
	}
	rec.Confirmed, rec.Pristine = false, false
	p.keep(binding, rec)
	return true, nil
}

// DrainIdle lets a claim without runtimes drain, as the last deprovision would
// have, and reports whether it did. ErrNotBuilt.
func (p *Pool) DrainIdle(binding string, generation int64) (bool, error) {
	if p.epoch == "" {
		return false, ErrNotBuilt
	}
	rec := p.bindings[binding]
	if !rec.idle() || rec.Generation != generation {
		return false, nil
	}
	rec.State, rec.Pristine = Draining, false
	p.keep(binding, rec)
	return true, nil
}

// Raise lets the pool's numbers go on after sequence, and reports whether it was
// behind. ErrNotBuilt.
func (p *Pool) Raise(sequence int64) (bool, error) {
	if p.epoch == "" {
		return false, ErrNotBuilt
	}
	behind := p.sequence < sequence
	p.sequence = max(p.sequence, sequence)
	return behind, nil
}
