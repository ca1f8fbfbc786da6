package integration_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// realKinds are the kinds that Gardener's own API server serves, on a shared stack
// that has it.
func realKinds(on func(*testing.T) *stack.Stack) map[gardener.Resource]accountKind {
	kinds := map[gardener.Resource]accountKind{}
	for _, resource := range []gardener.Resource{gardener.CredentialsBindings, gardener.SecretBindings} {
		kind := accountKinds()[string(resource)]
		kind.on = on
		kinds[resource] = kind
	}
	return kinds
}

// TestRealGardener holds on Gardener's own API server what holds on CRDs: what
// package gardener promises, the main job, and the life of an account from its
// claim over its Shoot to its release.
func TestRealGardener(t *testing.T) {
	t.Parallel()
	lives := map[string]func(*testing.T, accountKind){"Shoots": shootsOf, "release": releaseOf, "draining": drainingOf}
	for resource, kind := range realKinds(sharedRealStack) {
		for name, life := range lives {
			t.Run(fmt.Sprintf("%s/%s", resource, name), func(t *testing.T) {
				t.Parallel()
				life(t, kind)
			})
		}
	}
	for resource, kind := range realKinds(sharedFastStack) {
		t.Run(fmt.Sprintf("%s/main job", resource), func(t *testing.T) {
			t.Parallel()
			mainJobOf(t, kind)
		})
		t.Run(fmt.Sprintf("%s/conformance", resource), func(t *testing.T) {
			t.Parallel()
			conforms(t, sharedFastStack, resource)
		})
	}
}

// TestRealAccountWithoutSecret is an account whose Secret is gone. Gardener refuses
// every change of its binding, so it is passed over, and serves again with its Secret.
func TestRealAccountWithoutSecret(t *testing.T) {
	t.Parallel()
	for resource, kind := range realKinds(sharedRealStack) {
		t.Run(string(resource), func(t *testing.T) {
			t.Parallel()
			l := newLandscapeOf(t, kind, oneAccountRules, accounts("aws", 2))
			const broken, whole = "aws-01", "aws-02"
			l.remove(secretsResource, broken)
			l.work(daemon.Options{})
			first, second := ask("rt-1", "ga-1"), ask("rt-2", "ga-2")
			l.provision(first)
			if got := l.assigned(first); got != whole {
				t.Errorf("the first is on %s, want %s", got, whole)
			}
			l.provision(second)
			if r := l.waits(second); r.Waiting.Reason != events.WaitingPoolEmpty {
				t.Errorf("the second waits as %+v", r.Waiting)
			}
			if b := l.binding(broken); b.Tenant != "" || b.Generation != 0 {
				t.Errorf("the account without a Secret is %+v", b)
			}
			l.createSecret(broken)
			l.label(broken, map[string]any{"repaired": "true"}) // the worker sees bindings, not Secrets
			if got := l.assigned(second); got != broken {
				t.Errorf("the second is on %s, want %s", got, broken)
			}
			l.awaitSettled()
			l.holds(checker.Terms{OneAccount: true})
		})
	}
}

