package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/hap-worker/hap-worker/gardener/verdict"
)

// ObjectWatch watches objects of one kind.
type ObjectWatch struct {
	What     string // the objects, for errors and warnings
	warn     func(string)
	Informer cache.SharedIndexInformer
	events   cache.ResourceEventHandlerRegistration
	close    func()

	mu       sync.Mutex
	cancel   context.CancelFunc // nil until Start
	running  sync.WaitGroup
	failures Failures
}

// NewNamedWatch returns a watch of one object, which needs only the right to list and watch the object
// of that name. It sends no request yet. One goroutine calls changed with the object that exists at the start,
// whenever it changes and after each new list, and with nil once it is deleted.
func NewNamedWatch(config *rest.Config, resource schema.GroupVersionResource, namespace, name, what string, warn func(string), changed func(*unstructured.Unstructured)) (*ObjectWatch, error) {
	only := metav1.ObjectNameField + "=" + name
	seen := func(obj any) {
		if o, ok := obj.(*unstructured.Unstructured); ok {
			changed(o)
		}
	}
	return NewObjectWatch(config, what, warn, Watched{
		Resource:  resource,
		Namespace: namespace,
		Narrow:    func(o *metav1.ListOptions) { o.FieldSelector = only },
	}, nil, cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, obj any) { seen(obj) },
		DeleteFunc: func(any) { changed(nil) },
	})
}

// NewObjectWatch returns a watch of some objects, and sends no request yet. keep, if not nil,
// transforms each object before it is cached. One goroutine calls the handlers.
func NewObjectWatch(config *rest.Config, what string, warn func(string), some Watched, keep cache.TransformFunc, handlers cache.ResourceEventHandler) (*ObjectWatch, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	api, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	w := &ObjectWatch{What: what, warn: warn, close: client.CloseIdleConnections}
	w.Informer = ObjectInformer(api, some)
	if keep != nil {
		if err := w.Informer.SetTransform(keep); err != nil {
			return nil, fmt.Errorf("gardener: %w", err)
		}
	}
	if err := w.Informer.SetWatchErrorHandlerWithContext(w.watchFailed); err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	w.events, err = w.Informer.AddEventHandler(handlers)
	if err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	return w, nil
}

// Start starts the watch and returns. The watch ends with ctx or Stop. It cannot be started again.
func (w *ObjectWatch) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		return errors.New("gardener: the watch of " + w.What + " was started or stopped before")
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.running.Go(func() { w.Informer.RunWithContext(ctx) })
	return nil
}

// Stop ends the watch and waits for it. Stopping before the start, or twice, is fine.
func (w *ObjectWatch) Stop() {
	w.mu.Lock()
	if w.cancel == nil {
		w.cancel = func() {}
	}
	w.cancel()
	w.mu.Unlock()
	w.running.Wait()
	w.close()
}

// Synced reports whether the first list is read and the handlers were called with its objects. It is also true if the
// watch failed last because the client may not list the objects or the API does not know them: then waiting is in vain.
func (w *ObjectWatch) Synced() bool {
	last := w.failures.Last()
	return apierrors.IsForbidden(last) || apierrors.IsNotFound(last) || w.events.HasSynced()
}

// WaitSynced waits until the first list is read and the handlers were called with its objects. If ctx
// ends before, it returns an error, with the last failure of the watch if there was one.
func (w *ObjectWatch) WaitSynced(ctx context.Context) error {
	if cache.WaitForCacheSync(ctx.Done(), w.events.HasSynced) {
		return nil
	}
	err := fmt.Errorf("gardener: %s not read: %w", w.What, context.Cause(ctx))
	if last := w.failures.Last(); last != nil {
		err = fmt.Errorf("%w; the last attempt: %w", err, last)
	}
	return err
}

// watchFailed warns the operator of an unexpected failure, unless the same failure was recorded a short time
// before (Failures.Add). The informer itself tries again.
func (w *ObjectWatch) watchFailed(_ context.Context, _ *cache.Reflector, err error) {
	if verdict.Expected(err) {
		return
	}
	if w.failures.Add(err, time.Now()) {
		w.warn(fmt.Sprintf("the watch of %s failed and is tried again: %v", w.What, err))
	}
}
