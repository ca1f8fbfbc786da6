package account

// Confirm records that the binding's label carries the claim (rule 5), and reports whether the runtime may
// be answered. It returns false and changes nothing if the records no longer match the claim, or if the
// binding is draining or dirtying. It may return ErrNotBuilt.
func (p *Pool) Confirm(c Claim) (bool, error) {
	if p.epoch == "" {
		return false, ErrNotBuilt
	}
	rt, rec, ok := p.claimed(c)
	if !ok || rec.State != Claiming && rec.State != InUse {
		return false, nil
	}
	rec.State, rec.Confirmed, rt.Confirmed = InUse, true, true
	p.keep(c.Binding, rec)
	p.remember(c.Runtime, rt)
	return true, nil
}

// Revoke takes back an unconfirmed claim that cannot be answered (rule 6), for example because the label is
// another tenant's or dirty. A binding in claiming becomes free, and its runtimes are forgotten. Any other
// binding becomes dirtying and loses only the claim's runtime, unless that is confirmed. Revoke changes
// nothing, and returns false, if the records no longer match the claim or the binding is confirmed. It may
// return ErrNotBuilt.
func (p *Pool) Revoke(c Claim) (bool, error) {
	if p.epoch == "" {
		return false, ErrNotBuilt
	}
	rt, rec, ok := p.claimed(c)
	if !ok || rec.Confirmed {
		return false, nil
	}
	if rec.State == Claiming {
		p.disown(c.Binding)
		return true, nil
	}
	// Rule 6: other runtimes of a rebuilt or adopted binding may have been answered long ago.
	rec.State, rec.Pristine = Dirtying, false
	if !rt.Confirmed {
		rec = rec.less()
		p.forget(c.Runtime)
	}
	p.put(c.Binding, rec)
	return true, nil
}

// claimed returns the records that a claim names, and whether they still match it: the epoch, the runtime's
// assignment with that sequence, and the binding as that tenant's with that generation (rules 5 and 6).
func (p *Pool) claimed(c Claim) (Runtime, Record, bool) {
	rt, rec := p.runtimes[c.Runtime], p.bindings[c.Binding]
	return rt, rec, c.Epoch == p.epoch &&
		rt.State == RuntimeAssigned && rt.Binding == c.Binding && rt.Sequence == c.Sequence &&
		rec.Tenant == rt.Tenant && rec.Generation == c.Generation
}

// disown frees a binding in claiming and forgets its runtimes, none of which was answered.
func (p *Pool) disown(binding string) {
	for id, rt := range p.runtimes {
		if rt.State == RuntimeAssigned && rt.Binding == binding {
			p.forget(id)
		}
	}
	p.drop(binding)
}

// TakeBack undoes the assignment or the waiting of a request whose final answer is not an assignment (rule
// 11): otherwise the account would be counted for no tenant. An assignment stays if other requests rely on
// it too, or if it was adopted from a Shoot. Nothing changes if the runtime's record does not name the request, or
// is another tenant's: that tenant's request may have the same id. It may return ErrNotBuilt.
func (p *Pool) TakeBack(runtime, request, tenant string) error {
	if p.epoch == "" {
		return ErrNotBuilt
	}
	rt := p.runtimes[runtime]
	rest, relied := withoutRequest(rt.Request, request)
	switch {
	case !relied || rt.Foreign(tenant):
	case rt.State == RuntimeAssigned && (rest != "" || rt.Origin == Adopted):
		rt.Request = rest // other requests may have been answered with it, or its cluster was there before them
		p.remember(runtime, rt)
	case rt.State == RuntimeAssigned:
		p.unassign(rt.Binding)
		p.forget(runtime)
	case rt.State == RuntimeWaiting:
		p.forget(runtime)
	}
	return nil
}
