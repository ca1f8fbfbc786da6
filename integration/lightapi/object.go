package lightapi

import (
	"fmt"
	"reflect"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// metadataPath is the path of metadata in errors.
var metadataPath = field.NewPath("metadata")

// metadataOf decodes the metadata. It fails if they do not fit metav1.ObjectMeta.
func metadataOf(o *unstructured.Unstructured) (*metav1.ObjectMeta, error) {
	meta := &metav1.ObjectMeta{}
	content, found, err := unstructured.NestedMap(o.Object, "metadata")
	if err == nil && found {
		delete(content, "selfLink")
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, meta)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("metadata cannot be read: " + err.Error())
	}
	meta.ManagedFields = nil
	return meta, nil
}

// setMetadata replaces the metadata by meta, and so drops unknown fields.
func setMetadata(o *unstructured.Unstructured, meta *metav1.ObjectMeta) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
	if err != nil {
		return apierrors.NewBadRequest("metadata cannot be written: " + err.Error())
	}
	if meta.CreationTimestamp.IsZero() {
		delete(content, "creationTimestamp")
	}
	o.Object["metadata"] = content
	return nil
}

// belongs checks that a body has the request's kind, and its namespace and name where the body names them.
func (k *kind) belongs(o *unstructured.Unstructured, at key) error {
	if o.GetAPIVersion() != k.groupVersion().String() || o.GetKind() != k.name {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s in version %q",
			o.GetKind(), o.GetAPIVersion(), k.name, k.groupVersion()))
	}
	if ns := o.GetNamespace(); ns != "" && ns != at.namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the provided object does not match the namespace sent on the request (%q, %q)", ns, at.namespace))
	}
	if at.name != "" && o.GetName() != "" && o.GetName() != at.name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), at.name))
	}
	return nil
}

// created completes and checks a new object. It alters o.
func (k *kind) created(o *unstructured.Unstructured, namespace string) (*unstructured.Unstructured, error) {
	meta, err := metadataOf(o)
	if err != nil {
		return nil, err
	}
	if meta.ResourceVersion != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	if meta.Name == "" && meta.GenerateName != "" {
		meta.Name = meta.GenerateName + utilrand.String(5)
	}
	meta.Namespace, meta.UID, meta.CreationTimestamp = namespace, uuid.NewUUID(), metav1.Now().Rfc3339Copy()
	meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds, meta.Generation = nil, nil, 0
	if k.generation {
		meta.Generation = 1
	}
	if faults := validation.ValidateObjectMeta(meta, k.namespaced, k.validName, metadataPath); len(faults) > 0 {
		return nil, k.invalid(meta.Name, faults...)
	}
	if k.status {
		delete(o.Object, "status")
	}
	if err := setMetadata(o, meta); err != nil {
		return nil, err
	}
	return o, k.complete(o, nil)
}

func (k *kind) validName(name string, prefix bool) []string {
	if k.plural == namespaces && k.group == "" {
		return validation.NameIsDNSLabel(name, prefix)
	}
	return validation.NameIsDNSSubdomain(name, prefix)
}

func (k *kind) complete(o, before *unstructured.Unstructured) error {
	if k.prepare == nil {
		return nil
	}
	return k.prepare(o, before)
}

