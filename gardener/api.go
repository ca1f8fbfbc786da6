package gardener

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/gardener/kube"
	"github.com/hap-worker/hap-worker/gardener/verdict"
)

const (
	// metadataOnly has no fall-back to whole objects: a server that does not support it answers 406,
	// and never sends the contents of a Secret.
	metadataOnly     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataOnlyList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	wholeObjects     = "application/json"

	listAttempts = 3 // how often a list is begun in all, if its continuation expires
)

// newAPI returns a client for all requests except the informers'. By default client-go repeats requests, even
// patches, that are answered with Retry-After. This client's requests have MaxRetries(0), and retry.go decides
// about repeats.
func newAPI(config *rest.Config, h *http.Client) (*rest.RESTClient, error) {
	config = metadata.ConfigFor(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/unused" // every request has an absolute path
	return rest.RESTClientForConfigAndClient(config, h)
}

// path returns the segments of the path of a resource in the namespace or, with a name, of the object of
// that name.
func (c *Client) path(r schema.GroupVersionResource, name ...string) []string {
	segments := []string{"apis", r.Group, r.Version, "namespaces", c.opts.Namespace, r.Resource}
	if r.Group == "" {
		segments = append([]string{"api"}, segments[2:]...)
	}
	return append(segments, name...)
}

// object is the decoded part of an API object: what a binding is made from.
type object struct {
	Metadata metav1.ObjectMeta `json:"metadata"`

	references `json:",inline"` // empty if only the metadata was requested
}

func (c *Client) getObject(ctx context.Context, name string) (object, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	var o object
	return o, decode(c.api.Get().MaxRetries(0).AbsPath(c.path(c.kind.resource, name)...).
		SetHeader("Accept", metadataOnly).Do(ctx), &o)
}

func (c *Client) patchObject(ctx context.Context, name string, patch []byte) (object, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	var o object
	return o, decode(c.api.Patch(types.MergePatchType).MaxRetries(0).AbsPath(c.path(c.kind.resource, name)...).
		SetHeader("Accept", metadataOnly).Param("fieldManager", kube.FieldManager).Body(patch).Do(ctx), &o)
}

// page is one page of a list.
type page[T any] struct {
	Metadata metav1.ListMeta `json:"metadata"`
	Items    []T             `json:"items"`
}

func getPage[T any](ctx context.Context, c *Client, of listing, from string) (page[T], error) {
	ctx, cancel := context.WithTimeout(ctx, kube.PageTimeouts*c.opts.Timeout)
	defer cancel()
	request := c.api.Get().MaxRetries(0).AbsPath(c.path(of.resource)...).
		SetHeader("Accept", of.accept).Param("limit", strconv.Itoa(kube.PageSize))
	if of.selector != "" {
		request = request.Param("labelSelector", of.selector)
	}
	if from != "" {
		request = request.Param("continue", from)
	}
	var p page[T]
	return p, decode(request.Do(ctx), &p)
}

// listing selects the objects of a list, and their form.
type listing struct {
	resource schema.GroupVersionResource
	accept   string
	selector string
}

// list reads all pages of one consistent list and calls f with each item, until f returns false. If the
// server has forgotten the list meanwhile (410), list begins anew, up to listAttempts times in all. Before
// each attempt it calls restart, which can discard what f has collected.
func list[T any](ctx context.Context, c *Client, of listing, restart func(), f func(T) (more bool)) error {
	var err error
	for range listAttempts {
		restart()
		if err = listOnce(ctx, c, of, f); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
	}
	return err
}

func listOnce[T any](ctx context.Context, c *Client, of listing, f func(T) (more bool)) error {
	for from := ""; ; {
		var p page[T]
		err := c.read(ctx, "list "+of.resource.Resource, func(ctx context.Context) (err error) {
			p, err = getPage[T](ctx, c, of, from)
			return err
		})
		if err != nil {
			return err
		}
		for _, item := range p.Items {
			if !f(item) {
				return nil
			}
		}
		if from = p.Metadata.Continue; from == "" {
			return nil
		}
	}
}

// decode decodes an answer. Errors: *answerError for a failed request, *garbledError for an unreadable
// answer.
func decode(answer rest.Result, into any) error {
	raw, plain := answer.Raw()
	if plain != nil {
		// Raw knows the status code and the headers, Error what the body says.
		return &answerError{err: answer.Error(), after: verdict.Delay(plain)}
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return &garbledError{err}
	}
	return nil
}

// answerError is a failed request. after is the delay in its answer's header Retry-After, 0 without one.
type answerError struct {
	err   error
	after time.Duration
}

func (e *answerError) Error() string { return e.err.Error() }
func (e *answerError) Unwrap() error { return e.err }

// garbledError is an answer of success with an unreadable body. The result of a write is then unknown,
// as after a lost connection.
type garbledError struct{ err error }

func (e *garbledError) Error() string { return fmt.Sprintf("the answer cannot be read: %v", e.err) }
func (e *garbledError) Unwrap() error { return e.err }
