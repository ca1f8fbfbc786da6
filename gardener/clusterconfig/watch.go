package clusterconfig

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/hap-worker/hap-worker/gardener/kube"
)

// watch creates the watch of the ClusterConfigs that workers have written.
func (c *Configs) watch(config *rest.Config) (err error) {
	c.ObjectWatch, err = kube.NewObjectWatch(config, "ClusterConfigs", c.opts.Warn, kube.Watched{
		Resource:  clusterConfigs,
		Namespace: metav1.NamespaceAll,
		Narrow:    func(o *metav1.ListOptions) { o.LabelSelector = labelManagedBy + "=" + managedBy },
	}, withoutManagers, cache.ResourceEventHandlerFuncs{
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

// withoutManagers drops the managed fields, which are most of the bytes of a small object.
func withoutManagers(obj any) (any, error) {
	if o, ok := obj.(*unstructured.Unstructured); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// seen calls Changed with the object's runtime if another writer edited the object, or if it cannot be read.
// If the runtime label changed, seen calls Changed with the former runtime, too.
func (c *Configs) seen(before, obj any) {
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

func (c *Configs) tell(o *unstructured.Unstructured) {
	if runtime := o.GetLabels()[labelRuntime]; runtime != "" {
		c.opts.Changed(runtime)
	}
}

// Stop ends the watch and waits for it. Stopping before the start, or twice, is fine.
func (c *Configs) Stop() {
	c.ObjectWatch.Stop()
	c.http.CloseIdleConnections()
}
