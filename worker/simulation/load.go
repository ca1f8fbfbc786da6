package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
)

// request is a published event.
type request struct {
	event    events.Event
	subject  string // of its reply
	sequence uint64 // in HAP_EVENTS
	tenant   string
	raw      *nats.Msg
	excused  bool  // see excuse
	lost     int   // the step after which it was deleted without a final reply; 0 if it was not
	since    int   // the step at which it was published
	cleaned  int64 // of a release: the claim after which the account was cleaned, 0 for none
}

// client is the publishers' knowledge of a runtime.
type client struct {
	id, tenant, plan string
	leaves           bool     // its tenant, or an operator, has deprovisioned it (see world.leaves)
	ended            []string // who has deprovisioned it: tenants, "" for an operator
}

func (w *world) publish(e events.Event) *request {
	e.Source = "/broker"
	msg, err := events.Publication(w.subjects, e)
	if err != nil { // a client of package events refuses it
		return nil
	}
	r := &request{event: e, subject: e.ReplySubject(w.subjects), raw: msg}
	switch {
	case e.Provision != nil:
		r.tenant = e.Provision.GlobalAccountID
	case e.Deprovision != nil:
		r.tenant = e.Deprovision.GlobalAccountID
	}
	return w.send(r)
}

func (w *world) send(r *request) *request {
	ack, err := w.broker.Publish(context.Background(), r.raw)
	if err != nil {
		w.note("", "not published", r.event.ID, err.Error())
		return nil
	}
	r.sequence, r.since = ack.Sequence, w.steps
	if !ack.Duplicate {
		w.truth.requests = append(w.truth.requests, r)
		if by, owned := w.truth.owned[r.subject]; r.event.Deprovision != nil && owned && by == r.tenant { // its id is taken already, so no further reply calls taken
			w.leaves(r.event.RuntimeID, r.tenant)
		}
	}
	w.note("publisher", string(r.event.Type), r.event.ID, "for "+r.event.RuntimeID+r.event.Binding+" of "+r.tenant)
	return r
}

// ask executes a request of the plan, and reports whether it was possible.
func (w *world) ask(i plans.Item) bool {
	switch i.Kind {
	case plans.Provision:
		return w.askProvision(i)
	case plans.Again:
		if len(w.truth.requests) == 0 {
			return false
		}
		all := w.truth.requests
		if i.M%2 == 0 { // recent requests may be in flight
			all = all[max(0, len(all)-6):]
		}
		again := *all[i.N%len(all)]
		again.raw = &nats.Msg{Subject: again.raw.Subject, Header: again.raw.Header, Data: again.raw.Data}
		again.raw.Header.Del(jetstream.MsgIDHeader)
		return w.send(&again) != nil
	case plans.Another:
		rt := w.oneRuntime(i.N, func(rt *client) bool { return !rt.leaves })
		return rt != nil && w.provision(rt, i) != nil
	case plans.Deprovision:
		return w.askDeprovision(i)
	case plans.Release:
		return w.askRelease(i)
	case plans.Resolve:
		return w.publish(events.Event{Type: events.TypeResolve, ID: w.id("v"), RuntimeID: plans.Runtimes[len(plans.Runtimes)-1], Resolve: &events.Resolve{
			RuntimeID: plans.Runtimes[len(plans.Runtimes)-1], Interface: events.Interface{Path: "cap.interface.nothing", Revision: "1.0.0"},
		}}) != nil
	case plans.Cluster:
		rt := w.oneRuntime(i.N, func(rt *client) bool { return !rt.leaves && w.truth.lives[rt.id] != nil && !w.truth.clusters[rt.id] })
		if rt == nil {
			return false
		}
		w.truth.clusters[rt.id] = true
		life := w.truth.lives[rt.id]
		w.garden.PutShoot(engine.Shoot{Name: "shoot-" + rt.id, RuntimeID: rt.id, Binding: life.binding, Tenant: rt.tenant})
		w.note("publisher", "creates the Shoot of", rt.id, "on "+life.binding)
		return true
	case plans.ClusterGone:
		left := w.leftShoots()
		if len(left) == 0 {
			return false
		}
		w.deleteShoots(left[i.N%len(left)])
		return true
	}
	return false
}

func (w *world) id(prefix string) string {
	w.truth.ids++
	return fmt.Sprintf("%s-%d", prefix, w.truth.ids)
}

func (w *world) askProvision(i plans.Item) bool {
	t := &w.truth
	if len(t.runtimes) >= len(plans.Runtimes)-2 {
		return false
	}
	rt := &client{id: plans.Runtimes[len(t.runtimes)], tenant: plans.Tenants[i.N%w.plan.Tenants], plan: "aws"}
	if i.M%4 == 0 {
		rt.plan = "gcp"
	}
	t.runtimes = append(t.runtimes, rt)
	return w.provision(rt, i) != nil
}

