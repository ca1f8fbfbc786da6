package lightapi

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// maxBody is the maximal size of a body, as in kube-apiserver.
const maxBody = 3 << 20

// target is the collection or the object that a path names.
type target struct {
	resource    schema.GroupVersionResource // without a resource: the group version itself
	at          key                         // without a name: the collection
	subresource string
}

// parsePath parses a path below /api or /apis. ok is false for an invalid path.
func parsePath(path string) (t target, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if slices.Contains(parts, "") {
		return t, false
	}
	switch {
	case parts[0] == "api" && len(parts) >= 2:
		t.resource.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) >= 3:
		t.resource.Group, t.resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return t, false
	}
	if len(parts) > 2 && parts[0] == namespaces && !(len(parts) == 3 && (parts[2] == "status" || parts[2] == "finalize")) {
		t.at.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 3 {
		return t, false
	}
	parts = append(parts, "", "", "")
	t.resource.Resource, t.at.name, t.subresource = parts[0], parts[1], parts[2]
	return t, true
}

// body reads a body of at most maxBody bytes.
func body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("the body cannot be read: " + err.Error())
	}
	return content, nil
}

// mediaType returns the media type of the body. It defaults to JSON.
func mediaType(r *http.Request) (string, error) {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return "application/json", nil
	}
	media, _, err := mime.ParseMediaType(header)
	if err != nil {
		return "", unsupportedMedia("the body of the request was in an unknown format: " + err.Error())
	}
	return media, nil
}

// objectIn decodes the object in the body.
func objectIn(w http.ResponseWriter, r *http.Request) (*unstructured.Unstructured, error) {
	media, err := mediaType(r)
	if err != nil {
		return nil, err
	}
	content, err := body(w, r)
	if err != nil {
		return nil, err
	}
	switch media {
	case "application/json":
		return decodeJSON(content)
	case "application/yaml":
		return decodeYAML(content)
	default:
		return nil, unsupportedMedia("the body of the request was in an unknown format - accepted media types include: application/json, application/yaml")
	}
}

// deleteOptions decodes the options in the body, or, without a body, in the query.
func deleteOptions(w http.ResponseWriter, r *http.Request) (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	content, err := body(w, r)
	if err != nil {
		return nil, err
	}
	if len(content) > 0 {
		media, err := mediaType(r)
		if err == nil && media != "application/json" {
			err = unsupportedMedia("the body of the request was in an unknown format - accepted media types include: application/json")
		}
		if err != nil {
			return nil, err
		}
		if err := utiljson.Unmarshal(content, options); err != nil {
			return nil, apierrors.NewBadRequest("the options cannot be read: " + err.Error())
		}
		return options, nil
	}
	query := r.URL.Query()
	if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&query, options, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return options, nil
}

// include returns how much of the object each row of a table includes.
func include(query url.Values) metav1.IncludeObjectPolicy {
	return metav1.IncludeObjectPolicy(query.Get("includeObject"))
}
