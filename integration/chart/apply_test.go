package chart_test

import (
	"context"
	"io"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// foreign are the kinds of operators that the development stack does not run.
var foreign = map[string]bool{"ServiceMonitor": true, "PrometheusRule": true, "ScaledObject": true, "HTTPRoute": true}

// TestRealApply sends every manifest to a real Kubernetes API, which validates each
// field of it and keeps it.
func TestRealApply(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	s, err := stack.Start(ctx, stack.Options{Accounts: []stack.Account{}, Gardener: stack.CRDGardener, Talk: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	api, err := s.Kube.Config()
	if err != nil {
		t.Fatal(err)
	}
	apply := applier(t, api)
	for _, namespace := range []string{"hap", "garden-kyma"} {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion("v1")
		object.SetKind("Namespace")
		object.SetName(namespace)
		apply(ctx, object)
	}
	for _, values := range []string{
		"{rights: {create: true}}",
		"{rights: {create: true}, config: {gardener: {namespace: garden-kyma, resource: secrets}}}",
		everything,
		elsewhere,
	} {
		for _, objects := range mustRender(t, values) {
			for _, object := range objects {
				if !foreign[object.GetKind()] {
					apply(ctx, object)
				}
			}
		}
	}
}

// applier returns a function that applies an object on the server, which refuses
// fields that it does not know.
func applier(t *testing.T, api *rest.Config) func(context.Context, *unstructured.Unstructured) {
	t.Helper()
	client, err := dynamic.NewForConfig(api)
	if err != nil {
		t.Fatal(err)
	}
	discovery, err := kubernetes.NewForConfig(api)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery))
	return func(ctx context.Context, object *unstructured.Unstructured) {
		t.Helper()
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			return
		}
		var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
		if mapping.Scope.Name() == "namespace" {
			namespace := object.GetNamespace()
			if namespace == "" {
				namespace = "hap" // where helm installs the release
			}
			resource = client.Resource(mapping.Resource).Namespace(namespace)
		}
		object.SetManagedFields(nil)
		body, err := object.MarshalJSON()
		if err != nil {
			t.Error(err)
			return
		}
		force := true
		_, err = resource.Patch(ctx, object.GetName(), "application/apply-patch+yaml", body, metav1.PatchOptions{
			FieldManager: "chart", Force: &force, FieldValidation: metav1.FieldValidationStrict,
		})
		if err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}
