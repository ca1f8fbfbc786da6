package gardener

import (
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener/kube"
	"github.com/hap-worker/hap-worker/gardener/verdict"
)

var eventResource = schema.GroupVersionResource{Version: "v1", Resource: "events"}

// kubernetesEvent is the written form of an Event. client-go's recorder would link the typed client of
// every Kubernetes kind.
type kubernetesEvent struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	InvolvedObject struct {
		APIVersion string    `json:"apiVersion"`
		Kind       string    `json:"kind"`
		Name       string    `json:"name"`
		Namespace  string    `json:"namespace"`
		UID        types.UID `json:"uid"`
	} `json:"involvedObject"`
	Source struct {
		Component string `json:"component"`
	} `json:"source"`
	ReportingComponent string `json:"reportingComponent"`
	Type               string `json:"type"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	FirstTimestamp     string `json:"firstTimestamp"`
	eventCount
}

// eventCount has the fields of an Event that change when its occurrence happens again.
type eventCount struct {
	Count         int    `json:"count"`
	LastTimestamp string `json:"lastTimestamp"`
}

// Note writes an Event about a binding. If n.Written is set and the Event still exists, it only updates its
// count and last time. It does not retry: a failed note is lost. An Event that another worker has already
// written is no error. It needs the rights to create and patch events, and to get bindings. Errors:
// engine.CodeUnknownBinding, engine.ErrUnavailable and any other error of the API.
func (c *Client) Note(ctx context.Context, n engine.Note) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	count := eventCount{Count: n.Count, LastTimestamp: n.Last.UTC().Format(time.RFC3339)}
	if n.Written {
		err := c.patchEvent(ctx, n.Name, count)
		if !apierrors.IsNotFound(err) { // the API server forgets events after an hour
			return noted(err, true)
		}
	}
	of, err := c.getObject(ctx, n.Binding)
	if err != nil {
		return noted(err, false)
	}
	if err := c.createEvent(ctx, n, of, count); !apierrors.IsAlreadyExists(err) {
		return noted(err, true)
	}
	return nil
}

func (c *Client) createEvent(ctx context.Context, n engine.Note, of object, count eventCount) error {
	e := kubernetesEvent{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}, ReportingComponent: kube.FieldManager, Type: "Normal",
		Reason: string(n.Reason), Message: n.Message, FirstTimestamp: n.First.UTC().Format(time.RFC3339), eventCount: count,
	}
	if n.Reason.Warns() {
		e.Type = "Warning"
	}
	e.Metadata.Name, e.Metadata.Namespace, e.Source.Component = n.Name, c.opts.Namespace, kube.FieldManager
	e.InvolvedObject.APIVersion = c.kind.resource.GroupVersion().String()
	e.InvolvedObject.Kind, e.InvolvedObject.Name, e.InvolvedObject.Namespace = c.kind.name, n.Binding, c.opts.Namespace
	e.InvolvedObject.UID = of.Metadata.UID // kubectl describe selects by it
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return decode(c.api.Post().MaxRetries(0).AbsPath(c.path(eventResource)...).
		Param("fieldManager", kube.FieldManager).Body(body).Do(ctx), &object{})
}

func (c *Client) patchEvent(ctx context.Context, name string, count eventCount) error {
	body, err := json.Marshal(count)
	if err != nil {
		return err
	}
	return decode(c.api.Patch(types.MergePatchType).MaxRetries(0).AbsPath(c.path(eventResource, name)...).
		Param("fieldManager", kube.FieldManager).Body(body).Do(ctx), &object{})
}

// noted returns the error of Note for that of a request, which was a write or a read.
func noted(err error, write bool) error {
	if err == nil {
		return nil
	}
	return named("gardener: write an event", verdict.Of(err, write), err)
}
