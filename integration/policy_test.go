package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
)

const postgres = "cap.interface.database.postgresql.install"

// forProvider is a policy that wants PostgreSQL of one hyperscaler.
func forProvider(name string) string {
	return fmt.Sprintf("apiVersion: 0.1.0\nrules:\n  %s:\n    oneOf:\n    - implementationConstraints: {attributes: [{path: cap.attribute.cloud.provider.%s}]}\n", postgres, name)
}

// withCatalog is a landscape whose workers have the example catalog.
func withCatalog(t *testing.T, accounts []stack.Account) *landscape {
	t.Helper()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "deploy", "policy")
	instances := filepath.Join(t.TempDir(), "typeinstances.yaml")
	has := "- {id: i-1, typeRef: {path: cap.type.aws.auth.credentials, revision: 0.1.0}}\n- {id: i-2, typeRef: {path: cap.type.azure.auth.service-principal, revision: 0.1.0}}\n"
	if err := os.WriteFile(instances, []byte(has), 0o600); err != nil {
		t.Fatal(err)
	}
	return newLandscape(t, oneAccountRules+fmt.Sprintf("policy: {catalog: %q, typeInstances: %q, namespace: default}\n",
		filepath.Join(dir, "catalog"), instances), accounts)
}

// policy writes the ConfigMap of the landscape, which has a separate name.
func (l *landscape) policy(document string) {
	l.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"policy.yaml": document}}}
	o.SetAPIVersion("v1")
	o.SetKind("ConfigMap")
	o.SetName("hap-policy")
	_, err := l.api.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default").
		Apply(l.ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *landscape) resolve(id string) events.Reply {
	l.t.Helper()
	return l.answered(l.asksFor(id))
}

// asksFor publishes a request for the implementation of an interface.
func (l *landscape) asksFor(id string) events.Event {
	l.t.Helper()
	e := events.Event{Type: events.TypeResolve, ID: id, Source: "/test", RuntimeID: "rt-" + id,
		Resolve: &events.Resolve{RuntimeID: "rt-" + id, Interface: events.Interface{Path: postgres}}}
	l.send(e, l.subjects.Resolve(e.RuntimeID), "")
	l.flush()
	return e
}

// TestPolicy is a policy that appears, changes, becomes invalid and goes while
// requests are answered.
func TestPolicy(t *testing.T) {
	t.Parallel()
	l := withCatalog(t, append(accounts("aws", 1), accounts("azure", 1)...))
	w := l.work(daemon.Options{})
	early := l.asksFor("early")
	l.logged(w, "there is no policy yet: ConfigMap hap-policy is not there")

	l.policy(forProvider("aws"))
	l.shows(w, "hap_config_reloads_total", "1")
	if got := l.answered(early); got.Status != events.StatusResolved {
		t.Errorf("what was asked before there was a policy is answered %s %+v", got.Status, got.Error)
	}
	r := l.resolve("aws")
	if r.Status != events.StatusResolved || r.Implementation.Path != "cap.implementation.aws.rds.postgresql.install" {
		t.Fatalf("resolved %s %+v", r.Status, r.Implementation)
	}

	l.policy("apiVersion: 0.1.0\nrules: {nonsense: {}}\n")
	l.shows(w, "hap_config_reload_failures_total", "1")
	if again := l.resolve("still-aws"); again.Implementation == nil || again.Implementation.Path != r.Implementation.Path {
		t.Errorf("after an invalid edit: %+v", again)
	}

	// What is chosen says where a trial runs that does not say it itself; the rule's
	// pool follows.
	l.policy(forProvider("azure"))
	l.shows(w, "hap_config_reloads_total", "2")
	e := askPlan("rt-free", "ga-1", "free")
	e.Provision.Provider = ""
	e.Provision.Interface = &events.Interface{Path: postgres, Revision: "0.1.0"}
	l.provision(e)
	if got := l.answered(e); got.Provider != "azure" || got.Binding == nil || got.Binding.Name != "azure-01" || got.Implementation == nil {
		t.Errorf("a free cluster is answered %s %s %+v %+v", got.Status, got.Provider, got.Binding, got.Implementation)
	}
	plain := askPlan("rt-plain", "ga-1", "aws")
	l.provision(plain)
	if got := l.answered(plain); got.Implementation != nil || got.Binding == nil {
		t.Errorf("a cluster without an interface is answered %+v", got)
	}

	// Edited while requests run: each sees one version, whole.
	var asking sync.WaitGroup
	asking.Go(func() {
		for n := range 20 {
			l.policy(forProvider([]string{"aws", "azure"}[n%2]))
		}
	})
	for n := range 40 {
		got := l.resolve(fmt.Sprintf("during-%d", n))
		if got.Implementation == nil || !strings.Contains(got.Implementation.Path, ".aws.") && !strings.Contains(got.Implementation.Path, ".azure.") {
			t.Errorf("during edits: %s %+v %+v", got.Status, got.Implementation, got.Error)
		}
	}
	asking.Wait()

	configMaps := l.api.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	if err := configMaps.Delete(l.ctx, "hap-policy", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.logged(w, "the policy was removed")
	gone := l.asksFor("gone")
	l.policy("apiVersion: 0.1.0\nrules: {}\n")
	refusedWith(t, l.answered(gone), engine.CodeNoImplementation)
}

// logged waits until the worker has logged the text.
func (l *landscape) logged(w *inProcess, text string) {
	l.t.Helper()
	eventually(l.ctx, l.t, func() error {
		if !strings.Contains(w.log.String(), text) {
			return fmt.Errorf("the worker has not logged %q", text)
		}
		return nil
	})
}
