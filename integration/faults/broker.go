package faults

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/stack"
)

var shootResource = schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "shoots"}

// accountKind is a kind of object that represents accounts.
type accountKind struct {
	resource schema.GroupVersionResource
	field    string // the field of a Shoot's spec that names the account
}

var accountKinds = map[gardener.Resource]accountKind{
	gardener.CredentialsBindings: {
		schema.GroupVersionResource{Group: "security.gardener.cloud", Version: "v1alpha1", Resource: "credentialsbindings"},
		"credentialsBindingName",
	},
	gardener.SecretBindings: {
		schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "secretbindings"},
		"secretBindingName",
	},
}

// runtimeKey is the annotation of a Shoot that names its runtime.
const runtimeKey = "infrastructuremanager.kyma-project.io/runtime-id"

// broker publishes like Kyma Environment Broker and the cleanup job, and creates and deletes Shoots. It is
// well-behaved: it creates no Shoot before the answer, or once it has begun to deprovision.
type broker struct {
	*book

	ctx       context.Context // ends with the run
	js        jetstream.JetStream
	subjects  events.Subjects
	kube      dynamic.Interface
	namespace string
	accounts  accountKind
	busy      sync.WaitGroup // publishes and Shoot operations in flight
	cleaning  sync.Map       // claims of bindings that the cleanup job works on
}

// live is the number of runtimes that the broker aims at.
const live = 75

// step performs one random action of a broker.
func (b *broker) step() {
	room := live - b.inState(assigned) - b.inState(asked)
	choices := []struct {
		weight int
		do     func()
	}{
		{5 + max(0, min(room, 40)), func() { b.begin(b.tenant()) }},
		{3, b.burst},
		{10, b.repeat},
		{6, b.askAgain},
		{6 + max(0, -room), func() { b.end(b.some(func(r *runtime) bool { return r.state == assigned })) }},
		{16, func() { b.end(b.some(func(r *runtime) bool { return r.state == assigned })) }},
		{4, func() { b.end(b.some(func(r *runtime) bool { return r.state == asked || r.state == refused })) }},
		{3, b.endFirst},
		{5, b.endAgain},
		{2, b.staleRelease},
		{1, b.nonsense},
	}
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	n := b.dice(total)
	for _, c := range choices {
		if n -= c.weight; n < 0 {
			c.do()
			return
		}
	}
}

func (b *broker) tenant() string {
	all := tenants()
	return all[b.dice(len(all))]
}

// newRuntime returns a new runtime, which has not been requested yet.
func (b *broker) newRuntime(tenant string) *runtime {
	w := wishes()[b.dice(len(wishes()))]
	b.mu.Lock()
	defer b.mu.Unlock()
	rt := &runtime{id: fmt.Sprintf("rt-%05d", len(b.order)), tenant: tenant, wish: w, state: asked}
	b.runtimes[rt.id] = rt
	b.order = append(b.order, rt)
	return rt
}

// begin requests a new runtime.
func (b *broker) begin(tenant string) *runtime {
	rt := b.newRuntime(tenant)
	b.count("provision")
	b.publish(b.provision(rt), "")
	return rt
}

// burst requests several runtimes for one tenant at once.
func (b *broker) burst() {
	tenant := b.tenant()
	for range 3 + b.dice(4) {
		b.begin(tenant)
	}
}

