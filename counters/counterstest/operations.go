package counterstest

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
)

var (
	runtimes   = pick("r1", "r2", "r-3", "r_4", "r5")
	requests   = pick("q1", "q2", "q3")
	tenants    = pick("ga", "ga-1", "GA_1", "ga.2")
	bindings   = pick("a", "a-1", "a.1", "B", "z-10", "z-2")
	low        = pick[int64](0, 1, 2, 3, 4)
	suggests   = rapid.SliceOfNDistinct(rapid.Custom(drawSeen), 0, 4, func(s account.Seen) string { return s.Binding })
	limits     = pick(0, 1, 2, 2)
	repairs    = pick("recount", "drop adopted", "doubt", "drain idle", "raise", "restore", "release unchanged")
	asked      = pick("locate", "depart", "forget", "begin forgetting", "move", "build")
	places     = pick(pool, "gcp_cf-sa30")
	strategies = pick("", account.FillMostPopulated, account.FillFirst, account.RoundRobin)
	barred     = rapid.SliceOfN(bindings, 0, 2)
)

// drawSeen returns a suggestion of a cache that may be arbitrarily stale.
func drawSeen(t *rapid.T) account.Seen {
	return account.Seen{
		Binding: bindings.Draw(t, "binding"), Generation: low.Draw(t, "generation"), Mine: rapid.Bool().Draw(t, "mine"),
	}
}

func (p *pair) drawRequest(t *rapid.T) account.Request {
	return account.Request{
		Runtime: runtimes.Draw(t, "runtime"), Request: requests.Draw(t, "request"),
		Tenant: tenants.Draw(t, "tenant"), Shared: p.shared, All: rapid.Bool().Draw(t, "all"),
		InTurn: rapid.Bool().Draw(t, "in turn"), Now: rarely.Draw(t, "now"),
		Epoch:  pick("", "", "", p.epoch, p.epoch, p.epoch, p.epoch, "e0").Draw(t, "epoch"),
		Barred: barred.Draw(t, "barred"),
		Terms: account.Terms{
			Several: rapid.Bool().Draw(t, "several"), Limit: limits.Draw(t, "limit"),
			Strategy: strategies.Draw(t, "strategy"),
		},
		Seen: suggests.Draw(t, "seen"), After: p.after(t),
	}
}

// after returns the number of a runtime's place, mostly 0, as if the runtime had never left a pool.
func (p *pair) after(t *rapid.T) int64 {
	return pick(0, 0, 0, max(0, p.model.Pool(pool).Status().Sequence+low.Draw(t, "ahead")-2)).Draw(t, "after")
}

func (p *pair) assign(t *rapid.T) {
	r := p.drawRequest(t)
	ask := accounttest.Machine.Assign
	if rapid.Bool().Draw(t, "with the directory") {
		ask = accounttest.Machine.LocateAndAssign
		if !rarely.Draw(t, "whatever is built") {
			p.buildBucket(t, account.BucketOf(r.Runtime), nil)
		}
	}
	before := p.model.Pool(pool).Clone()
	d := both(p, t, func(m accounttest.Machine) (account.Decision, error) {
		d, err := ask(m, p.ctx, pool, r)
		if err == nil && d.Outcome == "" {
			p.tally.came(elsewhereFound)
		} else if err == nil {
			if broken := accounttest.CheckDecision(before, r, d); broken != "" {
				t.Fatal(broken)
			}
		}
		return d, err
	}, accounttest.Decision)
	if d.Outcome == "" {
		return // an error, or another entry in the directory
	}
	if before.Status().Paused {
		p.tally.came(paused)
	}
	if d.Outcome == account.Assigned {
		p.claims = append(p.claims, d.Claim(r.Runtime))
		if before.Runtime(r.Runtime).State == account.RuntimeWaiting {
			p.tally.came(servedInTurn)
		}
	}
	p.tally.came(decided(d))
	for _, c := range d.Considered {
		if c.Verdict == account.AtLimit {
			p.tally.came(atLimit)
			break
		}
	}
}

// decided returns the outcome of the Tally under which a decision is counted.
func decided(d account.Decision) string {
	switch {
	case d.Repeated:
		return repeated
	case d.Outcome == account.Assigned:
		return map[account.Origin]string{
			account.Own: own, account.Revived: revived, account.Labelled: labelled, account.Claimed: claimed, account.Shared: shared,
		}[d.Origin]
	}
	return map[account.Outcome]string{
		account.Superseded: superseded, account.Refused: refused, account.Waiting: waiting, account.Short: tooShort, account.Foreign: foreign,
		account.Moved: movedOn,
	}[d.Outcome]
}

