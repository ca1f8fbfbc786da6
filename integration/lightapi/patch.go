package lightapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// maxOperations is how many operations a JSON patch may have, as in kube-apiserver.
const maxOperations = 10000

// takes refuses the types of patches that the kind does not support. A custom kind has no strategic merge
// patch, because no merge keys of its lists are known.
func (k *kind) takes(sort types.PatchType) error {
	known := []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}
	if !k.custom {
		known = append(known, string(types.StrategicMergePatchType))
	}
	if slices.Contains(known, string(sort)) {
		return nil
	}
	return unsupportedMedia("the body of the request was in an unknown format - accepted media types include: " + strings.Join(known, ", "))
}

// patched returns a patched copy of an object.
func (k *kind) patched(o *unstructured.Unstructured, sort types.PatchType, patch []byte) (*unstructured.Unstructured, error) {
	before, err := json.Marshal(o.Object)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if sort == types.StrategicMergePatchType {
		if err := plain(patch); err != nil {
			return nil, err
		}
	}
	var after []byte
	if sort == types.JSONPatchType {
		after, err = patchedJSON(before, patch)
	} else {
		after, err = merged(before, patch)
	}
	if err != nil {
		return nil, err
	}
	return decodeJSON(after)
}

func patchedJSON(before, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, apierrors.NewBadRequest("error decoding patch: " + err.Error())
	}
	if len(operations) > maxOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(operations)))
	}
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = maxBody
	options.AllowMissingPathOnRemove = false
	after, err := operations.ApplyWithOptions(before, options)
	if err != nil {
		return nil, unprocessable(err.Error())
	}
	return after, nil
}

func merged(before, patch []byte) ([]byte, error) {
	var object map[string]any
	if err := utiljson.Unmarshal(patch, &object); err != nil || object == nil {
		return nil, apierrors.NewBadRequest("error decoding patch: it is no JSON object")
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return nil, apierrors.NewBadRequest("error decoding patch: " + err.Error())
	}
	return after, nil
}

// plain refuses a strategic merge patch that a merge patch cannot express. For the built-in kinds, these are
// patches with lists or directives.
func plain(patch []byte) error {
	var content map[string]any
	if err := utiljson.Unmarshal(patch, &content); err != nil {
		return apierrors.NewBadRequest("error decoding patch: " + err.Error())
	}
	var check func(value any) error
	check = func(value any) error {
		switch value := value.(type) {
		case []any:
			return unsupportedMedia("this API merges no lists strategically: use a JSON patch or a merge patch")
		case map[string]any:
			for name, inner := range value {
				if strings.HasPrefix(name, "$") {
					return unsupportedMedia("this API knows no directives of strategic merge patches: use a JSON patch or a merge patch")
				}
				if err := check(inner); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return check(content)
}

// decodeJSON reads an object from JSON.
func decodeJSON(content []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(content, &o.Object); err != nil {
		return nil, apierrors.NewBadRequest("the body cannot be read: " + err.Error())
	}
	if o.Object == nil {
		return nil, apierrors.NewBadRequest("the body is no object")
	}
	if meta, there := o.Object["metadata"]; there && meta != nil {
		if _, ok := meta.(map[string]any); !ok {
			return nil, apierrors.NewBadRequest("metadata is no object")
		}
	}
	if o.Object["metadata"] == nil {
		o.Object["metadata"] = map[string]any{}
	}
	return o, nil
}

// decodeYAML decodes an object from YAML or JSON.
func decodeYAML(content []byte) (*unstructured.Unstructured, error) {
	content, err := yaml.YAMLToJSON(content)
	if err != nil {
		return nil, apierrors.NewBadRequest("the body cannot be read: " + err.Error())
	}
	return decodeJSON(content)
}

func unsupportedMedia(message string) error {
	return apiError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, message)
}

func unprocessable(message string) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", message, 0, false)
}

func apiError(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}
