package gardener

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/coalesce"
	"github.com/hap-worker/hap-worker/engine/suggest"
	"github.com/hap-worker/hap-worker/gardener/kube"
	"github.com/hap-worker/hap-worker/gardener/verdict"
)

// Client reads and marks the bindings of one namespace. It is safe for
// concurrent use.
type Client struct {
	opts    Options
	kind    kind
	decoder *decoder
	index   *suggest.Index
	http    *http.Client
	api     *rest.RESTClient

	informer cache.SharedIndexInformer
	events   cache.ResourceEventHandlerRegistration
	// referrers are the caches of the bindings that refer to Secrets; none unless the resource is Secrets.
	referrers []cache.SharedIndexInformer
	handlers  []func(engine.Binding, bool)

	referred coalesce.Reading[map[string]struct{}] // the bindings that Shoots refer to

	mu       sync.Mutex
	cancel   context.CancelFunc // nil until Start
	running  sync.WaitGroup
	failures kube.Failures

	unnamed sync.Once // the warning that the uid of the namespace may not be read
}

// New returns a Client, and sends no request. It copies the config and removes its client-side rate
// limits, because the API server itself limits requests. Errors: the faults of opts and of the config.
func New(config *rest.Config, opts Options) (*Client, error) {
	opts = opts.WithDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	renamed, err := labelKeys(opts.Labels)
	if err != nil {
		return nil, err
	}
	config = metadata.ConfigFor(config)
	config.QPS, config.Burst, config.RateLimiter = -1, 0, nil
	config.WarningHandlerWithContext = rest.NoWarnings{}
	client := &Client{
		opts:  opts,
		kind:  kinds[opts.Resource],
		index: suggest.New(),
		decoder: &decoder{
			keys: renamed, kind: kinds[opts.Resource].name, namespace: opts.Namespace, warn: opts.Warn,
		},
	}
	client.referred.Read = client.readReferred
	if client.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	if client.api, err = newAPI(config, client.http); err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	meta, err := metadata.NewForConfigAndClient(config, client.http)
	if err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	whole, err := dynamic.NewForConfigAndClient(config, client.http)
	if err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	if err := client.watch(meta, whole); err != nil || opts.Resource != Secrets {
		return client, err
	}
	return client, client.watchReferrers(whole)
}

// watch creates the informer. Objects without the label of the hyperscaler type are no accounts and
// are not selected. It reads only the metadata of a Secret, but whole bindings, for their reference.
func (c *Client) watch(meta metadata.Interface, whole dynamic.Interface) error {
	of := kube.Watched{
		Resource:  c.kind.resource,
		Namespace: c.opts.Namespace,
		Narrow:    func(o *metav1.ListOptions) { o.LabelSelector = c.decoder.keys.hyperscalerType },
	}
	if c.opts.Resource == Secrets {
		c.informer = kube.MetadataInformer(meta, of)
	} else {
		of.Indexers = cache.Indexers{byCredentials: credentialsIndex}
		c.informer = kube.ObjectInformer(whole, of)
	}
	if err := c.informer.SetTransform(c.decoder.account); err != nil {
		return fmt.Errorf("gardener: %w", err)
	}
	if err := c.informer.SetWatchErrorHandlerWithContext(c.watchFailed); err != nil {
		return fmt.Errorf("gardener: %w", err)
	}
	var err error
	c.events, err = c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.changed,
		UpdateFunc: func(old, obj any) {
			c.changed(obj)
			if was, ok := old.(*account); ok {
				c.regroup(was.credentials)
			}
		},
		DeleteFunc: c.deleted,
	})
	if err != nil {
		return fmt.Errorf("gardener: %w", err)
	}
	return nil
}

// OnChange registers a function that is called with each binding that exists at the start, appears or
// changes. deleted is true, with the last known state, for a binding that was deleted or has left its pool;
// after a move to another pool, or if the binding was created again before the watch showed the deletion, a second call
// follows with the new state. One goroutine makes all calls, each after the cache has changed; the cache takes the next
// change after f has returned. Register it before Start.
func (c *Client) OnChange(f func(b engine.Binding, deleted bool)) { c.handlers = append(c.handlers, f) }

// Start starts the watch and returns; WaitSynced waits for the first list. The watch ends with ctx or
// Stop. A Client cannot be started again.
func (c *Client) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		return errors.New("gardener: the client was started or stopped before")
	}
	ctx, c.cancel = context.WithCancel(ctx)
	for _, informer := range append([]cache.SharedIndexInformer{c.informer}, c.referrers...) {
		c.running.Go(func() { informer.RunWithContext(ctx) })
	}
	return nil
}