// drawClaim returns mostly a claim that waits for its label, sometimes any former claim or a forged
// one.
func (p *pair) drawClaim(t *rapid.T) account.Claim {
	open := slices.DeleteFunc(slices.Clone(p.claims), func(c account.Claim) bool {
		rt := p.model.Pool(pool).Runtime(c.Runtime)
		return rt.Confirmed || rt.Sequence != c.Sequence || c.Epoch != p.epoch
	})
	var c account.Claim
	switch {
	case len(open) > 0 && !rarely.Draw(t, "any"):
		c = open[len(open)-1]
	case len(p.claims) > 0:
		c = rapid.SampledFrom(p.claims).Draw(t, "claim")
	}
	if !rarely.Draw(t, "forged") {
		return c
	}
	return account.Claim{
		Runtime: pick(c.Runtime, runtimes.Draw(t, "runtime")).Draw(t, "of"), Binding: pick(c.Binding, bindings.Draw(t, "binding")).Draw(t, "on"),
		Generation: c.Generation + low.Draw(t, "generation"), Sequence: c.Sequence + low.Draw(t, "sequence"), Epoch: pick(c.Epoch, "e0").Draw(t, "epoch"),
	}
}

func (p *pair) confirm(t *rapid.T) {
	c := p.drawClaim(t)
	ok := both(p, t, func(m accounttest.Machine) (bool, error) { return m.Confirm(p.ctx, pool, c) }, plain)
	p.tally.cameIf(ok, confirmed, notConfirmed)
}

// conflict revokes a claim, as if its label turned out to be another tenant's.
func (p *pair) conflict(t *rapid.T) {
	c := p.drawClaim(t)
	ok := both(p, t, func(m accounttest.Machine) (bool, error) { return m.Revoke(p.ctx, pool, c) }, plain)
	p.tally.cameIf(ok, revoked, kept)
}

func (p *pair) deprovision(t *rapid.T) {
	runtime := runtimes.Draw(t, "runtime")
	before := p.model.Pool(pool).Runtime(runtime)
	tenant := pick("", before.Tenant, tenants.Draw(t, "another")).Draw(t, "tenant")
	place := account.Place{Pool: pool, Sequence: p.after(t)}
	release := pick(accounttest.Machine.ReleaseRuntime, accounttest.Machine.ReleaseUnknown).Draw(t, "release")
	d := both(p, t, func(m accounttest.Machine) (account.Departure, error) {
		return release(m, p.ctx, place, runtime, tenant)
	}, accounttest.Departure)
	switch {
	case d.Moved:
		p.tally.came(movedOn)
	case d.Foreign:
		p.tally.came(keptFrom)
	case d.Sequence == 0: // an error: the pool is not built
	case d.Repeated:
		p.tally.came(leftAgain)
	case before.State == "":
		p.tally.came(unknownLeft)
	case before.State == account.RuntimeWaiting:
		p.tally.came(waitingLeft)
	case d.State == account.Draining:
		p.tally.came(drained)
	}
}

// drawAsked returns a runtime, and mostly the request in its record.
func (p *pair) drawAsked(t *rapid.T) (runtime, request string) {
	runtime = runtimes.Draw(t, "runtime")
	request = p.model.Pool(pool).Runtime(runtime).FirstRequest()
	if request == "" || rarely.Draw(t, "another") {
		request = requests.Draw(t, "request")
	}
	return runtime, request
}

func (p *pair) deadline(t *rapid.T) {
	runtime, request := p.drawAsked(t)
	tenant := pick(p.model.Pool(pool).Runtime(runtime).Tenant, tenants.Draw(t, "another")).Draw(t, "tenant")
	place := account.Place{Pool: pool, Sequence: p.after(t)}
	d := both(p, t, func(m accounttest.Machine) (account.Decision, error) {
		return m.Refuse(p.ctx, place, runtime, request, tenant)
	}, accounttest.Decision)
	if d.Outcome == account.Refused {
		p.tally.came(refused)
	}
}

