package account_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// settle publishes a final reply (rule 11). It returns false if the event has to start over with the sequence
// that was read.
func (w *world) settle(e *event, expect *int, status string, r account.Answer, p pace) bool {
	p("publish " + status)
	if err := w.store(e, *expect, status, r); err != nil {
		*expect = e.stored
		if !e.final() {
			return false
		}
		w.act(e, p)
	}
	e.settled, e.waiting = true, false
	return true
}

// act takes back the assignment of a request whose final answer is no assignment.
func (w *world) act(e *event, p pace) {
	if e.kind == "provision" && e.status != "assigned" {
		p("take back")
		if w.m.TakeBack(w.ctx, pool, e.runtime, e.id, e.tenant) != nil {
			panic(died{}) // not built: the event is redelivered
		}
	}
}

// stands reports whether the event has its final answer, and acts on it.
func (w *world) stands(e *event, p pace) bool {
	if e.final() {
		w.act(e, p)
		e.settled, e.waiting = true, false
		return true
	}
	return false
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(died{}) // not built: back off, the event is redelivered
	}
	return v
}

func (w *world) provision(e *event, deadline bool, p pace) {
	expect := e.stored
	if w.stands(e, p) {
		return
	}
	for {
		p("decide")
		var d account.Decision
		if deadline {
			if d = must(w.m.Refuse(w.ctx, account.Place{Pool: pool}, e.runtime, e.id, e.tenant)); d.Outcome == account.Assigned {
				return // left to the worker that serves it
			}
		} else {
			d = w.assign(e, p)
		}
		r := account.Answer{Runtime: e.runtime, Request: e.id, Tenant: e.tenant, Sequence: d.Sequence}
		status := ""
		switch d.Outcome {
		case account.Superseded:
			r.State, status = account.RuntimeGone, "superseded"
		case account.Refused:
			r.State, status = account.RuntimeRefused, "exhausted"
		case account.Assigned:
			r.State, r.Binding, r.Claimed, status = account.RuntimeAssigned, d.Binding, d.Origin == account.Claimed, "assigned"
		case account.Waiting:
			if w.wait(e, &expect, r, p) {
				return
			}
			continue
		}
		if w.settle(e, &expect, status, r, p) {
			return
		}
	}
}

// wait is rule 12: it records, then replies, then acknowledges.
func (w *world) wait(e *event, expect *int, r account.Answer, p pace) bool {
	if e.status == "waiting" && e.waiting && e.stored == *expect {
		e.settled = true
		return true
	}
	p("record waiting")
	e.waiting = true
	p("publish waiting")
	r.State = account.RuntimeWaiting
	if w.store(e, *expect, "waiting", r) != nil {
		*expect = e.stored
		return w.stands(e, p)
	}
	e.settled = true
	return true
}

// assign is rules 2 to 6. Its decision may be published.
func (w *world) assign(e *event, p pace) account.Decision {
	views := map[string]label{}
	for round := 0; ; round++ {
		d := must(w.m.Assign(w.ctx, pool, w.request(e, views, round > 0)))
		if d.Outcome == account.Short {
			continue
		}
		if d.Outcome != account.Assigned || d.Confirmed {
			return d
		}
		view, read := views[d.Binding]
		if !read {
			p("read " + d.Binding)
			views[d.Binding] = w.labels[d.Binding] // rule 2: read, then the script again
			continue
		}
		p("look at label")
		if w.makeSure(e, d, view, p) {
			return d
		}
		p("read " + d.Binding)
		views[d.Binding] = w.labels[d.Binding]
	}
}

// request offers the bindings of the cache, replaced by those that were read during this search.
func (w *world) request(e *event, views map[string]label, all bool) account.Request {
	r := account.Request{Runtime: e.runtime, Request: e.id, Tenant: e.tenant, Terms: w.terms[e.tenant], All: all}
	for _, name := range slices.Sorted(maps.Keys(w.labels)) {
		l, read := views[name]
		if !read {
			l = w.cache[name]
		}
		if !l.dirty && (l.tenant == "" || l.tenant == e.tenant) {
			r.Seen = append(r.Seen, account.Seen{Binding: name, Generation: l.generation, Mine: l.tenant != ""})
		}
	}
	return r
}

// makeSure is rule 4, then 5 or 6.
func (w *world) makeSure(e *event, d account.Decision, view label, p pace) bool {
	claim := d.Claim(e.runtime)
	ours := label{tenant: e.tenant, generation: d.Generation, epoch: d.Epoch, releasedBy: view.releasedBy, version: view.version}
	switch {
	case view.dirty || view.tenant != "" && view.tenant != e.tenant:
		must(w.m.Revoke(w.ctx, pool, claim))
		return false
	case view != ours:
		if w.patch(d.Binding, view, ours) != nil {
			return false
		}
	}
	p("confirm")
	return must(w.m.Confirm(w.ctx, pool, claim))
}

func (w *world) deprovision(e *event, p pace) {
	expect := e.stored
	if w.stands(e, p) {
		return
	}
	for {
		p("release runtime")
		d := must(w.m.ReleaseRuntime(w.ctx, account.Place{Pool: pool}, e.runtime, ""))
		w.supersede(e.runtime, d.Sequence, p)
		if d.Count == 0 && (d.State == account.Draining || d.State == account.Dirtying) {
			w.markDirty(d.Binding, d.Tenant, d.Generation, p)
		}
		r := account.Answer{
			Runtime: e.runtime, Request: e.id, Tenant: e.tenant, Binding: d.Binding,
			State: account.RuntimeGone, Sequence: d.Sequence,
		}
		if w.settle(e, &expect, "released", r, p) {
			return
		}
	}
}

