package lightapi

import (
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// get answers with one object.
func (s *Server) get(w http.ResponseWriter, r *http.Request, c *collection, k *kind, at key) error {
	version, err := parseVersion(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		return err
	}
	if now := s.store.now(); version > now {
		return tooNew(version, now)
	}
	o := s.store.get(c, at)
	if o == nil {
		return apierrors.NewNotFound(k.resource(), at.name)
	}
	return shown(w, r, http.StatusOK, k, o)
}

// shown answers with an object in the form that the client accepts.
func shown(w http.ResponseWriter, r *http.Request, code int, k *kind, o *unstructured.Unstructured) error {
	f, err := negotiate(r.Header)
	if err == nil {
		err = f.of(false)
	}
	if err != nil {
		return err
	}
	return answer(w, code, f.encoded(k, o, include(r.URL.Query())))
}

// writable validates the options and the Accept header of a write before it is done, and reports whether it
// is a dry run.
func writable(r *http.Request) (dryRun bool, err error) {
	f, err := negotiate(r.Header)
	if err == nil {
		err = f.of(false)
	}
	if err != nil {
		return false, err
	}
	// The options of a patch include those of a create and of an update.
	query, options := r.URL.Query(), &metav1.PatchOptions{}
	if err := metav1.Convert_url_Values_To_v1_PatchOptions(&query, options, nil); err != nil {
		return false, apierrors.NewBadRequest(err.Error())
	}
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if faults := validation.ValidatePatchOptions(options, types.PatchType(media)); len(faults) > 0 {
		return false, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "PatchOptions"}, "", faults)
	}
	return len(options.DryRun) > 0, nil
}

// create creates the object of the body.
func (s *Server) create(w http.ResponseWriter, r *http.Request, c *collection, k *kind, at key) error {
	o, err := objectIn(w, r)
	if err != nil {
		return err
	}
	dry, err := writable(r)
	if err == nil {
		err = k.belongs(o, at)
	}
	if err != nil {
		return err
	}
	stored, err := s.insert(c, k, at.namespace, o, dry)
	if err != nil {
		return err
	}
	return shown(w, r, http.StatusCreated, k, stored)
}

// insert completes, validates and stores a new object. It alters o.
func (s *Server) insert(c *collection, k *kind, namespace string, o *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
	o, err := k.created(o, namespace)
	if err != nil {
		return nil, err
	}
	at := key{namespace, o.GetName()}
	return s.store.write(c, at, dry, func(before *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if before != nil {
			return nil, apierrors.NewAlreadyExists(k.resource(), at.name)
		}
		return o, s.store.admits(k, at)
	})
}

// admits checks that the namespace of a new object exists and is not being deleted. The lock is held.
func (s *store) admits(k *kind, at key) error {
	if !k.namespaced {
		return nil
	}
	namespace := s.collections[schema.GroupResource{Resource: namespaces}].objects[key{name: at.namespace}]
	if namespace == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: namespaces}, at.namespace)
	}
	if namespace.GetDeletionTimestamp() != nil {
		return apiError(http.StatusForbidden, metav1.StatusReasonForbidden, "unable to create new content in namespace "+at.namespace+" because it is being terminated")
	}
	return nil
}

// update replaces an object, or its status, by the body.
func (s *Server) update(w http.ResponseWriter, r *http.Request, c *collection, k *kind, at key, status bool) error {
	o, err := objectIn(w, r)
	if err != nil {
		return err
	}
	if err := k.belongs(o, at); err != nil {
		return err
	}
	if o.GetName() == "" {
		return apierrors.NewBadRequest("the name of the object is missing")
	}
	return s.change(w, r, c, k, at, func(before *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return k.updated(before, o, status)
	})
}

// patch changes an object, or its status, by the patch of the body.
func (s *Server) patch(w http.ResponseWriter, r *http.Request, c *collection, k *kind, at key, status bool) error {
	media, err := mediaType(r)
	if err != nil {
		return err
	}
	content, err := body(w, r)
	if err != nil {
		return err
	}
	if err := k.takes(types.PatchType(media)); err != nil {
		return err
	}
	if types.PatchType(media) == types.ApplyYAMLPatchType {
		return s.apply(w, r, c, k, at, content, status)
	}
	return s.change(w, r, c, k, at, func(before *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		o, err := k.patched(before, types.PatchType(media), content)
		if err != nil {
			return nil, err
		}
		if err := k.belongs(o, at); err != nil {
			return nil, err
		}
		return k.updated(before, o, status)
	})
}

// change answers a write of an existing object.
func (s *Server) change(w http.ResponseWriter, r *http.Request, c *collection, k *kind, at key, f func(before *unstructured.Unstructured) (*unstructured.Unstructured, error)) error {
	dry, err := writable(r)
	if err != nil {
		return err
	}
	stored, err := s.store.write(c, at, dry, func(before *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if before == nil {
			return nil, apierrors.NewNotFound(k.resource(), at.name)
		}
		return f(before)
	})
	if err != nil {
		return err
	}
	return shown(w, r, http.StatusOK, k, stored)
}

// remove deletes an object.
func (s *Server) remove(w http.ResponseWriter, r *http.Request, c *collection, k *kind, at key) error {
	options, err := deleteOptions(w, r)
	if err != nil {
		return err
	}
	stored, kept, err := s.erase(c, k, at, options)
	if err != nil {
		return err
	}
	if kept {
		return shown(w, r, http.StatusOK, k, stored)
	}
	return answer(w, http.StatusOK, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: at.name, Group: k.group, Kind: k.plural, UID: stored.GetUID()},
	})
}

// erase deletes an object. kept is set if a finalizer holds it.
func (s *Server) erase(c *collection, k *kind, at key, options *metav1.DeleteOptions) (stored *unstructured.Unstructured, kept bool, err error) {
	if faults := validation.ValidateDeleteOptions(options); len(faults) > 0 {
		return nil, false, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", faults)
	}
	dry := len(options.DryRun) > 0
	stored, err = s.store.write(c, at, dry, func(before *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if before == nil {
			return nil, apierrors.NewNotFound(k.resource(), at.name)
		}
		after, err := k.deleted(before, options)
		kept = after != nil
		return after, err
	})
	return stored, kept, err
}

// removeAll deletes the selected objects, and answers with their previous states.
func (s *Server) removeAll(w http.ResponseWriter, r *http.Request, c *collection, k *kind, at key) error {
	o, selected, err := k.listOptions(r.URL.Query(), at)
	if err != nil {
		return err
	}
	options, err := deleteOptions(w, r)
	if err != nil {
		return err
	}
	found, meta, err := s.page(c, o, selected)
	if err != nil {
		return err
	}
	for _, object := range found {
		_, _, err := s.erase(c, k, key{object.GetNamespace(), object.GetName()}, options)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return answer(w, http.StatusOK, whole.encodedList(k, found, meta, metav1.IncludeMetadata))
}
