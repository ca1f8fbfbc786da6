package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// formsConfig has a rule for all plans that its stories name but those of build runtimes.
const formsConfig = `
hap:
  rule: [aws, azure, gcp, azure_lite, preview, free, trial, sap-converged-cloud, alicloud]
  multiHyperscalerAccount: {allowedGlobalAccounts: []}
  waiting: {timeout: 1h}
policy: {configMap: hapctl-forms, catalog: %q, typeInstances: %q, namespace: default}
`

// TestHapctlForms runs the stories that need a policy, a change of the rules or
// something wrong in Redis:
//
//	rule ENTRY                     adds a rule to the worker's configuration, and waits until it is taken
//	miscount POOL BINDING CLUSTERS writes a wrong count into Redis
func TestHapctlForms(t *testing.T) {
	t.Parallel()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	instances := filepath.Join(t.TempDir(), "typeinstances.yaml")
	const has = "- {id: i-1, typeRef: {path: cap.type.aws.auth.credentials, revision: 0.1.0}}\n"
	if err := os.WriteFile(instances, []byte(has), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLandscape(t, fmt.Sprintf(formsConfig, filepath.Join(root, "deploy", "policy", "catalog"), instances),
		append(append(accounts("aws", 5), accounts("azure", 1)...), append(accounts("gcp", 1), accounts("alicloud", 1)...)...))
	l.formsPolicy()
	w := l.work(daemon.Options{})
	hand, ctx := l.byHand(), t.Context() // the landscape's own may end while the stories wait for their turn
	runHapctl(t, l.stack, "testdata/hapctl-forms", map[string]func(*testscript.TestScript, bool, []string){
		"rule": func(_ *testscript.TestScript, _ bool, args []string) {
			before := w.metric("hap_config_reloads_total")
			l.edit("  - azure_lite\n", "  - azure_lite\n  - "+args[0]+"\n")
			eventually(ctx, t, func() error {
				if w.metric("hap_config_reloads_total") == before {
					return fmt.Errorf("the rule %s is not taken", args[0])
				}
				return nil
			})
		},
		"miscount": func(ts *testscript.TestScript, _ bool, args []string) {
			key := "hap:{" + args[0] + "}:b"
			fields := strings.Split(hand.HGet(ctx, key, args[1]).Val(), "|")
			if len(fields) < 5 {
				ts.Fatalf("%s has no record of %s", key, args[1])
			}
			fields[4] = args[2]
			ts.Check(hand.HSet(ctx, key, args[1], strings.Join(fields, "|")).Err())
		},
	})
}

// formsPolicy makes the ConfigMap of the policy, before any worker reads it.
func (l *landscape) formsPolicy() {
	l.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"policy.yaml": forProvider("aws")}}}
	o.SetAPIVersion("v1")
	o.SetKind("ConfigMap")
	o.SetName("hapctl-forms")
	_, err := l.api.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default").
		Apply(l.ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		l.t.Fatal(err)
	}
}