// updated completes and validates an object that replaces another. It alters o. The result is nil if the
// object is being deleted and no finalizer is left.
func (k *kind) updated(before, o *unstructured.Unstructured, status bool) (*unstructured.Unstructured, error) {
	was, err := metadataOf(before)
	if err != nil {
		return nil, err
	}
	meta, err := metadataOf(o)
	if err != nil {
		return nil, err
	}
	if err := k.current(was, meta); err != nil {
		return nil, err
	}
	if status {
		kept := before.DeepCopy()
		if kept.Object["status"] = o.Object["status"]; o.Object["status"] == nil {
			delete(kept.Object, "status")
		}
		o, meta = kept, was.DeepCopy()
	} else if k.status {
		if o.Object["status"] = before.Object["status"]; before.Object["status"] == nil {
			delete(o.Object, "status")
		}
	}
	meta.Namespace, meta.ResourceVersion, meta.UID, meta.CreationTimestamp = was.Namespace, was.ResourceVersion, was.UID, was.CreationTimestamp
	meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds = was.DeletionTimestamp, was.DeletionGracePeriodSeconds
	meta.Generation, meta.GenerateName = was.Generation, was.GenerateName
	if k.generation && !reflect.DeepEqual(desired(before), desired(o)) {
		meta.Generation++
	}
	faults := validation.ValidateObjectMeta(meta, k.namespaced, k.validName, metadataPath)
	faults = append(faults, validation.ValidateObjectMetaUpdate(meta, was, metadataPath)...)
	if len(faults) > 0 {
		return nil, k.invalid(was.Name, faults...)
	}
	if err := setMetadata(o, meta); err != nil {
		return nil, err
	}
	if err := k.complete(o, before); err != nil {
		return nil, err
	}
	if meta.DeletionTimestamp != nil && !k.held(o, meta) {
		return nil, nil
	}
	return o, nil
}

// current checks the resourceVersion and the UID of a write against the stored object.
func (k *kind) current(was, meta *metav1.ObjectMeta) error {
	if meta.ResourceVersion == "" && k.custom {
		return k.invalid(was.Name, field.Invalid(metadataPath.Child("resourceVersion"), 0, "must be specified for an update"))
	}
	if meta.ResourceVersion != "" && meta.ResourceVersion != was.ResourceVersion {
		if _, err := strconv.ParseUint(meta.ResourceVersion, 10, 64); err != nil {
			return k.invalid(was.Name, field.Invalid(metadataPath.Child("resourceVersion"), meta.ResourceVersion, err.Error()))
		}
		return k.modified(was.Name)
	}
	if meta.UID != "" && meta.UID != was.UID {
		return k.otherUID(was, meta.UID)
	}
	return nil
}

func (k *kind) modified(name string) error {
	return apierrors.NewConflict(k.resource(), name,
		fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
}

func (k *kind) otherUID(was *metav1.ObjectMeta, uid types.UID) error {
	return apierrors.NewConflict(k.resource(), was.Name,
		fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v", uid, was.UID))
}

// desired returns the parts of an object whose changes increment the generation: all but metadata and status.
func desired(o *unstructured.Unstructured) map[string]any {
	rest := make(map[string]any, len(o.Object))
	for name, value := range o.Object {
		if name != "metadata" && name != "status" {
			rest[name] = value
		}
	}
	return rest
}

// held reports whether a finalizer keeps an object from being deleted.
func (k *kind) held(o *unstructured.Unstructured, meta *metav1.ObjectMeta) bool {
	if len(meta.Finalizers) > 0 {
		return true
	}
	if k.plural != namespaces || k.group != "" {
		return false
	}
	left, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "finalizers")
	return len(left) > 0
}

// deleted returns the object after a deletion: nil, or, if it has finalizers, the object with its
// deletionTimestamp.
func (k *kind) deleted(before *unstructured.Unstructured, options *metav1.DeleteOptions) (*unstructured.Unstructured, error) {
	meta, err := metadataOf(before)
	if err != nil {
		return nil, err
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != meta.UID {
			return nil, k.otherUID(meta, *p.UID)
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != meta.ResourceVersion {
			return nil, apierrors.NewConflict(k.resource(), meta.Name, fmt.Errorf(
				"precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *p.ResourceVersion, meta.ResourceVersion))
		}
	}
	if !k.held(before, meta) {
		return nil, nil
	}
	if meta.DeletionTimestamp != nil {
		return before, nil
	}
	o, now, grace := before.DeepCopy(), metav1.Now().Rfc3339Copy(), int64(0)
	meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds = &now, &grace
	if k.generation {
		meta.Generation++
	}
	if err := setMetadata(o, meta); err != nil {
		return nil, err
	}
	return o, k.complete(o, before)
}
