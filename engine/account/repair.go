package account

// The changes that a reconciliation may make in Redis. Each checks again what the caller has found, and
// changes nothing if it no longer holds.

// Recount sets the binding's count to the number of runtimes that are assigned to it, and reports whether
// that changed it. A claim that becomes empty by it does not drain. It may return ErrNotBuilt.
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

// Restore restores the assignment rt, which the ledger or a Shoot has and Redis has lost, and reports
// whether it did. It changes nothing if the runtime's record differs from was, or if the binding is being
// claimed. The runtime leaves the binding of was. A binding without a record gets the record should, with one
// runtime, and unconfirmed unless the binding is shared. A draining binding is in use again. The pool's sequence
// becomes at least that of rt. It may return ErrNotBuilt.
func (p *Pool) Restore(runtime string, was, rt Runtime, should Record) (bool, error) {
	if p.epoch == "" {
		return false, ErrNotBuilt
	}
	if p.runtimes[runtime] != was || p.bindings[rt.Binding].State == Claiming {
		return false, nil // a worker is changing it
	}
	if was.State == RuntimeAssigned {
		p.unassign(was.Binding)
	}
	rec, known := p.bindings[rt.Binding] // may be was.Binding, from which the runtime was just taken
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

// ReleaseUnchanged releases a runtime that was assigned or waited, as ReleaseRuntime does, if its record still equals was:
// no request has been decided on it since. was must not be the record of a runtime that is gone. It reports whether the runtime became gone by it. It may return ErrNotBuilt.
func (p *Pool) ReleaseUnchanged(runtime string, was Runtime) (bool, error) {
	if p.epoch == "" {
		return false, ErrNotBuilt
	}
	if was == (Runtime{}) || p.runtimes[runtime] != was {
		return false, nil
	}
	p.depart(runtime, was)
	return true, nil
}

// DropAdopted deletes a runtime that was adopted from a Shoot onto this binding, and that no request relies on, after
// the Shoot is gone. It keeps the last runtime of a claim: the deprovision, which is still to come, drains the claim.
// DropAdopted reports whether it deleted the runtime. It may return ErrNotBuilt.
func (p *Pool) DropAdopted(runtime, binding string) (bool, error) {
	if p.epoch == "" {
		return false, ErrNotBuilt
	}
	rt := p.runtimes[runtime]
	rec, known := p.bindings[binding]
	if rt.State != RuntimeAssigned || rt.Origin != Adopted || rt.Request != "" || rt.Binding != binding || rec.last() {
		return false, nil
	}
	if known {
		rec.Count = max(0, rec.Count-1)
		p.put(binding, rec)
	}
	p.forget(runtime)
	return true, nil
}

// Doubt makes a claim unconfirmed, so that its next assignment reads its label first (rule 4). It reports
// whether that changed it. It may return ErrNotBuilt.
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

// DrainIdle drains a claim without runtimes, as its last deprovision would have, and reports whether it did.
// It may return ErrNotBuilt.
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

// Raise raises the pool's sequence to sequence, and reports whether it was lower. It may return ErrNotBuilt.
func (p *Pool) Raise(sequence int64) (bool, error) {
	if p.epoch == "" {
		return false, ErrNotBuilt
	}
	behind := p.sequence < sequence
	p.sequence = max(p.sequence, sequence)
	return behind, nil
}
