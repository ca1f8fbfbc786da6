package clusterconfig

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/gardener/kube"
)

// ClusterWatchOptions are the callbacks of a ClusterWatch.
type ClusterWatchOptions struct {
	// Changed is called when a Cluster appears or changes, and after each new list, with its state before, nil
	// for a new one, and its present state. It is not called for a Cluster that is deleted or being deleted.
	// One goroutine calls it. Required.
	Changed func(before, now *network.Cluster)
	// Warn is called with one line about something that an operator should look at.
	// It must not block. Required.
	Warn func(string)
}

// ClusterWatch keeps the labels and purposes of all Clusters. It needs the right to list and watch
// Clusters.
type ClusterWatch struct{ *kube.ObjectWatch }

// NewClusterWatch returns a ClusterWatch, and sends no request yet.
func NewClusterWatch(config *rest.Config, opts ClusterWatchOptions) (*ClusterWatch, error) {
	if opts.Changed == nil || opts.Warn == nil {
		return nil, errors.New("gardener: a watch of Clusters needs Changed and Warn")
	}
	w, err := kube.NewObjectWatch(config, "Clusters", opts.Warn, kube.Watched{Resource: clusters, Namespace: metav1.NamespaceAll},
		selected, cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { changedCluster(nil, obj, opts.Changed) },
			UpdateFunc: func(before, obj any) {
				changedCluster(before, obj, opts.Changed)
			},
		})
	if err != nil {
		return nil, err
	}
	return &ClusterWatch{w}, nil
}

// Now returns the present state of a Cluster; false if there is none or it is being deleted.
func (w *ClusterWatch) Now(id network.Identity) (network.Cluster, bool) {
	obj, there, err := w.Informer.GetStore().GetByKey(id.Namespace + "/" + id.Name)
	if err != nil || !there {
		return network.Cluster{}, false
	}
	c := clusterOf(obj)
	if c == nil {
		return network.Cluster{}, false
	}
	return *c, true
}

func changedCluster(before, obj any, changed func(before, now *network.Cluster)) {
	if now := clusterOf(obj); now != nil {
		changed(clusterOf(before), now)
	}
}

// clusterOf returns the fields that selectors use, nil if obj is no Cluster or is being deleted.
func clusterOf(obj any) *network.Cluster {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok || o.GetDeletionTimestamp() != nil {
		return nil
	}
	purposes, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "purposes") // none if they have another form
	return &network.Cluster{Name: o.GetName(), Namespace: o.GetNamespace(), Labels: o.GetLabels(), Purposes: purposes}
}

// selected keeps only the fields that selectors and the informer use.
func selected(obj any) (any, error) {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	kept := &unstructured.Unstructured{Object: map[string]any{}}
	kept.SetAPIVersion(o.GetAPIVersion())
	kept.SetKind(o.GetKind())
	kept.SetNamespace(o.GetNamespace())
	kept.SetName(o.GetName())
	kept.SetUID(o.GetUID())
	kept.SetResourceVersion(o.GetResourceVersion())
	kept.SetDeletionTimestamp(o.GetDeletionTimestamp())
	kept.SetLabels(o.GetLabels())
	if purposes, there, err := unstructured.NestedStringSlice(o.Object, "spec", "purposes"); there && err == nil {
		_ = unstructured.SetNestedStringSlice(kept.Object, purposes, "spec", "purposes") // never fails on a new object
	}
	return kept, nil
}
