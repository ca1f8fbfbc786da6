package account

// Rule 16: a runtime without an account goes to the pool that its rule names by now.

// arrived returns what is remembered of a runtime whose place has the number after: nothing of before it
// came back. left reports that it has gone to another pool since that place was read; then it
// has the number under which it did.
func (p *Pool) arrived(runtime string, after int64) (rt Runtime, left bool) {
	if rt = p.runtimes[runtime]; rt.State == RuntimeMoved {
		if rt.Sequence > after {
			return rt, true
		}
		rt = Runtime{}
	}
	p.sequence = max(p.sequence, after)
	return rt, false
}

// Leave takes a runtime out of the pool that has no account, for a request whose rule names another one,
// and reports whether it has left, and under which number. It stays where it has an account or is gone, where it waits
// by another request or for another tenant, and where this very request was refused. Repeated, it returns the
// same number. after is the number of its place. ErrNotBuilt.
func (p *Pool) Leave(runtime, request, tenant string, after int64) (sequence int64, left bool, err error) {
	if p.epoch == "" {
		return 0, false, ErrNotBuilt
	}
	rt, left := p.arrived(runtime, after)
	switch {
	case left:
		return rt.Sequence, true, nil
	case rt.State == RuntimeAssigned, rt.State == RuntimeGone,
		rt.State == RuntimeWaiting && (rt.Request != request || rt.foreign(tenant)),
		rt.State == RuntimeRefused && rt.Request == request:
		return 0, false, nil
	}
	rt = Runtime{State: RuntimeMoved, Sequence: p.next()}
	p.remember(runtime, rt)
	return rt.Sequence, true, nil
}
