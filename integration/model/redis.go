package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
)

// script is a script that a worker may run on a pool.
type script uint8

const (
	assign script = iota
	confirm
	revoke
	refuse
	takeBack
	releaseRuntime
	beginDirtying
	countInUse
	markFreed
	observe
	doubt
	mend
	forget
	queue
)

// call is a script with its arguments.
type call struct {
	script                              script
	runtime, request, tenant, binding   uint8
	generation, sequence, epoch, barred uint8
	after                               uint8
	inTurn, dirty, reversed, shared     bool
	drift                               uint16 // of mend: the number of the drift
	offered                             uint8  // the set of bindings that the caller suggests
	labelled                            uint8  // those of them that are labelled with the tenant
	generations                         [maxBindings]uint8
}

// result is the result of a script. Each script sets only some of its fields.
type result struct {
	notBuilt, ok, confirmed bool
	outcome                 account.Outcome
	binding                 uint8 // plus 1
	tenant, generation      uint8
	sequence, epoch, count  uint8
	state                   uint8
	first                   uint8  // the runtime that is first in the queue, plus 1
	gains, claims           bool   // gains: the runtime was not on the binding before; claims: the binding was free
	pristine                bool   // the permit is to remove the tenant's label
	change                  bool   // the observation changed a record
	broken                  string // the invariant that the decision or the records violate
}

// redis runs the scripts on account.Pool. Scripts are deterministic, so each pair of records and call is run
// once and cached.
type redis struct {
	terms account.Terms
	known map[onPool]outcome
	ids   [maxRuntimes]string

	lenient bool // counts may be wrong until an audit corrects them
	blind   bool // rule paused is switched off
	drifts  *drifts
}

type onPool struct {
	pool pool
	call call
}

type outcome struct {
	pool pool
	result
}

func newRedis(terms account.Terms) *redis {
	return &redis{terms: terms, known: map[onPool]outcome{}, ids: runtimesOfOneBucket(), drifts: newDrifts()}
}

// runtimesOfOneBucket returns ids in the same bucket of the directory.
func runtimesOfOneBucket() (ids [maxRuntimes]string) {
	for n, found := 0, 0; found < maxRuntimes; n++ {
		id := fmt.Sprintf("rt-%d", n)
		if account.BucketOf(id) == account.BucketName(0) {
			ids[found] = id
			found++
		}
	}
	return ids
}

// run executes a script on p, and updates p.
func (r *redis) run(p *pool, c call) result {
	key := onPool{*p, c}
	out, known := r.known[key]
	if !known {
		machine := r.thaw(*p)
		before := machine.Clone()
		out.result = r.execute(machine, before, c)
		out.pool = r.freeze(machine, p.token)
		out.pool.paused = p.paused // no script changes it
		if out.broken == "" && !r.lenient {
			out.broken = wrongCounts(machine)
		}
		r.known[key] = out
	}
	*p = out.pool
	return out.result
}

// wrongCounts returns the invariant I6 if the records violate it. Runtimes of two tenants on one binding are
// left to check: after a loss of Redis, one of them may be deprovisioned, and its account returned, before
// Redis knows.
func wrongCounts(p *account.Pool) string {
	if broken := accounttest.CheckRecords(p); strings.HasPrefix(broken, "I6") {
		return broken
	}
	return ""
}

func (r *redis) execute(p, before *account.Pool, c call) result {
	var out result
	var err error
	runtime, request := r.ids[c.runtime], requestName(c.request)
	claim := account.Claim{
		Runtime: runtime, Binding: bindingName(c.binding), Generation: int64(c.generation),
		Sequence: int64(c.sequence), Epoch: epochName(c.epoch),
	}
	switch c.script {
	case assign:
		return r.assign(p, before, c)
	case confirm:
		out.ok, err = p.Confirm(claim)
	case revoke:
		out.ok, err = p.Revoke(claim)
	case refuse:
		var d account.Decision
		d, err = p.Refuse(runtime, request, tenantName(c.tenant), 0)
		out = decision(d)
	case takeBack:
		err = p.TakeBack(runtime, request, tenantName(c.tenant))
	case releaseRuntime:
		var d account.Departure
		d, err = p.ReleaseRuntime(runtime, "", 0)
		out = departure(d)
	case beginDirtying:
		var permit account.Permit
		permit, err = p.BeginDirtying(claim.Binding, claim.Generation)
		out.ok, out.pristine = permit.Given, permit.Pristine
	case countInUse:
		var n int
		n, err = p.InUse(claim.Binding)
		out.count = uint8(n)
	case markFreed:
		out.ok, err = p.MarkFreed(claim.Binding, claim.Generation)
	case observe:
		var o account.Observation
		o, err = p.Observe(account.Label{Binding: claim.Binding, Tenant: tenantName(c.tenant), Dirty: c.dirty, Generation: claim.Generation, After: int64(c.after)})
		out.change = o.Change != ""
	case doubt:
		out.change, err = p.Doubt(claim.Binding, claim.Generation)
	case forget:
		out.change, err = r.forget(p, c)
	case mend:
		out.change, err = r.mend(p, r.drifts.all[c.drift])
	case queue:
		out.first, err = r.first(p)
	}
	out.notBuilt = errors.Is(err, account.ErrNotBuilt)
	return out
}

