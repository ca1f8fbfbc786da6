package lightapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
)

// column is a column that kubectl prints.
type column struct {
	name, kind, format, description string
	priority                        int32
	path                            string // JSONPath of the value
	count                           string // count the entries of this map instead
}

var (
	nameColumn = column{name: "Name", kind: "string", format: "name", description: "Name of the object", path: "{.metadata.name}"}
	ageColumn  = column{name: "Age", kind: "date", path: "{.metadata.creationTimestamp}"}
)

// listMeta is the metadata of a list.
type listMeta struct {
	version   uint64
	next      string // token of the next page
	remaining *int64
}

func (m listMeta) object() map[string]any {
	meta := map[string]any{"resourceVersion": strconv.FormatUint(m.version, 10)}
	if m.next != "" {
		meta["continue"] = m.next
	}
	if m.remaining != nil {
		meta["remainingItemCount"] = *m.remaining
	}
	return meta
}

// encoded returns an object in a form.
func (f form) encoded(k *kind, o *unstructured.Unstructured, include metav1.IncludeObjectPolicy) any {
	switch f {
	case metadataOnly, metadataOnlyList:
		return partial(o)
	case table:
		meta := map[string]any{"resourceVersion": o.GetResourceVersion()}
		return k.table([]*unstructured.Unstructured{o}, meta, include)
	default:
		return o.Object
	}
}

// encodedList returns a list in a form.
func (f form) encodedList(k *kind, objects []*unstructured.Unstructured, meta listMeta, include metav1.IncludeObjectPolicy) any {
	items := make([]any, 0, len(objects))
	kindOf, apiVersion := k.list, k.groupVersion().String()
	switch f {
	case table:
		return k.table(objects, meta.object(), include)
	case metadataOnly, metadataOnlyList:
		kindOf, apiVersion = "PartialObjectMetadataList", metav1.SchemeGroupVersion.String()
		for _, o := range objects {
			items = append(items, partial(o))
		}
	default:
		for _, o := range objects {
			items = append(items, o.Object)
		}
	}
	return map[string]any{"kind": kindOf, "apiVersion": apiVersion, "metadata": meta.object(), "items": items}
}

func partial(o *unstructured.Unstructured) map[string]any {
	return map[string]any{
		"kind": "PartialObjectMetadata", "apiVersion": metav1.SchemeGroupVersion.String(), "metadata": o.Object["metadata"],
	}
}

// table returns the form that kubectl prints.
func (k *kind) table(objects []*unstructured.Unstructured, meta map[string]any, include metav1.IncludeObjectPolicy) any {
	var columns []metav1.TableColumnDefinition
	var paths []*jsonpath.JSONPath
	for _, c := range k.columns {
		shown := c.kind
		if shown == "" {
			shown = "string"
		}
		columns = append(columns, metav1.TableColumnDefinition{
			Name: c.name, Type: shown, Format: c.format, Description: c.description, Priority: c.priority,
		})
		path := jsonpath.New(c.name).AllowMissingKeys(true)
		if c.count != "" || path.Parse(c.path) != nil {
			path = nil
		}
		paths = append(paths, path)
	}
	rows := make([]any, 0, len(objects))
	for _, o := range objects {
		cells := make([]any, len(k.columns))
		for i, c := range k.columns {
			cells[i] = c.cell(o, paths[i])
		}
		row := map[string]any{"cells": cells}
		switch include {
		case metav1.IncludeNone:
		case metav1.IncludeObject:
			row["object"] = o.Object
		default:
			row["object"] = partial(o)
		}
		rows = append(rows, row)
	}
	return map[string]any{
		"kind": "Table", "apiVersion": metav1.SchemeGroupVersion.String(), "metadata": meta, "columnDefinitions": columns, "rows": rows,
	}
}

// cell returns the value of a column, nil if the object has none.
func (c column) cell(o *unstructured.Unstructured, path *jsonpath.JSONPath) any {
	if c.count != "" {
		content, _ := o.Object[c.count].(map[string]any)
		return len(content)
	}
	if path == nil {
		return nil
	}
	found, err := path.FindResults(o.Object)
	if err != nil || len(found) == 0 || len(found[0]) == 0 || !found[0][0].CanInterface() {
		return nil
	}
	value := found[0][0].Interface()
	switch c.kind {
	case "date":
		var at metav1.Time
		text, _ := value.(string)
		if at.UnmarshalQueryParameter(text) != nil {
			return "<invalid>"
		}
		return metatable.ConvertToHumanReadableDateType(at)
	case "integer", "number", "boolean":
		return value
	default:
		words := make([]string, 0, len(found[0]))
		for _, one := range found[0] {
			words = append(words, fmt.Sprint(one.Interface()))
		}
		return strings.Join(words, ",")
	}
}

// statusOf converts an error to the API's Status.
func statusOf(err error) *metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return &status
}

// tooNew is the error for a version that does not exist yet: the client has it from another API. The error makes
// it list anew.
func tooNew(version, latest uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, latest), 1)
	err.ErrStatus.Code = http.StatusGatewayTimeout
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}