func (l *landscape) createSecret(name string) {
	l.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("Secret")
	o.SetName(name)
	if _, err := l.api.Resource(secretsResource).Namespace(l.stack.Target.Namespace).Create(l.ctx, o, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// TestRealGardenerRights: to change a binding, be it a label, Gardener wants the right to
// get the Secret that it refers to. The worker never uses that right.
func TestRealGardenerRights(t *testing.T) {
	t.Parallel()
	for resource, kind := range realKinds(sharedRealStack) {
		t.Run(string(resource), func(t *testing.T) {
			t.Parallel()
			l := newLandscapeOf(t, kind, oneAccountRules, accounts("aws", 1))
			group := l.bindings().Group
			rules := []any{
				rule(group, string(resource), "get", "list", "watch", "patch"),
				rule("core.gardener.cloud", "shoots", "list"),
			}
			without := l.client(l.user("without", rules), resource)
			with := l.client(l.user("with", append(rules, rule("", "secrets", "get"))), resource)
			var seen engine.Binding
			eventually(l.ctx, t, func() (err error) { // the API server learns of its Roles by a watch
				seen, err = with.Get(l.ctx, "aws-01")
				return err
			})
			mark := engine.Mark{Tenant: "ga-1", Generation: 1, Epoch: "e"}
			if _, err := without.Claim(l.ctx, seen, mark); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "not allowed to read") {
				t.Errorf("without the right to get Secrets: %v", err)
			}
			claimed, err := with.Claim(l.ctx, seen, mark)
			if err != nil {
				t.Fatalf("with the right to get Secrets: %v", err)
			}
			if refers, err := with.Refers(l.ctx, claimed.Name); err != nil || refers {
				t.Errorf("Shoots: %t, %v", refers, err)
			}
		})
	}
}

func rule(group, resource string, verbs ...any) any {
	return map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": verbs}
}

// user returns the access of a user who has only these rights in the namespace.
func (l *landscape) user(name string, rules []any) *rest.Config {
	l.t.Helper()
	config, err := l.stack.Kube.Config()
	if err != nil {
		l.t.Fatal(err)
	}
	namespace := l.stack.Target.Namespace
	config.Impersonate.UserName = name + "." + namespace
	for resource, content := range map[string]map[string]any{
		"roles": {"rules": rules},
		"rolebindings": {
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": config.Impersonate.UserName}},
		},
	} {
		o := &unstructured.Unstructured{Object: content}
		o.SetAPIVersion("rbac.authorization.k8s.io/v1")
		o.SetKind(map[string]string{"roles": "Role", "rolebindings": "RoleBinding"}[resource])
		o.SetName(name)
		gvr := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource}
		if _, err := l.api.Resource(gvr).Namespace(namespace).Create(l.ctx, o, metav1.CreateOptions{}); err != nil {
			l.t.Fatal(err)
		}
	}
	return config
}

// client is one of package gardener, without a cache.
func (l *landscape) client(config *rest.Config, resource gardener.Resource) *gardener.Client {
	l.t.Helper()
	c, err := gardener.New(config, gardener.Options{Namespace: l.stack.Target.Namespace, Resource: resource})
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// TestRealGardenerChecks pins down what Gardener's own API server does otherwise than
// CRDs, as docs/gardener.md has it.
func TestRealGardenerChecks(t *testing.T) {
	t.Parallel()
	for resource, kind := range realKinds(sharedRealStack) {
		t.Run(string(resource), func(t *testing.T) {
			t.Parallel()
			l := newLandscapeOf(t, kind, oneAccountRules, accounts("aws", 2))
			bindings := l.api.Resource(l.bindings()).Namespace(l.stack.Target.Namespace)
			old, err := bindings.Get(l.ctx, "aws-01", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if labels := old.GetLabels(); labels["provider.extensions.gardener.cloud/aws"] != "true" {
				t.Errorf("the server has added no label: %v", labels)
			}
			patch := func(body string) error {
				_, err := bindings.Patch(l.ctx, "aws-01", types.MergePatchType, []byte(body), metav1.PatchOptions{})
				return err
			}
			if err := patch(`{"metadata":{"labels":{"x":"1"}}}`); err != nil {
				t.Errorf("a patch without resourceVersion: %v", err)
			}
			stale := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"labels":{"x":"2"}}}`, old.GetResourceVersion())
			if err := patch(stale); !apierrors.IsConflict(err) {
				t.Errorf("a stale patch: %v", err)
			}
			if err := patch(`{"provider":{"type":"gcp"}}`); !apierrors.IsInvalid(err) {
				t.Errorf("a patch of the provider type: %v", err)
			}
			l.shootOn("rt-1", kind.field, "aws-01")
			shoots := l.api.Resource(shootsResource).Namespace(l.stack.Target.Namespace)
			unconfirmed := []byte(`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":null}}}`)
			if _, err := shoots.Patch(l.ctx, "c-rt-1", types.MergePatchType, unconfirmed, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := shoots.Delete(l.ctx, "c-rt-1", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("a Shoot whose deletion is not confirmed: %v", err)
			}
			byBinding := metav1.ListOptions{FieldSelector: "spec." + kind.field + "=aws-01"}
			if _, err := shoots.List(l.ctx, byBinding); !apierrors.IsBadRequest(err) {
				t.Errorf("Shoots of a binding by field selector: %v", err)
			}
		})
	}
}
