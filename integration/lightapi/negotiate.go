package lightapi

import (
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// form is a representation of objects in an answer.
type form int

const (
	whole form = iota
	metadataOnly
	metadataOnlyList
	table
)

// negotiate returns the first form in the Accept header that this API supports. It supports JSON only; for a
// client that accepts only protobuf the error is 406.
func negotiate(header http.Header) (form, error) {
	accept := header.Values("Accept")
	if len(accept) == 0 {
		return whole, nil
	}
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, parameters, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil || media != "application/json" && media != "application/*" && media != "*/*" {
			continue
		}
		if f, ok := formOf(parameters); ok {
			return f, nil
		}
	}
	return whole, apiError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: application/json")
}

func formOf(parameters map[string]string) (form, bool) {
	as, asked := parameters["as"]
	if !asked {
		return whole, true
	}
	if parameters["g"] != metav1.GroupName || parameters["v"] != "v1" {
		return whole, false
	}
	switch as {
	case "PartialObjectMetadata":
		return metadataOnly, true
	case "PartialObjectMetadataList":
		return metadataOnlyList, true
	case "Table":
		return table, true
	default:
		return whole, false
	}
}

// of refuses the list form for an object, and the object form for a list.
func (f form) of(list bool) error {
	if list && f == metadataOnly || !list && f == metadataOnlyList {
		return apiError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "PartialObjectMetadata is for objects, PartialObjectMetadataList for lists")
	}
	return nil
}
