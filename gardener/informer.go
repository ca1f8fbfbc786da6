package gardener

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

// The informers of this package. client-go's packages metadatainformer and
// dynamicinformer make the same ones, and link every typed client of Kubernetes
// with them; cmd/size_test.go keeps these out of the programs.

// watched names the objects that an informer is to hold.
type watched struct {
	resource  schema.GroupVersionResource
	namespace string // metav1.NamespaceAll for every one
	// narrow sets the selectors of lists and watches. Where it is nil, all objects are held.
	narrow   func(*metav1.ListOptions)
	indexers cache.Indexers
}

// metadataInformer makes an informer that reads nothing but the metadata, as
// *metav1.PartialObjectMetadata.
func metadataInformer(client metadata.Interface, w watched) cache.SharedIndexInformer {
	return newInformer(client.Resource(w.resource).Namespace(w.namespace), &metav1.PartialObjectMetadata{}, w)
}

// objectInformer makes an informer that reads whole objects, as
// *unstructured.Unstructured.
func objectInformer(client dynamic.Interface, w watched) cache.SharedIndexInformer {
	return newInformer(client.Resource(w.resource).Namespace(w.namespace), &unstructured.Unstructured{}, w)
}

// listWatcher has what an informer needs of a client for one resource. L is the
// client's type of a list.
type listWatcher[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// newInformer makes an informer for objects of example's type. It never resyncs:
// handlers are called for changes only.
func newInformer[L runtime.Object](client listWatcher[L], example runtime.Object, w watched) cache.SharedIndexInformer {
	narrow := w.narrow
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
		Indexers:          w.indexers,
		ObjectDescription: w.resource.String(),
	})
}