// provision returns the next request for a runtime.
func (b *broker) provision(rt *runtime) events.Event {
	var deadline time.Time
	if b.dice(5) == 0 {
		deadline = time.Now().Add(b.between(2000, 20000))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	rt.requests++
	e := events.Event{
		Type: events.TypeProvision, ID: fmt.Sprintf("ask-%s-%d", rt.id, rt.requests), Source: "/broker", RuntimeID: rt.id,
		Provision: &events.Provision{
			RuntimeID: rt.id, GlobalAccountID: rt.tenant, Plan: rt.wish.plan, PlatformRegion: rt.wish.platformRegion,
			HyperscalerRegion: "eu-central-1", Provider: rt.wish.provider, ShootName: "c-" + rt.id, Deadline: deadline,
			Cluster: clusterOf(rt),
		},
	}
	if rt.requests == 1 {
		rt.first = e
	}
	return e
}

// repeat publishes a first provision again, as another message.
func (b *broker) repeat() {
	rt := b.some(func(r *runtime) bool { return r.first.ID != "" })
	if rt == nil {
		return
	}
	b.count("provision again")
	b.publish(rt.first, fmt.Sprintf("again/%s/%d", rt.first.ID, b.dice(1<<30)))
}

// askAgain requests a known runtime under a new request id, even if it is leaving or gone.
func (b *broker) askAgain() {
	rt := b.some(func(r *runtime) bool { return r.first.ID != "" })
	if rt == nil {
		return
	}
	b.count("provision, new request")
	b.publish(b.provision(rt), "")
}

// end deprovisions a runtime. A Shoot is deleted before the event is published, or sometimes after that.
func (b *broker) end(rt *runtime) {
	if rt == nil {
		return
	}
	b.mu.Lock()
	made := rt.made
	rt.state = leaving
	b.mu.Unlock()
	late := made != nil && b.dice(5) == 0
	e := b.deprovision(rt)
	b.count("deprovision")
	wait := b.between(500, 8000)
	b.busy.Go(func() {
		if made != nil {
			<-made // the deprovision must not be published before the Shoot is created
		}
		if late {
			b.count("deprovision before the Shoot has gone")
			b.publish(e, "")
			pause(b.ctx, wait)
		}
		if made != nil {
			b.deleteShoot(rt)
		}
		if !late {
			b.publish(e, "")
		}
	})
}

func (b *broker) deprovision(rt *runtime) events.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	rt.requests++
	e := events.Event{
		Type: events.TypeDeprovision, ID: fmt.Sprintf("bye-%s-%d", rt.id, rt.requests), Source: "/broker", RuntimeID: rt.id,
		Deprovision: &events.Deprovision{RuntimeID: rt.id, GlobalAccountID: rt.tenant},
	}
	rt.last = e
	return e
}

// endFirst publishes the deprovision of a runtime before its provision.
func (b *broker) endFirst() {
	rt := b.newRuntime(b.tenant())
	b.mu.Lock()
	rt.state = leaving
	b.mu.Unlock()
	e := b.deprovision(rt)
	b.count("deprovision before provision")
	wait := b.between(0, 3000)
	b.busy.Go(func() {
		if b.deliver(e, "") && pause(b.ctx, wait) {
			b.publish(b.provision(rt), "")
		}
	})
}

// endAgain repeats a deprovision, under the same or another request id. A deprovision that is not published
// yet is not repeated: its Shoot may still exist.
func (b *broker) endAgain() {
	rt := b.some(func(r *runtime) bool { return r.state == leaving && !b.departed[r.id].IsZero() })
	if rt == nil {
		return
	}
	b.count("deprovision again")
	if b.dice(2) == 0 {
		b.publish(b.deprovision(rt), "")
		return
	}
	b.mu.Lock()
	e := rt.last
	b.mu.Unlock()
	b.publish(e, fmt.Sprintf("again/%s/%d", e.ID, b.dice(1<<30)))
}

// nonsense publishes an event that can never be processed.
func (b *broker) nonsense() {
	if b.dice(2) == 0 {
		rt := b.newRuntime(b.tenant())
		b.mu.Lock()
		rt.wish, rt.state = wish{plan: "mainframe"}, leaving
		b.mu.Unlock()
		b.count("provision of an unknown plan")
		b.publish(b.provision(rt), "")
		return
	}
	b.count("unreadable message")
	subject, id := b.subjects.Provision(b.tenant()), fmt.Sprintf("nonsense/%d", b.dice(1<<30))
	b.busy.Go(func() {
		sequence, ok := b.send(&nats.Msg{Subject: subject, Data: []byte("{"), Header: nats.Header{"Nats-Msg-Id": {id}}})
		b.mu.Lock()
		defer b.mu.Unlock()
		if ok {
			b.unreadable = append(b.unreadable, sequence)
		}
	})
}

