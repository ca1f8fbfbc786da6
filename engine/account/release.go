package account

// ReleaseRuntime takes a runtime off its binding for good (rule 7). tenant is the one that asks, "" if
// none is named; after is the number of the runtime's place. A runtime of another tenant stays as it is, and
// the Departure is Foreign; so does one that left the pool, and the Departure is Moved. If a tenant asks and there is no
// record, nothing changes and the Departure is Unknown: another tenant's request may wait without one. A runtime that is
// gone stays gone: a provision that comes later is superseded. A repeat returns the same sequence. It may
// return ErrNotBuilt.
func (p *Pool) ReleaseRuntime(runtime, tenant string, after int64) (Departure, error) {
	return p.release(runtime, tenant, after, tenant == "")
}

// ReleaseUnknown is ReleaseRuntime for a runtime whose Departure was Unknown, and for which no other tenant's request
// waits: it becomes gone without a record, too.
func (p *Pool) ReleaseUnknown(runtime, tenant string, after int64) (Departure, error) {
	return p.release(runtime, tenant, after, true)
}

func (p *Pool) release(runtime, tenant string, after int64, unknown bool) (Departure, error) {
	if p.epoch == "" {
		return Departure{}, ErrNotBuilt
	}
	rt, left := p.arrived(runtime, after)
	if left {
		return Departure{Sequence: rt.Sequence, State: Free, Moved: true}, nil
	}
	if rt.State == "" && !unknown {
		return Departure{State: Free, Unknown: true}, nil
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
	// The binding's state is returned only while the binding is this tenant's.
	if rec := p.Binding(rt.Binding); rt.Binding != "" && (rec.Tenant == rt.Tenant || rec.shared()) {
		d.Tenant, d.Generation, d.Count, d.State = rec.Tenant, rec.Generation, rec.Count, rec.State
	}
	return d, nil
}

// kept reports whether a deprovision by tenant is refused because the runtime is another tenant's (rule 7).
// A deprovision that names no tenant ("") is never refused. Every tenant may see a tombstone without a
// binding and a request, and a record that names no tenant, which an older version wrote.
func (rt Runtime) kept(tenant string) bool {
	told := rt.State != RuntimeGone || rt.Binding != "" || rt.Request != ""
	return tenant != "" && rt.Tenant != "" && rt.Tenant != tenant && told
}

// depart takes the runtime off its binding and replaces its record by a tombstone, which names that binding
// or the request that waited.
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

// Forget deletes the record of a runtime that is not assigned if it still has that sequence, and reports whether it
// did. It is for a runtime whose events can no longer be redelivered (rule 14), or that waits by no request (rule
// 11). It may return ErrNotBuilt.
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

// soil records that a cluster may have been created in the account.
func (p *Pool) soil(binding string) {
	if rec, known := p.bindings[binding]; known {
		rec.Pristine = false
		p.keep(binding, rec)
	}
}

// BeginDirtying permits to write dirty=true on a binding, or to remove tenantName if the binding is pristine
// (rule 8). It permits nothing unless the binding is draining or dirtying, of this generation and without
// runtimes. The binding becomes dirtying, and no request gets it any more. It may return ErrNotBuilt.
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

// InUse returns the number of runtimes on the binding. A release of a binding with runtimes is refused (rule
// 9). It may return ErrNotBuilt.
func (p *Pool) InUse(binding string) (int, error) {
	if p.epoch == "" {
		return 0, ErrNotBuilt
	}
	return p.bindings[binding].Count, nil
}

// MarkFreed drops the record of the claim of that generation after its label was removed (rules 8 and 9), and
// reports whether it did. It changes nothing unless the claim is draining or dirtying and has no runtimes. It may
// return ErrNotBuilt.
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

// emptied reports whether the record is the claim of that generation, draining or dirtying, without runtimes
// (rules 8 and 9).
func (rec Record) emptied(generation int64) bool {
	return (rec.State == Draining || rec.State == Dirtying) &&
		rec.Generation == generation && rec.Count == 0
}