// Stop ends the watch and waits for it; the cache keeps what it has. Stopping
// before the start, or twice, is fine.
func (c *Client) Stop() {
	c.mu.Lock()
	if c.cancel == nil {
		c.cancel = func() {}
	}
	c.cancel()
	c.mu.Unlock()
	c.running.Wait()
	c.http.CloseIdleConnections()
}

// Synced reports whether the cache has received all bindings at least once. If the bindings are Secrets, it
// must also have received the CredentialsBindings and SecretBindings that refer to them.
func (c *Client) Synced() bool {
	return c.events.HasSynced() && !slices.ContainsFunc(c.referrers, func(i cache.SharedIndexInformer) bool { return !i.HasSynced() })
}

// WaitSynced waits until Synced returns true. If ctx ends before, it returns an error, with the last failure of
// the watch if there was one.
func (c *Client) WaitSynced(ctx context.Context) error {
	if cache.WaitForCacheSync(ctx.Done(), c.Synced) {
		return nil
	}
	err := fmt.Errorf("gardener: %s of namespace %s not read: %w", c.opts.Resource, c.opts.Namespace, context.Cause(ctx))
	if last := c.failures.Last(); last != nil {
		err = fmt.Errorf("%w; the last attempt: %w", err, last)
	}
	return err
}

// watchFailed warns the operator of an unexpected failure, unless the same failure was recorded a short time
// before (kube.Failures.Add). The informer itself tries again.
func (c *Client) watchFailed(_ context.Context, _ *cache.Reflector, err error) {
	if verdict.Expected(err) {
		return
	}
	if c.failures.Add(err, time.Now()) {
		c.opts.Warn(fmt.Sprintf("the watch of %s in %s failed and is tried again: %v", c.opts.Resource, c.opts.Namespace, err))
	}
}

// changed puts an added or updated object into the index. It ignores an unchanged object, which a new
// list repeats.
func (c *Client) changed(obj any) {
	is, ok := obj.(*account)
	if !ok {
		return
	}
	known, ok := c.index.Cached(is.Name)
	if ok && known.ResourceVersion == is.ResourceVersion {
		return
	}
	b := &is.Binding
	if as := sameAs(is, c.sameSecret(is.credentials)); as != "" {
		held := is.Binding // a copy: the informer's cache has the original
		held.SameSecretAs, b = as, &held
	}
	c.take(b)
	c.regroup(is.credentials)
}

// deleted removes a deleted object from the index, even if the watch missed the deletion and the next
// list showed it.
func (c *Client) deleted(obj any) {
	if missed, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = missed.Obj
	}
	is, ok := obj.(*account)
	if !ok {
		return
	}
	if b, ok := c.index.Remove(is.Name); ok {
		c.notify(b, true)
	}
	c.regroup(is.credentials)
}

func (c *Client) notify(b engine.Binding, deleted bool) {
	for _, f := range c.handlers {
		f(b, deleted)
	}
}

// Claimable returns the bindings in the cache that a tenant may get in a dedicated pool, best first:
// those whose label names the tenant (clean, not held back, not internal unless internalTenant), then
// up to n unclaimed ones (clean, neither internal nor held back), in an order that depends on the
// tenant. A greater n extends the same list. all is true if the list is complete and the cache has synced. The
// cost depends on n and on how many bindings the tenant has, not on the size of the pool.
func (c *Client) Claimable(pool engine.Pool, tenant string, internalTenant bool, n int) (seen []engine.Binding, all bool) {
	synced := c.Synced()
	seen, all = c.index.Claimable(pool, tenant, internalTenant, n)
	return seen, all && synced
}

// Shared returns the bindings of a shared pool that may be assigned, in order of names.
func (c *Client) Shared(pool engine.Pool) []engine.Binding { return c.index.Shared(pool) }

// Barred returns which of the tenant's and of the unclaimed bindings in a dedicated pool must not gain a runtime: the
// names of the dirty ones (also of those with clusters), of those held back, and of the internal ones unless
// internalTenant.
func (c *Client) Barred(pool engine.Pool, tenant string, internalTenant bool) []string {
	return c.index.Barred(pool, tenant, internalTenant)
}

// Owned returns all bindings of a dedicated pool that carry the tenant's name, in any state, in order
// of names.
func (c *Client) Owned(pool engine.Pool, tenant string) []engine.Binding {
	return c.index.Owned(pool, tenant)
}

// Cached returns the binding in the cache, and whether there is one.
func (c *Client) Cached(name string) (engine.Binding, bool) { return c.index.Cached(name) }

// Pools returns the pools that have at least one binding, in order of names.
func (c *Client) Pools() []engine.Pool { return c.index.Pools() }

// All iterates over the bindings of the cache in no particular order, as they are when it begins.
func (c *Client) All() iter.Seq[engine.Binding] {
	return func(yield func(engine.Binding) bool) {
		for _, b := range c.index.Unsorted() {
			if !yield(*b) {
				return
			}
		}
	}
}
