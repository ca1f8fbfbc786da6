package lightapi

import (
	"encoding/base64"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// namespaceNameLabel is set on each namespace.
const namespaceNameLabel = "kubernetes.io/metadata.name"

// prepareNamespace sets the phase of a namespace and the label of its name, and the finalizer of a new one.
func prepareNamespace(o, before *unstructured.Unstructured) error {
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[namespaceNameLabel] = o.GetName()
	o.SetLabels(labels)
	phase := "Active"
	if o.GetDeletionTimestamp() != nil {
		phase = "Terminating"
	}
	if before == nil {
		if err := unstructured.SetNestedStringSlice(o.Object, []string{"kubernetes"}, "spec", "finalizers"); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	if err := unstructured.SetNestedField(o.Object, phase, "status", "phase"); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// prepareSecret moves stringData, which is write-only, into data, and sets the default type.
func prepareSecret(o, _ *unstructured.Unstructured) error {
	if o.Object["type"] == nil || o.Object["type"] == "" {
		o.Object["type"] = "Opaque"
	}
	plain, found, err := unstructured.NestedStringMap(o.Object, "stringData")
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	delete(o.Object, "stringData")
	if !found || len(plain) == 0 {
		return nil
	}
	data, _, err := unstructured.NestedMap(o.Object, "data")
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	data = maps.Clone(data)
	if data == nil {
		data = map[string]any{}
	}
	for key, value := range plain {
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	o.Object["data"] = data
	return nil
}
