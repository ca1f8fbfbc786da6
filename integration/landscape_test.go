package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/faulty"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
	workerconfig "github.com/hap-worker/hap-worker/worker/config"
)

var (
	bindingsResource = schema.GroupVersionResource{Group: "security.gardener.cloud", Version: "v1alpha1", Resource: "credentialsbindings"}
	secretsResource  = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	shootsResource   = schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "shoots"}
)

// landscape has NATS, Redis and a namespace for one test, on the Kubernetes API that all tests
// share. The test starts its workers in this process. They process at once the events that
// the test published before.
type landscape struct {
	*publisher
	api     dynamic.Interface
	workers atomic.Int32
}

// landscapes numbers the landscapes, so that each has another namespace.
var landscapes atomic.Int32

// newLandscape makes a landscape. config is the worker's configuration without the section
// gardener.
func newLandscape(t *testing.T, config string, accounts []stack.Account) *landscape {
	t.Helper()
	return newLandscapeOf(t, accountKind{}, config, accounts)
}

// newLandscapeOf makes a landscape whose accounts are objects of a kind.
func newLandscapeOf(t *testing.T, kind accountKind, config string, accounts []stack.Account) *landscape {
	t.Helper()
	kube := kind.on
	if kube == nil {
		kube = sharedStack
	}
	config = fmt.Sprintf("%s\ngardener: {namespace: garden-%d%s}\n", config, landscapes.Add(1), kind.gardener)
	return landscapeOn(t, startStack(t, stack.Options{Kube: kube(t).Kube, Config: []byte(config), Accounts: accounts}))
}

// landscapeOn makes a landscape on a stack that only this test uses.
func landscapeOn(t *testing.T, s *stack.Stack) *landscape {
	t.Helper()
	kube, err := s.Kube.Config()
	if err != nil {
		t.Fatal(err)
	}
	api, err := dynamic.NewForConfig(kube)
	if err != nil {
		t.Fatal(err)
	}
	l := &landscape{publisher: newPublisher(t, s), api: api}
	c, err := workerconfig.Load(s.Config, nil)
	if err != nil {
		t.Fatal(err)
	}
	streams := storage.Options{Manage: true, MaxAckPending: c.NATS.MaxAckPending, AckWait: c.Worker.AckWait}
	if _, err := storage.Setup(l.ctx, l.js, streams); err != nil {
		t.Fatal(err)
	}
	return l
}

// accounts returns n bindings of a hyperscaler type. The type begins their names.
func accounts(kind string, n int) []stack.Account {
	out := make([]stack.Account, n)
	for i := range out {
		out[i] = stack.Account{Name: fmt.Sprintf("%s-%02d", strings.ReplaceAll(kind, "_", "-"), i+1), HyperscalerType: kind}
	}
	return out
}

// faultyAPI returns a proxy in front of the Kubernetes API, and an environment with which a
// worker uses the proxy.
func (l *landscape) faultyAPI() (*faulty.KubeAPI, []string) {
	l.t.Helper()
	config, err := l.stack.Kube.Config()
	if err != nil {
		l.t.Fatal(err)
	}
	proxy, err := faulty.NewKubeAPI(config)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(proxy.Close)
	path := filepath.Join(l.t.TempDir(), "kubeconfig")
	if err := proxy.WriteKubeconfig(path); err != nil {
		l.t.Fatal(err)
	}
	return proxy, []string{"HAP_GARDENER_KUBECONFIG=" + path}
}

