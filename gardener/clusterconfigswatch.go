package gardener

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/hap-worker/hap-worker/gardener/verdict"
)

// watch prepares the informer of what workers have written.
func (c *ClusterConfigs) watch() error {
	c.informer = objectInformer(c.objects, watched{
		resource:  clusterConfigs,
		namespace: metav1.NamespaceAll,
		narrow:    func(o *metav1.ListOptions) { o.LabelSelector = labelManagedBy + "=" + managedBy },
	})
	if err := c.informer.SetTransform(withoutManagers); err != nil {
		return err
	}
	if err := c.informer.SetWatchErrorHandlerWithContext(c.watchFailed); err != nil {
		return err
	}
	_, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.seen(nil, obj) },
		UpdateFunc: c.seen,
		DeleteFunc: func(obj any) {
			if missed, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = missed.Obj
			}
			if o, ok := obj.(*unstructured.Unstructured); ok {
				c.tell(o)
			}
		},
	})
	return err
}

// withoutManagers drops what is most of the bytes of a small object.
func withoutManagers(obj any) (any, error) {
	if o, ok := obj.(*unstructured.Unstructured); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// seen tells of an object that another writer edited, under the runtime that it was of.
func (c *ClusterConfigs) seen(before, obj any) {
	is, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	if was, ok := before.(*unstructured.Unstructured); ok && was.GetLabels()[labelRuntime] != is.GetLabels()[labelRuntime] {
		c.tell(was)
	}
	if n, err := noteOf(is); err != nil || n.Edited {
		c.tell(is)
	}
}

func (c *ClusterConfigs) tell(o *unstructured.Unstructured) {
	if runtime := o.GetLabels()[labelRuntime]; runtime != "" {
		c.opts.Changed(runtime)
	}
}

// Start begins to watch and returns. It ends with ctx or with Stop, and cannot be
// started again.
func (c *ClusterConfigs) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		return errors.New("gardener: the watch of ClusterConfigs was started or stopped before")
	}
	ctx, c.cancel = context.WithCancel(ctx)
	c.running.Go(func() { c.informer.RunWithContext(ctx) })
	return nil
}

// Stop ends the watch and waits for it. Stopping before the start, or twice, is fine.
func (c *ClusterConfigs) Stop() {
	c.mu.Lock()
	if c.cancel == nil {
		c.cancel = func() {}
	}
	c.cancel()
	c.mu.Unlock()
	c.running.Wait()
	c.http.CloseIdleConnections()
}

// watchFailed tells the operator, once for each different failure in a row; the
// informer tries again by itself.
func (c *ClusterConfigs) watchFailed(_ context.Context, _ *cache.Reflector, err error) {
	if verdict.Expected(err) {
		return
	}
	c.mu.Lock()
	again := c.watchErr == err.Error()
	c.watchErr = err.Error()
	c.mu.Unlock()
	if !again {
		c.opts.Warn(fmt.Sprintf("the watch of ClusterConfigs failed and is tried again: %v", err))
	}
}
