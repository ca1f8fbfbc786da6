package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/hap-worker/hap-worker/deploy"
)

// applier is the field manager of the objects that the stack applies.
const applier = "hap-stack"

var (
	crdResource       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// Seed applies the CRDs of deploy/crds and the namespace, waits until the API serves their
// kinds, and creates the bindings and Shoots of the accounts. If Gardener's own API server runs,
// Seed registers its APIServices instead of the CRDs of its kinds, and also creates the objects
// against which it validates Shoots. Seed can be repeated.
func Seed(ctx context.Context, cfg *rest.Config, t Target, accounts []Account) error {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	crds, err := readCRDs()
	if err != nil {
		return err
	}
	if t.Gardener != nil {
		crds = slices.DeleteFunc(crds, ofGardener)
	}
	for _, crd := range crds {
		if err := apply(ctx, client, crdResource, crd); err != nil {
			return err
		}
	}
	if err := apply(ctx, client, namespaceResource, gardenNamespace(t.Namespace)); err != nil {
		return err
	}
	for _, crd := range crds {
		if err := served(ctx, client, crd); err != nil {
			return err
		}
	}
	if t.Gardener != nil {
		if err := seedGarden(ctx, client, t, accounts); err != nil {
			return err
		}
	}
	return CreateAccounts(ctx, cfg, t, accounts)
}

// ofGardener reports whether gardener-apiserver serves the kind of a CRD.
func ofGardener(crd *unstructured.Unstructured) bool {
	kind, err := servedResource(crd)
	return err == nil && (kind.Group == kinds["CredentialsBinding"].Group || kind.Group == kinds["SecretBinding"].Group)
}

func readCRDs() ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(deploy.CRDs, "crds/*.yaml")
	if err != nil {
		return nil, err
	}
	var crds []*unstructured.Unstructured
	for _, file := range files {
		data, err := deploy.CRDs.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &crd.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

// gardenNamespace returns a namespace like the one that Gardener creates for a project.
func gardenNamespace(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("Namespace")
	o.SetName(name)
	o.SetLabels(map[string]string{"gardener.cloud/role": "project", "project.gardener.cloud/name": projectOf(name)})
	return o
}

func apply(ctx context.Context, client dynamic.Interface, r schema.GroupVersionResource, o *unstructured.Unstructured) error {
	var where dynamic.ResourceInterface = client.Resource(r)
	if o.GetNamespace() != "" {
		where = client.Resource(r).Namespace(o.GetNamespace())
	}
	_, err := where.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: applier, Force: true})
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", r.Resource, o.GetName(), err)
	}
	return nil
}

// served waits until the API serves the kind of a CRD. That is a little later than its
// condition Established: the server's cache must first see the condition.
func served(ctx context.Context, client dynamic.Interface, crd *unstructured.Unstructured) error {
	kind, err := servedResource(crd)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, err := client.Resource(kind).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			return nil
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("wait for %s: %w", crd.GetName(), err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not served: %w", crd.GetName(), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// servedResource returns the resource of a CRD. Our CRDs have one version each.
func servedResource(crd *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	group, _, errGroup := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, errPlural := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, errVersions := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err := errors.Join(errGroup, errPlural, errVersions); err != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("%s: %w", crd.GetName(), err)
	}
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok {
			version, _ := v["name"].(string)
			return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}, nil
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("%s has no version", crd.GetName())
}
