package account

import (
	"cmp"
	"slices"
)

// Assign decides which binding the runtime gets (rule 3). It is idempotent: the same request gets the same
// binding under the same sequence. It may return ErrNotBuilt or ErrRebuilt.
func (p *Pool) Assign(r Request) (Decision, error) {
	if p.epoch == "" {
		return Decision{}, ErrNotBuilt // rule 1
	}
	if r.Epoch != "" && r.Epoch != p.epoch {
		return Decision{}, ErrRebuilt // what the directory said may be lost
	}
	rt, left := p.arrived(r.Runtime, r.After)
	switch {
	case left:
		return p.decided(Moved, rt), nil
	case rt.State == RuntimeGone:
		return p.decided(Superseded, rt), nil
	case rt.State == RuntimeRefused && rt.Request == r.Request:
		return p.decided(Refused, rt), nil
	case rt.Foreign(r.Tenant):
		return p.decided(Foreign, Runtime{}), nil
	case rt.State == RuntimeAssigned && p.stands(rt, r.Tenant):
		return p.repeat(r, rt), nil
	}
	before, known := p.bindings[rt.Binding]
	if rt.State == RuntimeAssigned {
		p.unassign(rt.Binding) // rule 3: this assignment does not stand, so a binding is chosen anew
	}
	c := p.choose(r)
	switch {
	case c.binding != "":
		return p.take(r, c), nil
	case r.All || p.paused:
		return p.wait(r, rt, c), nil
	}
	if rt.State == RuntimeAssigned && known {
		p.keep(rt.Binding, before) // Short records nothing, so the binding gets its runtime back
	}
	return Decision{Outcome: Short, Epoch: p.epoch, Considered: c.considered}, nil
}

// Foreign reports whether the runtime is another tenant's (rule 3). A record of an older version may name no
// tenant; such a runtime is not foreign.
func (rt Runtime) Foreign(tenant string) bool {
	return (rt.State == RuntimeAssigned || rt.State == RuntimeWaiting) && rt.Tenant != "" && rt.Tenant != tenant
}

// stands reports whether the assignment is repeated rather than made anew (rule 3): the runtime may have been
// answered with it, or can still be.
func (p *Pool) stands(rt Runtime, tenant string) bool {
	rec := p.bindings[rt.Binding]
	return rt.Confirmed ||
		rec.Tenant == tenant && !rec.shared() && (rec.State == Claiming || rec.State == InUse)
}

func (p *Pool) decided(o Outcome, rt Runtime) Decision {
	return Decision{Outcome: o, Sequence: rt.Sequence, Epoch: p.epoch, Request: rt.FirstRequest()}
}

func (p *Pool) repeat(r Request, rt Runtime) Decision {
	rt.Request = withRequest(rt.Request, r.Request)
	d := p.answer(r, rt)
	d.Repeated = true
	return d
}

// answer returns the decision for an assigned runtime. Rule 4: it may be answered at once only if the runtime
// or its binding is confirmed; a confirmed binding also confirms the runtime.
func (p *Pool) answer(r Request, rt Runtime) Decision {
	rec := p.Binding(rt.Binding)
	if !rt.Confirmed && !rec.Confirmed {
		rec.Generation = outgrown(rec.Generation, r, rt.Binding)
		p.put(rt.Binding, rec)
	}
	rt.Confirmed = rt.Confirmed || rec.Confirmed
	p.remember(r.Runtime, rt)
	return Decision{
		Outcome: Assigned, Binding: rt.Binding, Generation: rec.Generation,
		Sequence: rt.Sequence, Epoch: p.epoch, Confirmed: rt.Confirmed,
		Origin: rt.Origin, Request: rt.FirstRequest(), Count: rec.Count, Claiming: rec.State == Claiming,
	}
}

