package lightapi

import (
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// kind is one kind of objects that the API serves, in its only version.
type kind struct {
	group, version, name string
	plural, singular     string
	list                 string
	shortNames           []string
	categories           []string
	namespaced           bool
	// custom: a CustomResourceDefinition defines the kind. It has no strategic merge patch, and an update
	// must name the resourceVersion that it replaces.
	custom bool
	// status: the status is a subresource, and a write of the object does not change it.
	status bool
	// generation: changes outside of metadata and status increment the generation.
	generation bool
	columns    []column
	fields     map[string][]string // selectable fields besides name and namespace
	// prepare completes an object before it is stored. before is nil for a new object.
	prepare func(object, before *unstructured.Unstructured) error
}

// The built-in kinds that the code names.
const (
	namespaces  = "namespaces"
	definitions = "customresourcedefinitions"
)

var definitionGroup = "apiextensions.k8s.io"

func builtIn() []*kind {
	return []*kind{
		{
			version: "v1", name: "Namespace", plural: namespaces, singular: "namespace", list: "NamespaceList", shortNames: []string{"ns"},
			status: true, columns: []column{nameColumn, {name: "Status", path: "{.status.phase}"}, ageColumn},
			fields: map[string][]string{"status.phase": {"status", "phase"}}, prepare: prepareNamespace,
		},
		{
			version: "v1", name: "Secret", plural: "secrets", singular: "secret", list: "SecretList", namespaced: true,
			columns: []column{nameColumn, {name: "Type", path: "{.type}"}, {name: "Data", count: "data"}, ageColumn},
			fields:  map[string][]string{"type": {"type"}}, prepare: prepareSecret,
		},
		{
			version: "v1", name: "ConfigMap", plural: "configmaps", singular: "configmap", list: "ConfigMapList", shortNames: []string{"cm"},
			namespaced: true, columns: []column{nameColumn, {name: "Data", count: "data"}, ageColumn},
		},
		{
			version: "v1", name: "ServiceAccount", plural: "serviceaccounts", singular: "serviceaccount", list: "ServiceAccountList",
			shortNames: []string{"sa"}, namespaced: true, columns: []column{nameColumn, ageColumn},
		},
		{
			version: "v1", name: "Event", plural: "events", singular: "event", list: "EventList", shortNames: []string{"ev"}, namespaced: true,
			columns: []column{nameColumn, {name: "Reason", path: "{.reason}"}, {name: "Message", path: "{.message}"}, ageColumn},
			fields: map[string][]string{
				"involvedObject.kind": {"involvedObject", "kind"}, "involvedObject.name": {"involvedObject", "name"},
				"involvedObject.namespace": {"involvedObject", "namespace"}, "involvedObject.uid": {"involvedObject", "uid"},
				"reason": {"reason"}, "type": {"type"},
			},
		},
		{
			group: definitionGroup, version: "v1", name: "CustomResourceDefinition", plural: definitions,
			singular: "customresourcedefinition", list: "CustomResourceDefinitionList", shortNames: []string{"crd", "crds"},
			status: true, generation: true, columns: []column{nameColumn, {name: "Created At", path: "{.metadata.creationTimestamp}"}},
			prepare: prepareDefinition,
		},
	}
}

func (k *kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.group, Resource: k.plural}
}

func (k *kind) groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: k.group, Version: k.version}
}

func (k *kind) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: k.group, Kind: k.name}
}

func (k *kind) invalid(name string, faults ...*field.Error) error {
	return apierrors.NewInvalid(k.groupKind(), name, faults)
}

// definition has the fields of a CustomResourceDefinition that are used.
type definition struct {
	Spec struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Kind       string   `json:"kind"`
			ListKind   string   `json:"listKind"`
			Plural     string   `json:"plural"`
			Singular   string   `json:"singular"`
			ShortNames []string `json:"shortNames"`
			Categories []string `json:"categories"`
		} `json:"names"`
		Versions []struct {
			Name         string `json:"name"`
			Served       bool   `json:"served"`
			Storage      bool   `json:"storage"`
			Subresources struct {
				Status *struct{} `json:"status"`
			} `json:"subresources"`
			AdditionalPrinterColumns []struct {
				Name        string `json:"name"`
				Type        string `json:"type"`
				Format      string `json:"format"`
				Description string `json:"description"`
				Priority    int32  `json:"priority"`
				JSONPath    string `json:"jsonPath"`
			} `json:"additionalPrinterColumns"`
		} `json:"versions"`
	} `json:"spec"`
}

// defined returns the kind that a CustomResourceDefinition defines.
func defined(crd *unstructured.Unstructured) (*kind, error) {
	var d definition
	content, err := json.Marshal(crd.Object)
	if err == nil {
		err = json.Unmarshal(content, &d)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("the definition cannot be read: " + err.Error())
	}
	refuse := func(path, value, why string) (*kind, error) {
		fault := field.Invalid(field.NewPath("spec", path), value, why)
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: definitionGroup, Kind: "CustomResourceDefinition"}, crd.GetName(), field.ErrorList{fault})
	}
	names := d.Spec.Names
	if crd.GetName() != names.Plural+"."+d.Spec.Group || d.Spec.Group == "" || names.Plural == "" {
		return refuse("names", names.Plural, "metadata.name must be spec.names.plural+\".\"+spec.group")
	}
	if d.Spec.Scope != "Namespaced" && d.Spec.Scope != "Cluster" {
		return refuse("scope", d.Spec.Scope, "must be Cluster or Namespaced")
	}
	if names.Kind == "" {
		return refuse("names", names.Kind, "kind is missing")
	}
	if len(d.Spec.Versions) != 1 || !d.Spec.Versions[0].Served || !d.Spec.Versions[0].Storage || d.Spec.Versions[0].Name == "" {
		return refuse("versions", fmt.Sprint(len(d.Spec.Versions)), "this API serves definitions of one version, served and stored")
	}
	version := d.Spec.Versions[0]
	k := &kind{
		group: d.Spec.Group, version: version.Name, name: names.Kind, plural: names.Plural, singular: names.Singular, list: names.ListKind,
		shortNames: names.ShortNames, categories: names.Categories, namespaced: d.Spec.Scope == "Namespaced",
		custom: true, generation: true, status: version.Subresources.Status != nil, columns: []column{nameColumn},
	}
	if k.list == "" {
		k.list = k.name + "List"
	}
	for _, c := range version.AdditionalPrinterColumns {
		k.columns = append(k.columns, column{
			name: c.Name, kind: c.Type, format: c.Format, description: c.Description, priority: c.Priority, path: "{" + c.JSONPath + "}",
		})
	}
	if len(version.AdditionalPrinterColumns) == 0 {
		k.columns = append(k.columns, ageColumn)
	}
	return k, nil
}

// prepareDefinition refuses a definition that cannot be served. It sets the status of a new one to
// Established.
func prepareDefinition(crd, before *unstructured.Unstructured) error {
	k, err := defined(crd)
	if err != nil || before != nil {
		return err
	}
	now := metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
	condition := func(name, reason string) map[string]any {
		return map[string]any{"type": name, "status": "True", "reason": reason, "message": "", "lastTransitionTime": now}
	}
	names, _, err := unstructured.NestedMap(crd.Object, "spec", "names")
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	crd.Object["status"] = map[string]any{
		"acceptedNames":  names,
		"conditions":     []any{condition("NamesAccepted", "NoConflicts"), condition("Established", "InitialNamesAccepted")},
		"storedVersions": []any{k.version},
	}
	return nil
}
