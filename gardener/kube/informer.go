package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// client-go's packages metadatainformer and dynamicinformer would make the same informers, but link
// every typed client of Kubernetes; cmd/size_test.go keeps these packages out of the programs.

// Watched selects the objects of an informer.
type Watched struct {
	Resource  schema.GroupVersionResource
	Namespace string // metav1.NamespaceAll for all namespaces
	// Narrow sets the selectors of lists and watches. If it is nil, all objects are selected.
	Narrow   func(*metav1.ListOptions)
	Indexers cache.Indexers
}

// MetadataInformer returns an informer that reads only the metadata, as *metav1.PartialObjectMetadata.
func MetadataInformer(client metadata.Interface, w Watched) cache.SharedIndexInformer {
	return newInformer(client.Resource(w.Resource).Namespace(w.Namespace), &metav1.PartialObjectMetadata{}, w)
}

// ObjectInformer returns an informer that reads whole objects, as *unstructured.Unstructured.
func ObjectInformer(client dynamic.Interface, w Watched) cache.SharedIndexInformer {
	return newInformer(client.Resource(w.Resource).Namespace(w.Namespace), &unstructured.Unstructured{}, w)
}

// listWatcher is the part of a resource client that an informer needs. L is the client's type of a
// list.
type listWatcher[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// newInformer returns an informer for objects of example's type. It never resyncs: handlers are called for
// changes and, after a new list, for all objects again.
func newInformer[L runtime.Object](client listWatcher[L], example runtime.Object, w Watched) cache.SharedIndexInformer {
	narrow := w.Narrow
	if narrow == nil {
		narrow = func(*metav1.ListOptions) {}
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			narrow(&options)
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			narrow(&options)
			return client.Watch(ctx, options)
		},
	}
	return cache.NewSharedIndexInformerWithOptions(source, example, cache.SharedIndexInformerOptions{
		Indexers:          w.Indexers,
		ObjectDescription: w.Resource.String(),
	})
}
