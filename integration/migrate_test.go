package integration_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hap-worker/hap-worker/cmd/hapctl/app"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// TestMigratePlan: a landscape with Shoots of an earlier broker is planned live
// and out of files, to the same result and without any change to it.
func TestMigratePlan(t *testing.T) {
	t.Parallel()
	for name, kind := range accountKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			accounts := append(accounts("aws", 2), accounts("luna", 1)...)
			accounts[0].Labels = map[string]string{"tenantName": "ga-1"}
			l := newLandscapeOf(t, kind, olderRules, append(accounts, stack.Account{
				Name: "cc-1", HyperscalerType: "openstack_eu-de-1", Labels: map[string]string{"shared": "true"},
			}))
			l.earlierShoot("fine", "ga-1", kind.field, "aws-01")
			l.earlierShoot("foreign", "ga-2", kind.field, "aws-01")
			l.earlierShoot("unclaimed", "ga-2", kind.field, "aws-02")
			l.earlierShoot("sharing", "ga-3", kind.field, "cc-1")
			before := l.dump()

			live := l.migratePlan("--kubeconfig", l.stack.Kube.Kubeconfig())
			file := filepath.Join(t.TempDir(), "landscape.json")
			if err := os.WriteFile(file, before, 0o600); err != nil {
				t.Fatal(err)
			}
			if offline := l.migratePlan("--bindings", file); offline != live {
				t.Errorf("out of files the plan is\n%s\nlive\n%s", offline, live)
			}
			if after := l.dump(); !bytes.Equal(after, before) {
				t.Errorf("the landscape was\n%s\nand is\n%s", before, after)
			}
			var plan struct {
				Bindings []struct {
					Name       string `json:"name"`
					Kind       string `json:"kind"`
					Pool       string `json:"pool"`
					Tenant     string `json:"tenant"`
					Selectable bool   `json:"selectable"`
				} `json:"bindings"`
				Shoots []struct{ Shoot, Kind string } `json:"shoots"`
			}
			if err := json.Unmarshal([]byte(live), &plan); err != nil {
				t.Fatal(err)
			}
			if len(plan.Bindings) != 4 || plan.Bindings[0].Kind != kind.kind || plan.Bindings[0].Tenant != "ga-1" ||
				plan.Bindings[2].Pool != "luna" || plan.Bindings[2].Selectable || !plan.Bindings[3].Selectable {
				t.Errorf("the bindings are %+v", plan.Bindings)
			}
			if len(plan.Shoots) != 2 || plan.Shoots[0].Kind != "foreign" || plan.Shoots[1].Kind != "unclaimed" {
				t.Errorf("the Shoots are %+v", plan.Shoots)
			}
		})
	}
}

// migratePlan returns the JSON of a plan, which has contradictions.
func (l *landscape) migratePlan(args ...string) string {
	l.t.Helper()
	var out, talk bytes.Buffer
	args = append([]string{"migrate", "plan", "-o", "json", "--config", l.stack.Config}, args...)
	if code := app.Run(l.ctx, args, strings.NewReader(""), &out, &talk); code != 5 {
		l.t.Fatalf("hapctl %v: exit code %d, want 5: %s%s", args, code, out.String(), talk.String())
	}
	return out.String()
}

// earlierShoot makes a Shoot as a broker before left it.
func (l *landscape) earlierShoot(name, tenant, field, binding string) {
	l.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{field: binding}}}
	o.SetAPIVersion("core.gardener.cloud/v1beta1")
	o.SetKind("Shoot")
	o.SetName(name)
	o.SetLabels(map[string]string{"account": tenant})
	if _, err := l.api.Resource(shootsResource).Namespace(l.stack.Target.Namespace).Create(l.ctx, o, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// dump returns what kubectl get -o json would write of the namespace.
func (l *landscape) dump() []byte {
	l.t.Helper()
	list := map[string]any{"apiVersion": "v1", "kind": "List"}
	items := []any{}
	for _, r := range []schema.GroupVersionResource{secretsResource, credentialsBindings, secretBindings, shootsResource} {
		found, err := l.api.Resource(r).Namespace(l.stack.Target.Namespace).List(l.ctx, metav1.ListOptions{})
		if err != nil {
			l.t.Fatal(err)
		}
		for _, o := range found.Items {
			items = append(items, o.Object)
		}
	}
	list["items"] = items
	content, err := json.Marshal(list)
	if err != nil {
		l.t.Fatal(err)
	}
	return content
}
