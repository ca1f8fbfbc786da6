package lightapi

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// selection selects objects of a collection.
type selection struct {
	kind   *kind
	at     key // "" matches any
	labels labels.Selector
	fields fields.Selector
}

func (s *selection) has(o *unstructured.Unstructured) bool {
	return o != nil &&
		(s.at.namespace == "" || s.at.namespace == o.GetNamespace()) &&
		(s.at.name == "" || s.at.name == o.GetName()) &&
		(s.labels.Empty() || s.labels.Matches(labels.Set(o.GetLabels()))) &&
		(s.fields.Empty() || s.fields.Matches(selectable{s.kind, o}))
}

// selectable are the fields of an object for field selectors.
type selectable struct {
	kind *kind
	o    *unstructured.Unstructured
}

func (s selectable) Has(name string) bool { return s.kind.selects(name) }

func (s selectable) Get(name string) string {
	switch name {
	case metav1.ObjectNameField:
		return s.o.GetName()
	case "metadata.namespace":
		return s.o.GetNamespace()
	}
	value, _, _ := unstructured.NestedString(s.o.Object, s.kind.fields[name]...)
	return value
}

func (k *kind) selects(name string) bool {
	_, known := k.fields[name]
	return known || name == metav1.ObjectNameField || name == "metadata.namespace" && k.namespaced
}

// listOptions reads the query of a list or a watch as kube-apiserver does.
func (k *kind) listOptions(query url.Values, at key) (*internalversion.ListOptions, *selection, error) {
	o := &internalversion.ListOptions{}
	if err := scheme.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, o); err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if faults := validation.ValidateListOptions(o, true); len(faults) > 0 {
		return nil, nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", faults)
	}
	if o.Limit < 0 {
		return nil, nil, apierrors.NewBadRequest("limit must not be negative")
	}
	s := &selection{kind: k, at: at, labels: o.LabelSelector, fields: o.FieldSelector}
	if s.labels == nil {
		s.labels = labels.Everything()
	}
	if s.fields == nil {
		s.fields = fields.Everything()
	}
	for _, r := range s.fields.Requirements() {
		if !k.selects(r.Field) {
			return nil, nil, apierrors.NewBadRequest("field label not supported: " + r.Field)
		}
	}
	return o, s, nil
}

// parseVersion reads a resourceVersion of a query; "" is 0.
func parseVersion(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q", text))
	}
	return version, nil
}

// position is the start of a list's next page: after an object, in the list of a version.
type position struct {
	Version uint64 `json:"rv"`
	After   string `json:"start"`
	In      string `json:"namespace,omitempty"`
}

func (p position) token() string {
	content, err := utiljson.Marshal(p)
	if err != nil {
		panic(err) // a number and two texts
	}
	return base64.RawURLEncoding.EncodeToString(content)
}

func parsePosition(token string) (p position, err error) {
	content, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = utiljson.Unmarshal(content, &p)
	}
	if err != nil || p.Version == 0 || p.After == "" {
		return p, apierrors.NewBadRequest("continue key is not valid")
	}
	return p, nil
}

// list answers a list, or a page of a list.
func (s *Server) list(w http.ResponseWriter, r *http.Request, c *collection, k *kind, at key) error {
	o, selected, err := k.listOptions(r.URL.Query(), at)
	if err != nil {
		return err
	}
	f, err := negotiate(r.Header)
	if err == nil {
		err = f.of(true)
	}
	if err != nil {
		return err
	}
	found, meta, err := s.page(c, o, selected)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, f.encodedList(k, found, meta, include(r.URL.Query())))
}

// page returns the list, or the page, that the options select.
func (s *Server) page(c *collection, o *internalversion.ListOptions, selected *selection) (found []*unstructured.Unstructured, meta listMeta, err error) {
	version, err := parseVersion(o.ResourceVersion)
	if err != nil {
		return nil, meta, err
	}
	var from position
	switch {
	case o.Continue != "":
		if o.ResourceVersion != "" && o.ResourceVersion != "0" {
			return nil, meta, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		if from, err = parsePosition(o.Continue); err != nil {
			return nil, meta, err
		}
		version = from.Version
	case o.ResourceVersionMatch != metav1.ResourceVersionMatchExact:
		if now := s.store.now(); version > now {
			return nil, meta, tooNew(version, now)
		}
		version = 0
	}
	more := false
	version, left, err := s.store.walk(c, version, selected.at.namespace, key{from.In, from.After}, func(object *unstructured.Unstructured) bool {
		if !selected.has(object) {
			return true
		}
		if more = o.Limit > 0 && int64(len(found)) == o.Limit; !more {
			found = append(found, object)
		}
		return !more
	})
	if err != nil {
		return nil, meta, err
	}
	meta.version = version
	if more {
		last := found[len(found)-1]
		meta.next = position{Version: version, After: last.GetName(), In: last.GetNamespace()}.token()
		if remaining := int64(left) + 1; selected.labels.Empty() && selected.fields.Empty() {
			meta.remaining = &remaining
		}
	}
	return found, meta, nil
}
