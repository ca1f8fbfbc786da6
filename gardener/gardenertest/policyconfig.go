package gardenertest

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/hap-worker/hap-worker/gardener/policyconfig"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// seen is one call of OnChange.
type seen struct {
	content string
	found   bool
}

// PolicyConfig tests policyconfig.Watch: it reports each text once, reads the older key if the other
// is missing, and reports nothing of other ConfigMaps.
func PolicyConfig(t *testing.T, s Server) {
	t.Helper()
	b := newBench(t, s)
	maps := b.admin.Resource(configMaps).Namespace(b.Namespace)
	name, other := b.name(1), b.name(2)
	calls, warnings := make(chan seen, 16), make(chan string, 16)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w := watchPolicy(ctx, t, b, policyconfig.Options{
		Namespace: b.Namespace, Name: name,
		OnChange: func(content string, found bool) { calls <- seen{content, found} },
		Warn:     func(line string) { warnings <- line },
	})
	expect := func(what string, want seen) {
		t.Helper()
		select {
		case got := <-calls:
			if got != want {
				t.Fatalf("%s: told %+v, want %+v", what, got, want)
			}
		case <-ctx.Done():
			t.Fatalf("%s: nothing was told", what)
		}
	}

	createConfigMap(t, maps, other, map[string]any{"policy.yaml": "another's"})
	createConfigMap(t, maps, name, map[string]any{"cluster-policy.yaml": "older", "else": "x"})
	expect("created, with the older key", seen{"older", true})
	patchConfigMap(t, maps, name, `{"data":{"policy.yaml":"one"}}`)
	expect("the newer key wins", seen{"one", true})
	patchConfigMap(t, maps, name, `{"data":{"else":"y"},"metadata":{"labels":{"a":"b"}}}`)
	patchConfigMap(t, maps, name, `{"data":{"cluster-policy.yaml":"older still"}}`)
	patchConfigMap(t, maps, name, `{"data":{"policy.yaml":"two"}}`)
	expect("edited, with nothing told about the rest", seen{"two", true})
	patchConfigMap(t, maps, name, `{"data":{"policy.yaml":null,"cluster-policy.yaml":null}}`)
	expect("neither key", seen{"", false})
	if line := <-warnings; !strings.Contains(line, name+" has neither policy.yaml nor cluster-policy.yaml") {
		t.Errorf("warned: %s", line)
	}
	patchConfigMap(t, maps, name, `{"data":{"policy.yaml":"three"}}`)
	expect("back", seen{"three", true})
	if err := maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("deleted", seen{"", false})
	createConfigMap(t, maps, name, map[string]any{"policy.yaml": "four"})
	expect("created again", seen{"four", true})

	w.Stop()
	patchConfigMap(t, maps, name, `{"data":{"policy.yaml":"five"}}`)
	if len(calls) > 0 || len(warnings) > 0 {
		t.Errorf("told after the end: %+v, %v", <-calls, len(warnings))
	}
	if err := w.Start(ctx); err == nil {
		t.Error("it can be started again")
	}
}

// watchPolicy returns a watch that has synced.
func watchPolicy(ctx context.Context, t *testing.T, b *bench, opts policyconfig.Options) *policyconfig.Watch {
	t.Helper()
	w, err := policyconfig.New(b.Config, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	if err := errors.Join(w.Start(ctx), w.WaitSynced(ctx)); err != nil {
		t.Fatal(err)
	}
	return w
}

func createConfigMap(t *testing.T, maps dynamic.ResourceInterface, name string, data map[string]any) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"data": data}}
	o.SetGroupVersionKind(configMaps.GroupVersion().WithKind("ConfigMap"))
	o.SetName(name)
	if _, err := maps.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = maps.Delete(ctx, name, metav1.DeleteOptions{}) // it may be gone
	})
}

func patchConfigMap(t *testing.T, maps dynamic.ResourceInterface, name, patch string) {
	t.Helper()
	if _, err := maps.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
