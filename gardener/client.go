package gardener

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"sync"

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
	// referrers are the caches of what refers to Secrets, none for other kinds.
	referrers []cache.SharedIndexInformer
	handlers  []func(engine.Binding, bool)

	referred coalesce.Reading[map[string]struct{}] // the bindings that Shoots refer to

	mu       sync.Mutex
	cancel   context.CancelFunc // nil until Start
	running  sync.WaitGroup
	watchErr error // the last failure of the watch; nil once it has synced

	unnamed sync.Once // the warning that the uid of the namespace may not be read
}

// New makes a Client without asking the server anything. The config is copied;
// its client-side limits are taken off, since the API server itself says when it
// has too much to do. The errors are those of opts.Validate and of the config.
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

// watch prepares the informer. Objects without the hyperscaler type's label are
// no accounts and stay on the server. Of a Secret only the metadata is read; of a
// binding also what it refers to.
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

// OnChange registers a function that is called with every binding that appears
// or changes, the ones that exist at the start included, and with what was last
// known of one that is gone, be it from its pool only. It is called by one goroutine, after the cache has
// changed, and holds up the watch while it runs. Register before Start.
func (c *Client) OnChange(f func(b engine.Binding, deleted bool)) { c.handlers = append(c.handlers, f) }

// Start begins to watch and returns; WaitSynced waits for the first list. It
// ends with ctx or with Stop, and cannot be started again.
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

// Synced reports whether the cache has held all bindings at least once, and
// with Secrets what refers to them.
func (c *Client) Synced() bool {
	return c.events.HasSynced() && !slices.ContainsFunc(c.referrers, func(i cache.SharedIndexInformer) bool { return !i.HasSynced() })
}

// WaitSynced waits until Synced, or until the end of ctx; the error then also
// says why the watch has failed so far.
func (c *Client) WaitSynced(ctx context.Context) error {
	if cache.WaitForCacheSync(ctx.Done(), c.Synced) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := fmt.Errorf("gardener: %s of namespace %s not read: %w", c.opts.Resource, c.opts.Namespace, context.Cause(ctx))
	if c.watchErr != nil {
		err = fmt.Errorf("%w; the last attempt: %w", err, c.watchErr)
	}
	return err
}

// watchFailed tells the operator, once for each different failure in a row; the
// informer tries again by itself.
func (c *Client) watchFailed(_ context.Context, _ *cache.Reflector, err error) {
	if verdict.Expected(err) {
		return
	}
	c.mu.Lock()
	again := c.watchErr != nil && c.watchErr.Error() == err.Error()
	c.watchErr = err
	c.mu.Unlock()
	if !again {
		c.opts.Warn(fmt.Sprintf("the watch of %s in %s failed and is tried again: %v", c.opts.Resource, c.opts.Namespace, err))
	}
}

// changed takes over an object that was added or updated. A new list repeats
// objects that have not changed; those are passed over.
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
		held := is.Binding // the watch's cache has the other one
		held.SameSecretAs, b = as, &held
	}
	c.take(b)
	c.regroup(is.credentials)
}

// deleted takes over the removal of an object, also one that the watch missed
// and the next list showed.
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

// Claimable returns what a tenant may get in a dedicated pool, best first, from
// the cache: the bindings whose label names the tenant (clean, not held back, not
// internal unless internalTenant), then up to n unclaimed ones (clean, neither
// internal nor held back) in an order of the tenant's own. A greater n returns the
// same list, continued. all is true when there are no others, and never before
// the cache has synced. The time it takes depends on n, not on the pool.
func (c *Client) Claimable(pool engine.Pool, tenant string, internalTenant bool, n int) (seen []engine.Binding, all bool) {
	synced := c.Synced()
	seen, all = c.index.Claimable(pool, tenant, internalTenant, n)
	return seen, all && synced
}

// Shared returns the bindings of a shared pool that may be assigned, in order of names.
func (c *Client) Shared(pool engine.Pool) []engine.Binding { return c.index.Shared(pool) }

// Barred names the tenant's own bindings that must not gain a runtime: dirty
// (also one that was marked by hand under its clusters), held back, or
// internal while the tenant is none of the internal ones.
func (c *Client) Barred(pool engine.Pool, tenant string, internalTenant bool) []string {
	return c.index.Barred(pool, tenant, internalTenant)
}

// Owned returns all bindings of a dedicated pool that carry the tenant's name, in
// whatever state, in order of names.
func (c *Client) Owned(pool engine.Pool, tenant string) []engine.Binding {
	return c.index.Owned(pool, tenant)
}

// Cached is the binding as the cache has it.
func (c *Client) Cached(name string) (engine.Binding, bool) { return c.index.Cached(name) }

// Pools are those that have at least one binding, in order of names.
func (c *Client) Pools() []engine.Pool { return c.index.Pools() }

// All goes over the bindings of the cache in order of names, as they are when it begins.
func (c *Client) All() iter.Seq[engine.Binding] {
	return func(yield func(engine.Binding) bool) {
		for _, b := range c.index.All() {
			if !yield(*b) {
				return
			}
		}
	}
}