// supersede ends the waiting of the runtime's requests (rule 7).
func (w *world) supersede(runtime string, sequence int64, p pace) {
	for _, e := range w.events {
		if e.kind != "provision" || e.runtime != runtime || !e.waiting || e.final() {
			continue
		}
		expect := e.stored
		p("supersede")
		if e.final() {
			continue
		}
		if w.store(e, expect, "superseded", account.Answer{
			Runtime: runtime, Request: e.id, Tenant: e.tenant, State: account.RuntimeGone, Sequence: sequence,
		}) == nil {
			e.settled, e.waiting = true, false
		}
	}
}

// markDirty is rule 8.
func (w *world) markDirty(binding, tenant string, generation int64, p pace) {
	for {
		p("read label and Shoots")
		view := w.labels[binding]
		of := view.tenant == tenant && view.generation <= generation || view.tenant == "" && view.generation < generation
		if w.refers(binding) || view.dirty || !of {
			return
		}
		p("begin dirtying")
		permit := must(w.m.BeginDirtying(w.ctx, pool, binding, generation))
		if !permit.Given {
			return
		}
		p("write label")
		next := view
		next.tenant, next.dirty, next.generation = permit.Tenant, true, generation
		if permit.Pristine {
			next.tenant, next.dirty = "", false
		}
		if w.patch(binding, view, next) != nil {
			continue
		}
		if permit.Pristine {
			p("mark freed")
			must(w.m.MarkFreed(w.ctx, pool, binding, generation))
		}
		return
	}
}

func (w *world) release(e *event, p pace) {
	expect := e.stored
	if w.stands(e, p) {
		return
	}
	for {
		outcome, over := w.free(e, p)
		if over {
			continue // read again
		}
		if w.settle(e, &expect, outcome, account.Answer{}, p) {
			return
		}
	}
}

// free is rule 9.
func (w *world) free(e *event, p pace) (outcome string, over bool) {
	p("read label")
	view := w.labels[e.binding]
	switch {
	case view.releasedBy == e.id:
		p("mark freed")
		must(w.m.MarkFreed(w.ctx, pool, e.binding, e.generation))
		return "returned", false
	case view.generation != e.generation:
		return "stale", false
	case !view.dirty:
		return "not dirty", false
	}
	p("in use")
	if must(w.m.InUse(w.ctx, pool, e.binding)) > 0 {
		return "in use", false
	}
	p("write clean")
	next := view
	next.tenant, next.dirty, next.releasedBy = "", false, e.id
	if w.patch(e.binding, view, next) != nil {
		return "", true
	}
	p("mark freed")
	must(w.m.MarkFreed(w.ctx, pool, e.binding, view.generation))
	return "returned", false
}

// sweepBinding is rule 10, then rule 8 if the binding still drains.
func (w *world) sweepBinding(name string, p pace) {
	view := w.labels[name]
	p("observe " + name)
	l := account.Label{Binding: name, Tenant: view.tenant, Dirty: view.dirty, Generation: view.generation}
	o := must(w.m.Observe(w.ctx, pool, l))
	if o.Change == "" && o.Record.AsksFor(l) {
		view = w.labels[name]
		p("observe once more " + name)
		o = must(w.m.Observe(w.ctx, pool, account.Label{
			Binding: name, Tenant: view.tenant, Dirty: view.dirty, Generation: view.generation, After: o.Record.Generation,
		}))
	}
	rec := o.Record
	if rec.Count == 0 && (rec.State == account.Draining || rec.State == account.Dirtying) {
		w.markDirty(name, rec.Tenant, rec.Generation, p)
	}
}

// rebuild is rule 13; each step of it can be the last.
func (w *world) rebuild(p pace) {
	w.tokens++
	token := fmt.Sprintf("t%d", w.tokens)
	if !must(w.m.BeginRebuild(w.ctx, pool, token, time.Time{}, 0)) {
		return
	}
	for _, e := range w.events {
		if e.settled && !e.waiting || e.final() {
			continue
		}
		p("seal " + e.id)
		if !e.final() {
			status := "sealed"
			if e.status == "waiting" {
				status = "waiting"
			}
			_ = w.store(e, e.stored, status, e.reply)
		}
	}
	p("read the ledger")
	g := account.NewGathering()
	for _, e := range w.events {
		if e.kind != "release" && e.status != "" && e.status != "sealed" {
			answer := e.reply
			answer.Pool = pool
			g.Answer(answer)
		}
	}
	p("read the labels")
	for name, l := range w.labels {
		g.Binding(engine.Binding{Name: name, HyperscalerType: pool, Tenant: l.tenant, Dirty: l.dirty, Generation: l.generation})
	}
	p("read the Shoots")
	for runtime, binding := range w.shoots {
		g.Shoot(engine.Shoot{Name: runtime, RuntimeID: runtime, Binding: binding})
	}
	p("install")
	if _, err := w.m.Install(w.ctx, pool, token, g.Contents().Pool(pool)); err != nil && !errors.Is(err, account.ErrNotBuilt) {
		panic(err)
	}
}
