package simulation

import (
	"context"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	eventstreams "github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/worker/simulation/gate"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
	"github.com/hap-worker/hap-worker/worker/simulation/servers"
)

// armed is a fault that waits for a call.
type armed struct {
	plans.Item

	spares int // calls that it would meet and spares
}

// struck applies the first armed fault that meets the call, and reports whether there was one. It strikes
// neither a pull nor a delivery.
func (w *world) struck(c *call) bool {
	at := slices.IndexFunc(w.armed, func(a armed) bool { return meets(c, a.Item) })
	if at < 0 || c.Op == opDeliver || c.Op == opAsk {
		return false
	}
	if w.armed[at].spares--; w.armed[at].spares >= 0 {
		return false
	}
	kind := w.armed[at].Kind
	item := w.armed[at].Item
	w.armed = slices.Delete(w.armed, at, at+1)
	w.befell[kind]++
	switch kind {
	case plans.EffectLost:
		w.release(c, c.Port.Failed(c.Write), c.Op+" "+string(kind))
	case plans.Refusal:
		w.release(c, c.Port.Refused(), "is refused")
	case plans.AnswerLost:
		w.effect(c, "its answer is lost")
		w.release(c, c.Port.Failed(c.Write), "")
	case plans.EffectLate:
		w.note(c.Actor, c.Op, c.Arg, "fails, and may take effect later")
		w.gate.Abandon(c, item.M%8, c.Port.Failed(c.Write))
	case plans.Delay:
		w.note(c.Actor, c.Op, c.Arg, "is delayed")
		w.gate.Park(c, 2+item.M%30)
	case plans.RebuildCut:
		p, _ := c.By.(*process)
		return w.kill(p, item)
	}
	return true
}

// settle waits until every goroutine is blocked, and none waits for its turn. Then it passes on to the background loops
// what was asked of them (handOn), and waits until these loops are blocked too.
func (w *world) settle() {
	for synctest.Wait(); w.gate.Next(); {
		synctest.Wait()
	}
	w.gate.NoTurn()
	for _, p := range w.processes {
		p.handOn()
	}
}

// ofCalls are the faults that wait for calls, each with the number of calls that it strikes at most.
var ofCalls = map[plans.Kind]int{plans.EffectLost: 1, plans.AnswerLost: 1, plans.EffectLate: 1, plans.Refusal: 1, plans.Delay: 1, plans.RebuildCut: 3}

// befall executes one item of the plan, and reports whether it was possible. A fault of a call is only armed, and
// befall returns false: struck counts it when it meets a call.
func (w *world) befall(i plans.Item) bool {
	w.settle()
	if slices.Contains(plans.Requests, i.Kind) {
		return w.ask(i)
	}
	alive := w.alive()
	if slices.Contains(plans.OfProcesses, i.Kind) {
		return len(alive) > 0 && w.befallProcess(alive[i.N%len(alive)], i)
	}
	for n := range ofCalls[i.Kind] {
		a := armed{Item: i}
		if i.Kind == plans.RebuildCut {
			a.spares = (i.M>>4 + 17*n) % 48 // about as many as a rebuild makes
		}
		w.armed = append(w.armed, a)
	}
	if ofCalls[i.Kind] > 0 {
		return false // counted when a call meets it
	}
	switch i.Kind {
	case plans.Outage:
		w.gate.GoesDown(nil, gate.Ports[i.N%len(gate.Ports)], 1+i.M%20)
	case plans.Reconfigured:
		w.settings.Several, w.settings.Timeout, w.settings.Led = i.N%2 == 0, time.Duration(30+i.M%120)*time.Second, i.M%4 == 0
		if w.settings.Limit > 0 {
			w.settings.Limit = 1 + i.N%3
		}
		w.reconfigure(i)
	case plans.NoWaiting:
		w.settings.Timeout = 0
		w.reconfigure(i)
	case plans.Renetworked:
		if !w.plan.Networks {
			return false
		}
		w.ranges.Store(plans.NetworkRules(i.N % 2))
		for _, p := range alive {
			passes{p}.Wanted()
		}
	case plans.SecretGone:
		return w.bar(i)
	case plans.Quiet:
		w.rest()
		w.healing = false
	default:
		return w.befallNATS(i) || w.befallRedis(i) || w.befallLabels(i) || w.befallRequests(i)
	}
	w.note("fault", string(i.Kind), "", "")
	return true
}