// edit rewrites the worker's configuration.
func (l *landscape) edit(replace ...string) {
	l.t.Helper()
	content, err := os.ReadFile(l.stack.Config)
	if err != nil {
		l.t.Fatal(err)
	}
	edited := strings.NewReplacer(replace...).Replace(string(content))
	if edited == string(content) {
		l.t.Fatalf("nothing of %q is in\n%s", replace, content)
	}
	if err := os.WriteFile(l.stack.Config, []byte(edited), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// label sets labels of a binding, like an operator by hand; nil removes a label.
func (l *landscape) label(binding string, labels map[string]any) {
	l.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		l.t.Fatal(err)
	}
	_, err = l.api.Resource(l.bindings()).Namespace(l.stack.Target.Namespace).
		Patch(l.ctx, binding, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
}

// bindings is the resource of the landscape's accounts.
func (l *landscape) bindings() schema.GroupVersionResource {
	for _, r := range []schema.GroupVersionResource{secretBindings, secretsResource} {
		if r.Resource == l.stack.Target.Resource {
			return r
		}
	}
	return bindingsResource
}

// create creates more bindings.
func (l *landscape) create(accounts ...stack.Account) {
	l.t.Helper()
	config, err := l.stack.Kube.Config()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := stack.CreateAccounts(l.ctx, config, l.stack.Target, accounts); err != nil {
		l.t.Fatal(err)
	}
}

// remove deletes a binding or a Shoot.
func (l *landscape) remove(resource schema.GroupVersionResource, name string) {
	l.t.Helper()
	if err := l.api.Resource(resource).Namespace(l.stack.Target.Namespace).Delete(l.ctx, name, metav1.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// shoot makes a Shoot of a runtime on a binding.
func (l *landscape) shoot(runtime, binding string) {
	l.t.Helper()
	l.shootOn(runtime, "credentialsBindingName", binding)
}

// shootOn creates a Shoot of a runtime that Gardener's own API server accepts. A field of its
// spec names the binding or Secret that it uses.
func (l *landscape) shootOn(runtime, field, binding string) {
	l.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": stack.ShootSpec(l.providerOf(field, binding), field, binding)}}
	o.SetAPIVersion("core.gardener.cloud/v1beta1")
	o.SetKind("Shoot")
	o.SetName("c-" + runtime)
	o.SetAnnotations(map[string]string{
		"infrastructuremanager.kyma-project.io/runtime-id": runtime,
		"confirmation.gardener.cloud/deletion":             "true", // Gardener deletes a Shoot only with this annotation
	})
	if _, err := l.api.Resource(shootsResource).Namespace(l.stack.Target.Namespace).Create(l.ctx, o, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// providerOf returns the provider type of the object that a field of a Shoot names: a Shoot
// must have the same type. With CRDs, the object need not exist.
func (l *landscape) providerOf(field, binding string) string {
	l.t.Helper()
	resource := credentialsBindings
	if field == "secretBindingName" {
		resource = secretBindings
	}
	o, err := l.api.Resource(resource).Namespace(l.stack.Target.Namespace).Get(l.ctx, binding, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "aws"
	}
	if err != nil {
		l.t.Fatal(err)
	}
	provider, _, err := unstructured.NestedString(o.Object, "provider", "type")
	if err != nil {
		l.t.Fatal(err)
	}
	return provider
}

// binding reads a binding from the API.
func (l *landscape) binding(name string) engine.Binding {
	l.t.Helper()
	b, err := sources(l.t, l.stack, l.js, l.subjects).Gardener.Get(l.ctx, name)
	if err != nil {
		l.t.Fatal(err)
	}
	return b
}

// provision publishes a provision event.
func (l *landscape) provision(runtimes ...events.Event) {
	l.t.Helper()
	for _, e := range runtimes {
		l.publish(e, "")
	}
	l.flush()
}

// answered waits for the final reply to an event.
func (l *landscape) answered(e events.Event) events.Reply {
	l.t.Helper()
	return l.awaitReply(e, events.Reply.Final)
}

// waits returns the reply which says that an event waits, as soon as it is stored.
func (l *landscape) waits(e events.Event) events.Reply {
	l.t.Helper()
	return l.awaitReply(e, func(r events.Reply) bool { return r.Status == events.StatusWaiting })
}

func (l *landscape) awaitReply(e events.Event, enough func(events.Reply) bool) (r events.Reply) {
	l.t.Helper()
	eventually(l.ctx, l.t, func() error {
		if r = l.reply(e.ReplySubject(l.subjects)); !enough(r) {
			return fmt.Errorf("the %s of %s%s is %q %+v", e.Type, e.RuntimeID, e.Binding, r.Status, r.Error)
		}
		return nil
	})
	return r
}

// assigned waits for the answer to an event and returns its binding.
func (l *landscape) assigned(e events.Event) string {
	l.t.Helper()
	r := l.answered(e)
	if r.Status != events.StatusAssigned {
		l.t.Fatalf("the provision of %s is %s %+v, want a binding", e.RuntimeID, r.Status, r.Error)
	}
	return r.Binding.Name
}

// depart publishes a deprovision event.
func (l *landscape) depart(e events.Event) {
	l.t.Helper()
	l.deprovision(e)
	l.flush()
}

// free publishes a release event.
func (l *landscape) free(e events.Event) {
	l.t.Helper()
	l.send(e, l.subjects.Release(e.Binding), "")
	l.flush()
}

// record waits until Redis has a record of the binding that the condition accepts.
func (l *landscape) record(pool, binding string, enough func(account.Record) bool) account.Record {
	l.t.Helper()
	store := sources(l.t, l.stack, l.js, l.subjects).Counters
	var rec account.Record
	eventually(l.ctx, l.t, func() (err error) {
		if rec, err = store.Binding(l.ctx, pool, binding); err == nil && !enough(rec) {
			err = fmt.Errorf("the record of %s is %+v", binding, rec)
		}
		return err
	})
	return rec
}

// holds checks all invariants, and fails the test for each one that is broken.
func (l *landscape) holds(terms checker.Terms) {
	l.t.Helper()
	for _, violation := range l.facts().Violations(terms) {
		l.t.Error(violation)
	}
}
