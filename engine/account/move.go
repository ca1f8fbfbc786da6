package account

// Rule 16: a runtime without an account moves to the pool that its rule names by now.

// arrived returns the record of a runtime whose place has the number after. left is true if the runtime went
// to another pool after its place was read; the record then has the number of that move. A record of an
// earlier move is ignored, since the runtime has come back: arrived then returns the zero Runtime. Unless
// left is true, it raises the pool's sequence to after if it is lower.
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

// Leave removes a runtime without an account from the pool, for a request whose rule names another pool. It
// reports whether the runtime has left, and the number of that move; a repeat returns the same number. The
// runtime stays if it has an account or is gone, if it waits by another request or for another tenant, or if
// this very request was refused. after is the number of its place. It may return ErrNotBuilt.
func (p *Pool) Leave(runtime, request, tenant string, after int64) (sequence int64, left bool, err error) {
	if p.epoch == "" {
		return 0, false, ErrNotBuilt
	}
	rt, left := p.arrived(runtime, after)
	switch {
	case left:
		return rt.Sequence, true, nil
	case rt.State == RuntimeAssigned, rt.State == RuntimeGone,
		rt.State == RuntimeWaiting && (rt.Request != request || rt.Foreign(tenant)),
		rt.State == RuntimeRefused && rt.Request == request:
		return 0, false, nil
	}
	rt = Runtime{State: RuntimeMoved, Sequence: p.next()}
	p.remember(runtime, rt)
	return rt.Sequence, true, nil
}