func (r *redis) assign(p, before *account.Pool, c call) result {
	request := account.Request{
		Runtime: r.ids[c.runtime], Request: requestName(c.request), Tenant: tenantName(c.tenant),
		Terms: r.terms, All: true, InTurn: c.inTurn, Shared: c.shared,
	}
	if c.epoch > 0 {
		request.Epoch = epochName(c.epoch)
	}
	for b := range uint8(maxBindings) {
		if has(c.offered, b) {
			request.Seen = append(request.Seen, account.Seen{
				Binding: bindingName(b), Generation: int64(c.generations[b]), Mine: has(c.labelled, b),
			})
		}
		if has(c.barred, b) {
			request.Barred = append(request.Barred, bindingName(b))
		}
	}
	if c.reversed {
		slices.Reverse(request.Seen)
	}
	d, err := p.Assign(request)
	if err != nil {
		return result{notBuilt: true}
	}
	out := decision(d)
	out.broken = accounttest.CheckDecision(before, request, d)
	out.gains = d.Outcome == account.Assigned && !d.Repeated
	out.claims = out.gains && d.Origin == account.Claimed
	return out
}

func (r *redis) first(p *account.Pool) (uint8, error) {
	waiters, err := p.Queue()
	if err != nil || len(waiters) == 0 {
		return 0, err
	}
	return uint8(slices.Index(r.ids[:], waiters[0].Runtime)) + 1, nil
}

func decision(d account.Decision) result {
	return result{
		outcome: d.Outcome, confirmed: d.Confirmed, binding: bindingIndex(d.Binding), generation: uint8(d.Generation),
		sequence: uint8(d.Sequence), epoch: epochIndex(d.Epoch),
	}
}

func departure(d account.Departure) result {
	return result{
		binding: bindingIndex(d.Binding), tenant: tenantIndex(d.Tenant), generation: uint8(d.Generation),
		sequence: uint8(d.Sequence), count: uint8(d.Count), state: stateIndex(d.State),
	}
}

// thaw returns the account.Pool of p, by installing it like a rebuild. It lacks the turns of tenants: no
// invariant depends on them.
func (r *redis) thaw(p pool) *account.Pool {
	machine := account.NewPool()
	if p.token != 0 {
		machine.BeginRebuild(epochName(p.token), time.Time{}, 0)
	}
	if !p.built() {
		return machine
	}
	machine.BeginRebuild(epochName(p.epoch), time.Time{}, 0)
	machine.Install(epochName(p.epoch), r.snapshot(p))
	if p.paused && !r.blind {
		_ = machine.Pause() // it is built
	}
	return machine
}

func (r *redis) snapshot(p pool) account.Snapshot {
	runtimes := map[string]account.Runtime{}
	s := account.Snapshot{Sequence: int64(p.sequence), Bindings: map[string]account.Record{}, Runtimes: maps.All(runtimes)}
	for b, rec := range p.bindings {
		if rec != (record{}) {
			s.Bindings[bindingName(uint8(b))] = account.Record{
				State: states[rec.state], Tenant: tenantName(rec.tenant), Generation: int64(rec.generation),
				Confirmed: rec.confirmed, Count: int(rec.count), Pristine: rec.pristine,
			}
		}
	}
	for n, rt := range p.runtimes {
		if rt != (runtime{}) {
			runtimes[r.ids[n]] = rt.real()
		}
	}
	return s
}

func (rt runtime) real() account.Runtime {
	full := account.Runtime{
		State: runtimeStates[rt.state], Sequence: int64(rt.sequence), Confirmed: rt.confirmed,
		Tenant: tenantName(rt.tenant), Origin: account.Own,
	}
	if rt.binding > 0 {
		full.Binding = bindingName(rt.binding - 1)
	}
	full.Request = requestNames(rt.requests)
	if rt.adopted {
		full.Origin = account.Adopted
	}
	return full
}

func (r *redis) freeze(machine *account.Pool, token uint8) pool {
	status := machine.Status()
	p := pool{site: site{epoch: epochIndex(status.Epoch), token: token, sequence: uint8(status.Sequence)}, paused: status.Paused}
	for _, b := range machine.Bindings() {
		p.bindings[bindingIndex(b.Binding)-1] = record{
			stateIndex(b.State), tenantIndex(b.Tenant), uint8(b.Generation), uint8(b.Count), b.Confirmed, b.Pristine,
		}
	}
	for _, rt := range machine.Runtimes() {
		p.runtimes[slices.Index(r.ids[:], rt.ID)] = runtime{
			uint8(slices.Index(runtimeStates[:], rt.State)), bindingIndex(rt.Binding), uint8(rt.Sequence),
			requestSet(rt.Request), tenantIndex(rt.Tenant), rt.Confirmed, rt.Origin == account.Adopted,
		}
	}
	return p
}