// publish publishes an event in the background. Without msgID, the message id is that of the contract.
func (b *broker) publish(e events.Event, msgID string) {
	b.busy.Go(func() { b.deliver(e, msgID) })
}

// deliver publishes an event until the stream acknowledges it. It returns false if the run ends before, or if the
// event cannot be encoded.
func (b *broker) deliver(e events.Event, msgID string) bool {
	owner := e.RuntimeID
	var subject string
	switch {
	case e.Provision != nil:
		subject = b.subjects.Provision(e.Provision.GlobalAccountID)
	case e.Deprovision != nil:
		subject = b.subjects.Deprovision(e.Deprovision.GlobalAccountID)
	default:
		owner = "of the binding " + e.Binding
		subject = b.subjects.Release(e.Binding)
	}
	data, err := events.EncodeEvent(e)
	if err != nil {
		b.failed("encode: " + err.Error())
		return false
	}
	if msgID == "" {
		msgID = string(e.Type) + "/" + e.ID
	}
	b.wrote(owner, e, e.ReplySubject(b.subjects))
	_, ok := b.send(&nats.Msg{Subject: subject, Data: data, Header: nats.Header{
		"Content-Type": {events.ContentType}, "Nats-Msg-Id": {msgID},
	}})
	return ok
}

// send publishes msg until the stream acknowledges it, or the run ends. The stream drops repeats, because they have the
// same message id.
func (b *broker) send(msg *nats.Msg) (sequence uint64, ok bool) {
	for {
		ctx, cancel := context.WithTimeout(b.ctx, 2*time.Second)
		ack, err := b.js.PublishMsg(ctx, msg)
		cancel()
		if err == nil {
			return ack.Sequence, true
		}
		if !pause(b.ctx, 200*time.Millisecond) {
			b.failed(fmt.Sprintf("%s was never published: %v", msg.Subject, err))
			return 0, false
		}
	}
}

// createShoot creates the Shoot of an assigned runtime, unless the runtime is leaving or has one already.
func (b *broker) createShoot(id, binding string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rt := b.runtimes[id]
	if rt == nil || rt.state == leaving {
		return
	}
	rt.state = assigned
	if rt.made != nil {
		return
	}
	made := make(chan struct{})
	rt.cluster, rt.made = binding, made
	b.clusters[id] = &checker.Cluster{Runtime: id, Binding: binding}
	spec := stack.ShootSpec(cmp.Or(rt.wish.provider, rt.wish.plan), b.accounts.field, binding)
	shoot := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	shoot.SetAPIVersion("core.gardener.cloud/v1beta1")
	shoot.SetKind("Shoot")
	shoot.SetName("c-" + id)
	shoot.SetAnnotations(map[string]string{runtimeKey: id, "confirmation.gardener.cloud/deletion": "true"})
	b.busy.Go(func() {
		defer close(made)
		b.insist("create Shoot of "+id, func(ctx context.Context) error {
			_, err := b.kube.Resource(shootResource).Namespace(b.namespace).Create(ctx, shoot, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	})
}

func (b *broker) deleteShoot(rt *runtime) {
	b.mu.Lock()
	b.clusters[rt.id].Gone = time.Now()
	b.mu.Unlock()
	b.insist("delete Shoot of "+rt.id, func(ctx context.Context) error {
		err := b.kube.Resource(shootResource).Namespace(b.namespace).Delete(ctx, "c-"+rt.id, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// insist repeats an operation until it succeeds or the run ends.
func (b *broker) insist(what string, do func(context.Context) error) {
	for {
		ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
		err := do(ctx)
		cancel()
		if err == nil {
			return
		}
		if !pause(b.ctx, 200*time.Millisecond) {
			b.failed(what + ": " + err.Error())
			return
		}
	}
}