// befallNATS applies faults of NATS.
func (w *world) befallNATS(i plans.Item) bool {
	ctx := context.Background()
	switch i.Kind {
	case plans.ConsumerGone:
		if w.broker.DeleteConsumer(events.StreamEvents, events.ConsumerWorker) != nil {
			return false
		}
	case plans.StreamGone:
		for _, q := range w.truth.requests {
			w.lose(q)
		}
		clear(w.truth.buried)
		for _, c := range w.gate.Pending(opAck, opNak, opTerm) { // an acknowledgement in flight would hit an event of the new stream
			w.release(c, nil, "is lost with its stream")
			synctest.Wait()
		}
		if w.broker.DeleteStream(events.StreamEvents) != nil {
			return false
		}
		synctest.Wait()
		w.must(w.broker.Setup())
	case plans.MessageGone:
		return w.deleteMessage(ctx, events.StreamEvents, i)
	case plans.WaitingGone:
		return w.deleteMessage(ctx, events.StreamWaiting, i)
	case plans.Junk:
		return w.junk(ctx, i)
	default:
		return false
	}
	w.note("fault", string(i.Kind), "", "")
	return true
}

// befallRedis applies faults of Redis.
func (w *world) befallRedis(i plans.Item) bool {
	m := w.masters[0]
	switch i.Kind {
	case plans.RedisEmpty:
		*m = *servers.NewMaster(m.Name)
	case plans.KeyLost:
		w.lost(m, i.M)
	case plans.RedisFull:
		w.gate.GoesDown(nil, gate.RedisWrites, 1+i.M%40)
	case plans.RedisOlder, plans.FailOver, plans.FailBack:
		if w.older == nil {
			return false
		}
		*m = *w.older.Copy(m.Name)
		m.Restart() // after a fail-over and back, too: the server has another replication history (rule 1)
	case plans.TwoMasters:
		if len(w.masters) > 1 {
			return false
		}
		other := m.Copy("redis-b")
		if i.N%3 == 0 {
			other = servers.NewMaster("redis-b") // not a replica: another Pod under the same name
		}
		other.Restart()
		w.masters = []*servers.Master{other, m}
		for n, p := range w.alive() {
			if (n+i.N)%2 == 0 {
				p.redis.Store(other)
			}
		}
	default:
		return false
	}
	w.note("fault", string(i.Kind), "", "")
	return true
}

// excuse exempts a request and its runtime from some checks: it was deleted by hand, or its replies by retention.
func (w *world) excuse(q *request) {
	q.excused = true
	w.truth.excused[q.event.RuntimeID] = true
}

// lose excuses a request that was deleted from a stream where a rebuild looks for events to seal. If the request has
// no final reply, lose also notes the step: an answer that is stored after the next rebuild may contradict that rebuild.
func (w *world) lose(q *request) {
	w.excuse(q)
	if _, final := w.truth.final[q.subject]; !final && q.lost == 0 {
		q.lost = max(1, w.steps)
	}
}

func (w *world) deleteMessage(ctx context.Context, stream string, i plans.Item) bool {
	state, err := w.broker.State(ctx, stream)
	if err != nil || state.Msgs == 0 {
		return false
	}
	m, err := w.broker.Message(ctx, stream, eventstreams.Query{Sequence: state.FirstSeq + uint64(i.N)%(state.LastSeq-state.FirstSeq+1), NextFor: ">"})
	if err != nil {
		return false
	}
	event, _ := events.Decode(m.Subject, m.Header, m.Data)
	for _, q := range w.truth.requests {
		purged := stream == events.StreamEvents && q.raw.Subject == m.Subject && q.sequence <= m.Sequence
		switch _, final := w.truth.final[q.subject]; {
		case !final && (purged || q.event.ID == event.ID && event.ID != ""):
			w.lose(q)
		case purged:
			w.truth.unread = true
		}
	}
	w.must(w.broker.Purge(ctx, stream, m.Subject, m.Sequence))
	w.note("fault", string(i.Kind), m.Subject, "")
	return true
}

// junk publishes a message that cannot be decoded.
func (w *world) junk(ctx context.Context, i plans.Item) bool {
	p := w.subjects.Prefix()
	subject := []string{p + ".provision.ga-1", p + ".reply.rt-junk.p-junk", p + ".waiting.aws.ga-1.rt-junk.p-junk", p + ".reply._epochs.in-force"}[i.N%4]
	raw := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: []byte("{")}
	if i.N%4 == 0 {
		return w.send(&request{event: events.Event{ID: fmt.Sprintf("junk-%d", i.M)}, raw: raw, subject: "none"}) != nil
	}
	_, err := w.broker.Publish(ctx, raw)
	w.note("fault", string(i.Kind), subject, "")
	return err == nil
}

