package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// TestHapctlPolicy runs the stories of the policy in force, on a worker that reads it from a
// ConfigMap:
//
//	configmap KEY FILE   writes a key of the ConfigMap, as another program does
//	taken FILE           waits until the worker has logged that it took this policy over
func TestHapctlPolicy(t *testing.T) {
	t.Parallel()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "deploy", "policy")
	config := hapctlConfig + fmt.Sprintf("policy: {catalog: %q, typeInstances: %q}\n",
		filepath.Join(dir, "catalog"), filepath.Join(dir, "typeinstances.yaml"))
	log := &safeBuffer{}
	s := hapctlStack(t, stack.Options{Config: []byte(config), Accounts: accounts("aws", 1), Workers: 1, WorkerLog: log})
	kube, err := s.Kube.Config()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(kube)
	if err != nil {
		t.Fatal(err)
	}
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(s.Target.Namespace)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	runHapctl(t, s, "testdata/hapctl-policy", map[string]func(*testscript.TestScript, bool, []string){
		"taken": func(ts *testscript.TestScript, _ bool, args []string) {
			digest := policy.Digest([]byte(ts.ReadFile(args[0])))
			eventually(ctx, t, func() error {
				if !strings.Contains(log.String(), digest) {
					return fmt.Errorf("no worker has taken over the policy %s", digest)
				}
				return nil
			})
		},
		"configmap": func(ts *testscript.TestScript, _ bool, args []string) {
			data := map[string]any{args[0]: ts.ReadFile(args[1])}
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data}}
			o.SetName("hap-policy")
			_, err := maps.Create(ctx, o, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				patch, _ := json.Marshal(map[string]any{"data": data}) // strings can always be written
				_, err = maps.Patch(ctx, "hap-policy", types.MergePatchType, patch, metav1.PatchOptions{})
			}
			ts.Check(err)
		},
	})
}