// outgrown returns the generation for an unconfirmed claim of binding, whose generation so far is g. It
// returns g unless the label in r.Seen shows that the claim g was released meanwhile (rule 3): the label is
// unclaimed at generation g or above, or names the tenant at a generation above g. Then it returns the
// generation after that of the label, so that the claim differs from the released one.
func outgrown(g int64, r Request, binding string) int64 {
	for _, s := range r.Seen {
		if s.Binding == binding && (s.Generation > g || s.Generation == g && !s.Mine) {
			return s.Generation + 1
		}
	}
	return g
}

// take records the new assignment and returns its decision.
func (p *Pool) take(r Request, c choice) Decision {
	seq := p.next()
	rec := p.Binding(c.binding)
	switch c.origin {
	case Revived:
		rec.State = InUse // rule 3: its `confirmed` stays as it was
	case Labelled, Claimed:
		rec = Record{State: Claiming, Tenant: r.Tenant, Generation: c.generation + 1, Claimed: seq, Pristine: c.origin == Claimed}
	case Shared:
		rec.State, rec.Confirmed = InUse, true
	}
	rec.Count++
	p.put(c.binding, rec)
	waited := p.runtimes[r.Runtime].State == RuntimeWaiting
	d := p.answer(r, Runtime{
		State: RuntimeAssigned, Binding: c.binding, Sequence: seq,
		Request: r.Request, Origin: c.origin, Tenant: r.Tenant,
	})
	if waited {
		p.hadTurn(r.Tenant, seq)
	}
	d.Considered = c.considered
	return d
}

// wait records that the request waits. A request that waits already keeps its number; a request that must not
// wait is refused (rule 12).
func (p *Pool) wait(r Request, rt Runtime, c choice) Decision {
	if r.Now {
		rt = Runtime{State: RuntimeRefused, Sequence: p.next(), Request: r.Request, Tenant: r.Tenant}
		p.remember(r.Runtime, rt)
		d := p.decided(Refused, rt)
		d.Considered = c.considered
		return d
	}
	if rt.State != RuntimeWaiting {
		rt = Runtime{State: RuntimeWaiting, Sequence: p.next(), Request: r.Request, Tenant: r.Tenant}
		p.remember(r.Runtime, rt)
	}
	d := p.decided(Waiting, rt)
	d.Position = p.position(rt.Sequence)
	d.Considered = c.considered
	return d
}

func (p *Pool) position(sequence int64) int {
	place := 1
	for id := range p.index.waiting {
		if p.runtimes[id].Sequence < sequence {
			place++
		}
	}
	return place
}

// Refuse ends the waiting of a request at its deadline (rule 12); the outcome is Refused. Nothing changes if
// the outcome is another one: Moved if the runtime has left the pool since its place was read, Superseded if
// it is gone, Foreign if it is another tenant's, Assigned if it is assigned (the worker that assigned it answers).
// after is the number of the runtime's place. It may return ErrNotBuilt.
func (p *Pool) Refuse(runtime, request, tenant string, after int64) (Decision, error) {
	if p.epoch == "" {
		return Decision{}, ErrNotBuilt
	}
	rt, left := p.arrived(runtime, after)
	switch {
	case left:
		return p.decided(Moved, rt), nil
	case rt.State == RuntimeGone:
		return p.decided(Superseded, rt), nil
	case rt.Foreign(tenant):
		return p.decided(Foreign, Runtime{}), nil
	case rt.State == RuntimeAssigned:
		d := p.decided(Assigned, rt)
		d.Binding, d.Origin, d.Confirmed, d.Repeated = rt.Binding, rt.Origin, rt.Confirmed, true
		return d, nil
	case rt.State != RuntimeRefused || rt.Request != request:
		rt = Runtime{State: RuntimeRefused, Sequence: p.next(), Request: request, Tenant: cmp.Or(rt.Tenant, tenant)}
		p.remember(runtime, rt)
	}
	return p.decided(Refused, rt), nil
}

func barred(r Request, binding string) bool { return slices.Contains(r.Barred, binding) }