// befallLabels changes bindings as other writers do.
func (w *world) befallLabels(i plans.Item) bool {
	used := func(b engine.Binding) bool {
		return slices.ContainsFunc(w.truth.all, func(l *life) bool { return l.binding == b.Name && !l.leaves })
	}
	change := func(which func(engine.Binding) bool, how func(*engine.Binding)) bool {
		found := w.bindings(which)
		if len(found) == 0 {
			return false
		}
		b := found[i.N%len(found)]
		how(&b)
		if i.Kind != plans.MovedUsed {
			w.truth.edited[b.Name] = true
		}
		w.note("fault", string(i.Kind), b.Name, "")
		w.garden.Put(b)
		return true
	}
	switch i.Kind {
	case plans.LabelClaimed:
		return change(func(b engine.Binding) bool { return b.Tenant == "" && !b.Dirty && !b.Deleting }, func(b *engine.Binding) { b.Tenant = plans.Tenants[i.M%len(plans.Tenants)] })
	case plans.LabelCleaned:
		return change(func(b engine.Binding) bool { return b.Dirty }, func(b *engine.Binding) { b.Dirty, b.Tenant = false, "" })
	case plans.LabelDirty:
		return change(func(b engine.Binding) bool { return b.Tenant != "" && !b.Dirty }, func(b *engine.Binding) { b.Dirty = true })
	case plans.Cordoned:
		return change(func(engine.Binding) bool { return true }, func(b *engine.Binding) { b.Cordoned = !b.Cordoned })
	case plans.Added:
		name := fmt.Sprintf("b-%d", 20+i.N%20)
		if _, there := w.truth.labels[name]; there || w.truth.edited[name] {
			return false
		}
		w.note("fault", string(i.Kind), name, "")
		w.garden.Put(engine.Binding{Name: name, HyperscalerType: w.pools[i.M%2].HyperscalerType})
		return true
	case plans.Moved, plans.MovedUsed:
		return change(func(b engine.Binding) bool {
			return used(b) == (i.Kind == plans.MovedUsed) && (b.Tenant != "") == (i.Kind == plans.MovedUsed)
		},
			func(b *engine.Binding) {
				if b.HyperscalerType == "aws" {
					b.HyperscalerType = "gcp"
				} else {
					b.HyperscalerType = "aws"
				}
			})
	case plans.Deleted:
		if i.M%2 == 0 { // a finalizer keeps it
			return change(func(b engine.Binding) bool { return !b.Deleting }, func(b *engine.Binding) { b.Deleting = true })
		}
		found := w.bindings(func(b engine.Binding) bool { return !used(b) })
		if len(found) < 2 {
			return false
		}
		b := found[i.N%len(found)]
		w.truth.edited[b.Name] = true
		w.note("fault", string(i.Kind), b.Name, "")
		w.garden.Delete(b.Name)
		return true
	}
	return false
}

// bar has Gardener refuse writes on a binding for a while, as it does while the Secret of the binding is gone.
func (w *world) bar(i plans.Item) bool {
	found := w.bindings(func(engine.Binding) bool { return true })
	if len(found) == 0 {
		return false
	}
	b := found[i.N%len(found)]
	w.barred[b.Name] = 5 + i.M%120
	w.note("fault", string(i.Kind), b.Name, "")
	return true
}

// befallRequests publishes requests that no publisher should make, and very large ones.
func (w *world) befallRequests(i plans.Item) bool {
	all := slices.DeleteFunc(slices.Clone(w.truth.requests), func(q *request) bool { return q.event.Provision == nil })
	if len(all) == 0 {
		return false
	}
	was := all[i.N%len(all)].event
	other := plans.Tenants[(slices.Index(plans.Tenants, was.Provision.GlobalAccountID)+1)%len(plans.Tenants)]
	p := *was.Provision
	p.GlobalAccountID, p.ReplyTo = other, "_INBOX."+other
	switch i.Kind {
	case plans.IDTwice:
		was.Provision, was.ReplyTo = &p, p.ReplyTo
		return w.publish(was) != nil
	case plans.RuntimeTwice:
		if i.M%2 == 0 {
			return w.deprovision(was.RuntimeID, other)
		}
		return w.publish(events.Event{Type: events.TypeProvision, ID: w.id("x"), RuntimeID: was.RuntimeID, ReplyTo: p.ReplyTo, Provision: &p}) != nil
	case plans.TypeTwice:
		return w.publish(events.Event{Type: events.TypeDeprovision, ID: was.ID, RuntimeID: was.RuntimeID, Deprovision: &events.Deprovision{
			RuntimeID: was.RuntimeID, GlobalAccountID: was.Provision.GlobalAccountID,
		}}) != nil
	case plans.Large:
		return w.askLarge(i)
	}
	return false
}
