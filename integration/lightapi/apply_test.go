package lightapi_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/hap-worker/hap-worker/integration/lightapi"
)

// TestApplyOfTheStatus: what a manager applies to an object, and what it applies to its status, is remembered apart.
func TestApplyOfTheStatus(t *testing.T) {
	t.Parallel()
	_, config := started(t, lightapi.Options{})
	api := objects(t, config).Resource(namespaces)
	var last *unstructured.Unstructured
	for _, part := range []struct {
		subresources []string
		field        string
		values       map[string]any
	}{
		{nil, "metadata", map[string]any{"annotations": map[string]any{"a": "1", "b": "1"}}},
		{[]string{"status"}, "status", map[string]any{"x": "1", "y": "1"}},
		{nil, "metadata", map[string]any{"annotations": map[string]any{"a": "2"}}},
		{[]string{"status"}, "status", map[string]any{"x": "2"}},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", part.field: part.values}}
		o.SetName(namespace)
		var err error
		if last, err = api.Apply(t.Context(), namespace, o, metav1.ApplyOptions{FieldManager: "m", Force: true}, part.subresources...); err != nil {
			t.Fatal(err)
		}
	}
	if got := last.GetAnnotations(); len(got) != 1 || got["a"] != "2" {
		t.Errorf("the annotations are %v", got)
	}
	status, _, err := unstructured.NestedMap(last.Object, "status")
	if _, old := status["y"]; err != nil || status["x"] != "2" || old {
		t.Errorf("the status is %v, %v", status, err)
	}
}
