package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/counters/policies"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// TestHapctlPolicy runs the stories of the policy in force, on a worker that reads it from a
// ConfigMap:
//
//	configmap KEY FILE   writes a key of the ConfigMap, as another program does
//	taken FILE           waits until the worker has logged that it took this policy over
//	told FILE            waits until Redis says that a worker decides by this policy
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
	store, err := counters.Open(connection.Options{URLs: []string{s.Redis.URL()}}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
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
		"told": func(ts *testscript.TestScript, _ bool, args []string) {
			digest := policy.Digest([]byte(ts.ReadFile(args[0])))
			eventually(ctx, t, func() error {
				all, err := policies.All(ctx, store)
				if err == nil && !slices.ContainsFunc(all, func(p policy.InForce) bool { return p.Digest == digest }) {
					err = fmt.Errorf("no worker decides by the policy %s: %+v", digest, all)
				}
				return err
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