// leave calls Leave, as a worker does if the request's rule names another pool. Some runtimes stay where they are.
func (p *pair) leave(t *rapid.T) {
	runtime, request := p.drawAsked(t)
	tenant := pick(p.model.Pool(pool).Runtime(runtime).Tenant, tenants.Draw(t, "another")).Draw(t, "tenant")
	place := account.Place{Pool: pool, Sequence: p.after(t)}
	left := both(p, t, func(m accounttest.Machine) (string, error) {
		sequence, left, err := m.Leave(p.ctx, place, runtime, request, tenant)
		return fmt.Sprint(sequence, left), err
	}, plain)
	p.tally.cameIf(strings.HasSuffix(left, "true"), hasLeft, stayed)
}

func (p *pair) takeBack(t *rapid.T) {
	runtime, request := p.drawAsked(t)
	tenant := pick(p.model.Pool(pool).Runtime(runtime).Tenant, tenants.Draw(t, "another")).Draw(t, "tenant")
	both(p, t, func(m accounttest.Machine) (bool, error) {
		return true, m.TakeBack(p.ctx, pool, runtime, request, tenant)
	}, plain)
}

// drawBinding returns mostly a binding for whose record like returns true, if there is one.
func (p *pair) drawBinding(t *rapid.T, like func(account.Record) bool) string {
	var names []string
	for _, b := range p.model.Pool(pool).Bindings() {
		if like(b.Record) {
			names = append(names, b.Binding)
		}
	}
	if len(names) == 0 || rarely.Draw(t, "any") {
		return bindings.Draw(t, "binding")
	}
	return pick(names...).Draw(t, "binding")
}

// generation returns mostly the generation of the binding.
func (p *pair) generation(t *rapid.T, binding string) int64 {
	if rarely.Draw(t, "guess") {
		return low.Draw(t, "generation")
	}
	return p.model.Pool(pool).Binding(binding).Generation
}

func (p *pair) dirty(t *rapid.T) {
	binding := p.drawBinding(t, func(rec account.Record) bool { return rec.State == account.Draining })
	g := p.generation(t, binding)
	permit := both(p, t, func(m accounttest.Machine) (account.Permit, error) {
		return m.BeginDirtying(p.ctx, pool, binding, g)
	}, accounttest.Permit)
	both(p, t, func(m accounttest.Machine) (int, error) { return m.InUse(p.ctx, pool, binding) }, plain)
	p.tally.cameIf(permit.Given, dirtied, notDirtied)
}

func (p *pair) release(t *rapid.T) {
	binding := p.drawBinding(t, func(rec account.Record) bool { return rec.State == account.Dirtying })
	g, pristine := p.generation(t, binding), p.model.Pool(pool).Binding(binding).Pristine
	ok := both(p, t, func(m accounttest.Machine) (bool, error) { return m.MarkFreed(p.ctx, pool, binding, g) }, plain)
	switch {
	case ok && pristine:
		p.tally.came(backPristine)
	default:
		p.tally.cameIf(ok, released, notReleased)
	}
}

func (p *pair) observe(t *rapid.T) {
	l := account.Label{Binding: bindings.Draw(t, "binding"), Dirty: rapid.Bool().Draw(t, "dirty"), Generation: low.Draw(t, "generation"), After: low.Draw(t, "after")}
	if p.shared {
		return // rule 10 is not for shared pools
	}
	if rapid.Bool().Draw(t, "labelled") {
		l.Tenant = tenants.Draw(t, "tenant")
	}
	o := both(p, t, func(m accounttest.Machine) (account.Observation, error) {
		return m.Observe(p.ctx, pool, l)
	}, accounttest.Observation)
	switch o.Change {
	case account.BecameAdopted:
		p.tally.came(adopted)
	case account.BecameFree:
		p.tally.came(freedByLabel)
	case account.BecameDirtying:
		p.tally.came(dirtiedByLabel)
	}
}

func (p *pair) forget(t *rapid.T) {
	runtime := runtimes.Draw(t, "runtime")
	sequence := p.model.Pool(pool).Runtime(runtime).Sequence + pick[int64](0, 0, 0, 1).Draw(t, "later")
	both(p, t, func(m accounttest.Machine) (bool, error) {
		return m.Forget(p.ctx, pool, runtime, sequence)
	}, plain)
}

func (p *pair) pause(t *rapid.T) {
	pause := rarely.Draw(t, "pause")
	both(p, t, func(m accounttest.Machine) (bool, error) {
		if pause {
			return true, m.Pause(p.ctx, pool)
		}
		return true, m.Resume(p.ctx, pool)
	}, plain)
}