func (w *world) provision(rt *client, i plans.Item) *request {
	p := &events.Provision{RuntimeID: rt.id, GlobalAccountID: rt.tenant, Plan: rt.plan, ReplyTo: "_INBOX." + rt.tenant}
	if i.M%5 == 0 {
		p.Deadline = time.Now().Add(time.Duration(i.M%60) * time.Second)
		if i.M%60 > 55 {
			p.Deadline = plans.FarOff
		}
	}
	if w.plan.Networks {
		p.Cluster = &events.Cluster{Name: "c-" + rt.id, Namespace: "garden"}
	}
	return w.publish(events.Event{Type: events.TypeProvision, ID: w.id("p"), RuntimeID: rt.id, ReplyTo: p.ReplyTo, Provision: p})
}

// leftShoots returns the runtimes that were deprovisioned and whose Shoots still exist.
func (w *world) leftShoots() (ids []string) {
	w.must(w.garden.Shoots(context.Background(), func(s engine.Shoot) error {
		l := w.truth.lives[s.RuntimeID] // of the tenant that was answered, which may not be the first that asked
		if l != nil && l.leaves || slices.ContainsFunc(w.truth.runtimes, func(rt *client) bool { return rt.id == s.RuntimeID && rt.leaves }) {
			ids = append(ids, s.RuntimeID)
		}
		return nil
	}))
	return ids
}

func (w *world) deleteShoots(runtimes ...string) {
	for _, runtime := range runtimes {
		w.note("publisher", "deletes the Shoot of", runtime, "")
		w.garden.DeleteShoot("shoot-" + runtime)
	}
}

// askDeprovision publishes a deprovision. In two of three cases the Shoot is deleted before. If a Shoot still
// exists when the event is handled, its account drains until the Shoot is gone (rule 8).
func (w *world) askDeprovision(i plans.Item) bool {
	from := 0
	if i.M>>10%2 == 0 { // of recent runtimes, the provision may be in flight
		from = max(0, len(w.truth.runtimes)-4)
	}
	rt := w.oneRuntime(i.N, func(rt *client) bool {
		return (!rt.leaves || i.M%8 == 0) && slices.Index(w.truth.runtimes, rt) >= from
	})
	if rt == nil {
		return false
	}
	if i.M%3 > 0 {
		w.garden.DeleteShoot("shoot-" + rt.id)
	}
	by := rt.tenant
	if i.M>>12%8 == 0 { // as an operator does
		by = ""
	}
	w.leaves(rt.id, by)
	return w.deprovision(rt.id, by)
}

// deprovision publishes a deprovision by a tenant, or by an operator if by is "".
func (w *world) deprovision(runtime, by string) bool {
	return w.publish(events.Event{Type: events.TypeDeprovision, ID: w.id("d"), RuntimeID: runtime, Deprovision: &events.Deprovision{
		RuntimeID: runtime, GlobalAccountID: by,
	}}) != nil
}

// askRelease publishes a release of a dirty account, as the cleanup job does, or of any account.
func (w *world) askRelease(i plans.Item) bool {
	dirty := w.bindings(func(b engine.Binding) bool { return b.Dirty })
	if len(dirty) == 0 || i.N%16 == 0 {
		if dirty = w.bindings(func(engine.Binding) bool { return i.N%4 == 0 }); len(dirty) == 0 {
			return false
		}
	}
	b := dirty[i.M%len(dirty)]
	r := &events.Release{Binding: b.Name}
	if i.N%2 == 0 {
		generation := b.Generation
		r.Generation = &generation
	}
	q := w.publish(events.Event{Type: events.TypeRelease, ID: w.id("r"), Binding: b.Name, Release: r})
	if q != nil && b.Dirty {
		q.cleaned = b.Generation
	}
	return q != nil
}

// bindings returns the bindings in Gardener that match, by name.
func (w *world) bindings(which func(engine.Binding) bool) []engine.Binding {
	var found []engine.Binding
	for b := range w.garden.All() {
		if which(b) {
			found = append(found, b)
		}
	}
	slices.SortFunc(found, func(a, b engine.Binding) int { return strings.Compare(a.Name, b.Name) })
	return found
}

func (w *world) oneRuntime(n int, which func(*client) bool) *client {
	var found []*client
	for _, rt := range w.truth.runtimes {
		if which(rt) {
			found = append(found, rt)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[n%len(found)]
}

// askLarge publishes a provision of nearly the largest permitted size.
func (w *world) askLarge(i plans.Item) bool {
	if len(w.truth.runtimes) >= len(plans.Runtimes)-2 {
		return false
	}
	rt := &client{id: plans.Runtimes[len(w.truth.runtimes)], tenant: plans.Tenants[i.N%w.plan.Tenants], plan: "aws"}
	e := events.Event{Type: events.TypeProvision, ID: w.id("p"), Source: "/broker", RuntimeID: rt.id, Provision: &events.Provision{
		RuntimeID: rt.id, GlobalAccountID: rt.tenant, Plan: rt.plan, Cluster: &events.Cluster{Name: "c-" + rt.id, Namespace: "garden"},
	}}
	w.must(plans.Fill(e))
	w.truth.runtimes = append(w.truth.runtimes, rt)
	return w.publish(e) != nil
}
