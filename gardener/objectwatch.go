package gardener

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/hap-worker/hap-worker/gardener/verdict"
)

// objectWatch watches objects of one kind.
type objectWatch struct {
	what     string // which objects, for words
	warn     func(string)
	informer cache.SharedIndexInformer
	events   cache.ResourceEventHandlerRegistration
	close    func()

	mu       sync.Mutex
	cancel   context.CancelFunc // nil until Start
	running  sync.WaitGroup
	watchErr error
}

// newNamedWatch watches one object by its name, and no other: it needs the right to list
// and watch the object of that name only. It asks the server nothing yet. changed is told
// the object whenever it changes, nil once it is gone, by one goroutine.
func newNamedWatch(config *rest.Config, resource schema.GroupVersionResource, namespace, name, what string, warn func(string), changed func(*unstructured.Unstructured)) (*objectWatch, error) {
	only := metav1.ObjectNameField + "=" + name
	seen := func(obj any) {
		if o, ok := obj.(*unstructured.Unstructured); ok {
			changed(o)
		}
	}
	return newObjectWatch(config, what, warn, watched{
		resource:  resource,
		namespace: namespace,
		narrow:    func(o *metav1.ListOptions) { o.FieldSelector = only },
	}, nil, cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, obj any) { seen(obj) },
		DeleteFunc: func(any) { changed(nil) },
	})
}

// newObjectWatch makes a watch of some objects without asking the server anything. keep,
// where it is given, says what is kept of each; handlers are called by one goroutine.
func newObjectWatch(config *rest.Config, what string, warn func(string), some watched, keep cache.TransformFunc, handlers cache.ResourceEventHandler) (*objectWatch, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	api, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	w := &objectWatch{what: what, warn: warn, close: client.CloseIdleConnections}
	w.informer = objectInformer(api, some)
	if keep != nil {
		if err := w.informer.SetTransform(keep); err != nil {
			return nil, fmt.Errorf("gardener: %w", err)
		}
	}
	if err := w.informer.SetWatchErrorHandlerWithContext(w.watchFailed); err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	w.events, err = w.informer.AddEventHandler(handlers)
	if err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	return w, nil
}

// Start begins to watch and returns. It ends with ctx or with Stop, and cannot be
// started again.
func (w *objectWatch) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		return errors.New("gardener: the watch of " + w.what + " was started or stopped before")
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.running.Go(func() { w.informer.RunWithContext(ctx) })
	return nil
}

// Stop ends the watch and waits for it. Stopping before the start, or twice, is fine.
func (w *objectWatch) Stop() {
	w.mu.Lock()
	if w.cancel == nil {
		w.cancel = func() {}
	}
	w.cancel()
	w.mu.Unlock()
	w.running.Wait()
	w.close()
}

// WaitSynced waits until it is known whether there is such an object, and the change
// was told if there is; or until the end of ctx, and then says why the watch has
// failed so far.
func (w *objectWatch) WaitSynced(ctx context.Context) error {
	if cache.WaitForCacheSync(ctx.Done(), w.events.HasSynced) {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	err := fmt.Errorf("gardener: %s not read: %w", w.what, context.Cause(ctx))
	if w.watchErr != nil {
		err = fmt.Errorf("%w; the last attempt: %w", err, w.watchErr)
	}
	return err
}

// watchFailed tells the operator, once for each different failure in a row; the
// informer tries again by itself.
func (w *objectWatch) watchFailed(_ context.Context, _ *cache.Reflector, err error) {
	if verdict.Expected(err) {
		return
	}
	w.mu.Lock()
	again := w.watchErr != nil && w.watchErr.Error() == err.Error()
	w.watchErr = err
	w.mu.Unlock()
	if !again {
		w.warn(fmt.Sprintf("the watch of %s failed and is tried again: %v", w.what, err))
	}
}
