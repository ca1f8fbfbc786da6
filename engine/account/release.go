package account

// ReleaseRuntime takes a runtime off its binding for good (rule 7), for the tenant
// that asks, "" where none is named, and whose place has the number after. Another
// tenant's runtime is left as it is, and the Departure is Foreign. A runtime that is gone
// stays gone: its provision, if it ever comes, is superseded. Repeated, it returns the same
// sequence. ErrNotBuilt.
func (p *Pool) ReleaseRuntime(runtime, tenant string, after int64) (Departure, error) {
	if p.epoch == "" {
		return Departure{}, ErrNotBuilt
	}
	rt, left := p.arrived(runtime, after)
	if left {
		return Departure{Sequence: rt.Sequence, State: Free, Moved: true}, nil
	}
	repeated := rt.State == RuntimeGone
	if rt.kept(tenant) {
		return Departure{State: Free, Foreign: true}, nil
	}
	if !repeated {
		rt = p.depart(runtime, rt)
	}
	d := Departure{
		Binding: rt.Binding, Sequence: rt.Sequence, Repeated: repeated,
		Waited: rt.Request, State: Free,
	}
	// What the binding is now is told only while it is this tenant's.
	if rec := p.Binding(rt.Binding); rt.Binding != "" && (rec.Tenant == rt.Tenant || rec.shared()) {
		d.Tenant, d.Generation, d.Count, d.State = rec.Tenant, rec.Generation, rec.Count, rec.State
	}
	return d, nil
}

// kept reports whether the runtime is kept from a tenant that asks to release it: it is
// another one's. A tombstone that has nothing to tell is kept from no tenant, and neither is a
// record of an older version that does not say whose it is.
func (rt Runtime) kept(tenant string) bool {
	told := rt.State != RuntimeGone || rt.Binding != "" || rt.Request != ""
	return tenant != "" && rt.Tenant != "" && rt.Tenant != tenant && told
}

// depart leaves a tombstone, with the request that waited until now.
func (p *Pool) depart(runtime string, rt Runtime) Runtime {
	gone := Runtime{State: RuntimeGone, Tenant: rt.Tenant, Sequence: p.next()}
	switch rt.State {
	case RuntimeAssigned:
		gone.Binding = rt.Binding
		if rt.Confirmed {
			p.soil(rt.Binding)
		}
		p.unassign(rt.Binding)
	case RuntimeWaiting:
		gone.Request = rt.Request
	}
	p.remember(runtime, gone)
	return gone
}

// Forget drops what is remembered of a runtime without an account
// under that sequence, once its event cannot come again (rule 12) or no request of it waits (rule 11), and reports
// whether it did. ErrNotBuilt.
func (p *Pool) Forget(runtime string, sequence int64) (bool, error) {
	if p.epoch == "" {
		return false, ErrNotBuilt
	}
	rt := p.runtimes[runtime]
	if rt.Sequence != sequence || rt.State == RuntimeAssigned || rt.State == "" {
		return false, nil
	}
	p.forget(runtime)
	return true, nil
}

// soil remembers that a cluster may have been made in the account.
func (p *Pool) soil(binding string) {
	if rec, known := p.bindings[binding]; known {
		rec.Pristine = false
		p.keep(binding, rec)
	}
}

// BeginDirtying permits to write dirty=true on a binding without runtimes
// (rule 8): from here only a release leads back. A pristine one goes back to its
// pool instead. ErrNotBuilt.
func (p *Pool) BeginDirtying(binding string, generation int64) (Permit, error) {
	if p.epoch == "" {
		return Permit{}, ErrNotBuilt
	}
	rec := p.bindings[binding]
	if !rec.emptied(generation) {
		return Permit{}, nil
	}
	rec.State = Dirtying
	p.keep(binding, rec)
	return Permit{Given: true, Tenant: rec.Tenant, Pristine: rec.Pristine}, nil
}

// InUse returns the number of runtimes on the binding; a release of one that has
// any is refused (rule 9). ErrNotBuilt.
func (p *Pool) InUse(binding string) (int, error) {
	if p.epoch == "" {
		return 0, ErrNotBuilt
	}
	return p.bindings[binding].Count, nil
}

// MarkFreed ends the claim of that generation once its label is off (rule 9),
// and reports whether it did; a later claim of the binding is left alone. ErrNotBuilt.
func (p *Pool) MarkFreed(binding string, generation int64) (bool, error) {
	if p.epoch == "" {
		return false, ErrNotBuilt
	}
	if !p.bindings[binding].emptied(generation) {
		return false, nil
	}
	p.drop(binding)
	return true, nil
}

// emptied reports whether the claim of that generation has ended with no
// runtime left (rules 8 and 9).
func (rec Record) emptied(generation int64) bool {
	return (rec.State == Draining || rec.State == Dirtying) &&
		rec.Generation == generation && rec.Count == 0
}
