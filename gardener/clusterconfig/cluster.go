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

// ClusterWatchOptions say who is told of changes.
type ClusterWatchOptions struct {
	// Changed is called with a Cluster that has come or has changed: as it was, nil for one
	// that was not there, and as it is. One goroutine calls it. Required.
	Changed func(before, now *network.Cluster)
	// Warn is called with one line about something that an operator should look at.
	// It must not block. Required.
	Warn func(string)
}

// ClusterWatch knows the labels and purposes of the Clusters that there are now. It needs
// the right to list and watch Clusters.
type ClusterWatch struct{ *kube.ObjectWatch }

// NewClusterWatch makes one without asking the server anything.
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

// Now returns a Cluster as it stands. One that is being deleted is none any more.
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

// clusterOf returns the fields that selectors look at, nil for no Cluster and one that is being deleted.
func clusterOf(obj any) *network.Cluster {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok || o.GetDeletionTimestamp() != nil {
		return nil
	}
	purposes, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "purposes") // of another form there are none
	return &network.Cluster{Name: o.GetName(), Namespace: o.GetNamespace(), Labels: o.GetLabels(), Purposes: purposes}
}

// selected keeps of a Cluster what selectors look at, and what the informer needs.
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
		_ = unstructured.SetNestedStringSlice(kept.Object, purposes, "spec", "purposes") // never fails on what was just made
	}
	return kept, nil
}