// repair calls a repair, whether or not there is a drift to repair.
func (p *pair) repair(t *rapid.T) {
	binding, runtime := bindings.Draw(t, "binding"), runtimes.Draw(t, "runtime")
	g, sequence := p.generation(t, binding), p.model.Pool(pool).Status().Sequence+rapid.Int64Range(-1, 1).Draw(t, "ahead")
	call, was := repairs.Draw(t, "repair"), p.model.Pool(pool).Runtime(runtime)
	ok := both(p, t, func(m accounttest.Machine) (bool, error) {
		switch call {
		case "recount":
			return m.Recount(p.ctx, pool, binding)
		case "drop adopted":
			return m.DropAdopted(p.ctx, pool, runtime, was.Binding)
		case "doubt":
			return m.Doubt(p.ctx, pool, binding, g)
		case "drain idle":
			return m.DrainIdle(p.ctx, pool, binding, g)
		case "release unchanged":
			return m.ReleaseUnchanged(p.ctx, pool, runtime, was)
		case "restore":
			return m.Restore(p.ctx, pool, runtime, was, p.answered(runtime, binding), p.owned(binding))
		}
		return m.Raise(p.ctx, pool, max(0, sequence))
	}, plain)
	if ok {
		p.tally.came(mended)
	}
}

// answered returns the runtime's assignment as a rebuild finds it in the ledger.
func (p *pair) answered(runtime, binding string) account.Runtime {
	return account.Runtime{
		State: account.RuntimeAssigned, Binding: binding, Sequence: p.model.Pool(pool).Status().Sequence,
		Request: "q-" + runtime, Confirmed: true, Origin: account.Own, Tenant: p.owned(binding).Tenant,
	}
}

// owned returns the record, with a count of 0, that a repair passes for a binding: the present one or, if the
// binding is free, a new claim.
func (p *pair) owned(binding string) account.Record {
	rec := p.model.Pool(pool).Binding(binding)
	if rec.State == account.Free {
		rec = account.Record{State: account.InUse, Tenant: "ga", Generation: rec.Generation + 1}
		if p.shared {
			rec.Tenant = ""
		}
	}
	rec.Count = 0
	return rec
}

// directory calls an operation on a runtime's place, whether or not the bucket is built.
func (p *pair) directory(t *rapid.T) {
	runtime := runtimes.Draw(t, "runtime")
	in := places.Draw(t, "pool")
	call, from := asked.Draw(t, "call"), pick[int64](0, 0, 1).Draw(t, "from")
	if call == "build" {
		p.buildBucket(t, account.BucketOf(runtime), map[string]account.Place{runtime: {Pool: in}})
		return
	}
	was := pick(account.Place{}, account.Place{Pool: in, Sequence: from}, p.marks[runtime]).Draw(t, "entry")
	both(p, t, func(m accounttest.Machine) (string, error) {
		switch call {
		case "locate":
			place, err := m.Locate(p.ctx, runtime, in)
			return accounttest.Place(place), err
		case "depart":
			place, err := m.Depart(p.ctx, runtime)
			return accounttest.Place(place), err
		case "move":
			ok, err := m.MovePlace(p.ctx, runtime, was, account.Place{Pool: pool, Sequence: from + 1})
			return plain(ok), err
		case "begin forgetting":
			place, err := m.BeginForgetting(p.ctx, runtime, was)
			if place != (account.Place{}) {
				p.marks[runtime] = place
			}
			return accounttest.Place(place), err
		default:
			ok, err := m.ForgetPlace(p.ctx, runtime, was)
			return plain(ok), err
		}
	}, plain)
}

// buildBucket builds a bucket of the directory unless it is built.
func (p *pair) buildBucket(t *rapid.T, bucket string, entries map[string]account.Place) {
	token := p.token("b")
	both(p, t, func(m accounttest.Machine) (string, error) {
		if mine, err := m.BeginRebuild(p.ctx, bucket, token, p.now, 0); err != nil || !mine {
			return plain(mine), err
		}
		ok, err := m.InstallBucket(p.ctx, bucket, token, account.Directory{Sequence: 3, Places: entries})
		return plain(ok), err
	}, plain)
}

// token returns a token that was never used before.
func (p *pair) token(kind string) string {
	p.tokens++
	return fmt.Sprintf("%s%d", kind, p.tokens)
}
