package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/suggest"
)

// secretKind is the kind of bindings that Shoots cannot name directly: they name a binding resource that
// refers to the Secret.
const secretKind = "Secret"

// Gardener stores bindings and Shoots like the Kubernetes API. Its cache of bindings follows them at once,
// like a watch, except between Hold and Follow. It is safe for concurrent use.
type Gardener struct {
	namespace, kind string

	mu        sync.Mutex
	version   int64
	bindings  map[string]engine.Binding
	shoots    map[string]engine.Shoot
	referring map[string]reference // by binding, if bindings are Secrets
	behind    []watched            // changes that the cache has not seen
	held      bool                 // the cache does not follow
	following bool                 // a goroutine is updating the cache

	cache    *suggest.Index
	handlers []func(b engine.Binding, deleted bool)
}

type reference struct{ kind, name string }

// watched is one event of the watch.
type watched struct {
	binding engine.Binding
	deleted bool
}

// NewGardener returns a Gardener with these bindings, all in one namespace and of one kind:
// CredentialsBinding, SecretBinding or Secret.
func NewGardener(namespace, kind string, bindings ...engine.Binding) *Gardener {
	g := &Gardener{
		namespace: namespace, kind: kind, cache: suggest.New(),
		bindings: map[string]engine.Binding{}, shoots: map[string]engine.Shoot{}, referring: map[string]reference{},
	}
	for _, b := range bindings {
		g.Put(b)
	}
	return g
}

// OnChange registers f, which is called with each change that the cache sees, in order. A binding that moves
// to another pool, or that is another object by now, causes two calls: the old one is deleted, then the new one
// appears. Call OnChange before the first change.
func (g *Gardener) OnChange(f func(b engine.Binding, deleted bool)) {
	g.handlers = append(g.handlers, f)
}

// Put creates or replaces a binding, without a check of its resourceVersion.
func (g *Gardener) Put(b engine.Binding) engine.Binding {
	g.mu.Lock()
	if was, there := g.bindings[b.Name]; there && was.Tenant != b.Tenant {
		b.ClaimedIn = "" // the annotation counts only for the tenant of the claim
	}
	b = g.store(b)
	g.mu.Unlock()
	g.follow()
	return b
}

// Remake deletes a binding and creates b under its name while the cache does not look: it sees only that the binding
// has changed, as after a broken watch.
func (g *Gardener) Remake(b engine.Binding) {
	g.mu.Lock()
	delete(g.bindings, b.Name)
	g.store(b)
	g.mu.Unlock()
	g.follow()
}

// Delete deletes a binding, if it is there.
func (g *Gardener) Delete(name string) {
	g.mu.Lock()
	if b, there := g.bindings[name]; there {
		delete(g.bindings, name)
		g.behind = append(g.behind, watched{b, true})
	}
	g.mu.Unlock()
	g.follow()
}

// PutShoot creates or replaces a Shoot. The default of its runtime id is its name.
func (g *Gardener) PutShoot(s engine.Shoot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.RuntimeID = cmp.Or(s.RuntimeID, s.Name)
	g.shoots[s.Name] = s
}

// DeleteShoot deletes a Shoot, if it is there.
func (g *Gardener) DeleteShoot(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.shoots, name)
}

// Refer makes a binding resource of this kind and name refer to a Secret.
func (g *Gardener) Refer(secret, kind, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.referring[secret] = reference{kind, name}
}

// Hold stops updates of the cache until Follow.
func (g *Gardener) Hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = true
}

// Follow ends Hold: the cache sees all missed changes, in order.
func (g *Gardener) Follow() {
	g.mu.Lock()
	g.held = false
	g.mu.Unlock()
	g.follow()
}

// store stores a binding with a new resourceVersion, and with a new uid if there is none of its name. If nothing has
// changed, it does nothing. The caller holds the lock.
func (g *Gardener) store(b engine.Binding) engine.Binding {
	was, there := g.bindings[b.Name]
	b.Namespace, b.Kind, b.UID, b.ResourceVersion = g.namespace, g.kind, was.UID, was.ResourceVersion
	if there && b == was {
		return b
	}
	g.version++
	b.ResourceVersion = strconv.FormatInt(g.version, 10)
	if !there {
		b.UID = "uid-" + b.ResourceVersion
	}
	g.bindings[b.Name] = b
	g.behind = append(g.behind, watched{b, false})
	return b
}

// follow updates the cache, unless another goroutine is doing that.
func (g *Gardener) follow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.following {
		return
	}
	g.following = true
	for !g.held && len(g.behind) > 0 {
		next := g.behind[0]
		g.behind = g.behind[1:]
		g.mu.Unlock()
		g.see(next)
		g.mu.Lock()
	}
	g.following = false
}

// see applies a change to the cache, like an informer. A binding without hyperscalerType is no account, and
// counts as deleted.
func (g *Gardener) see(w watched) {
	b := w.binding
	known, there := g.cache.Cached(b.Name)
	if w.deleted || b.HyperscalerType == "" {
		if was, there := g.cache.Remove(b.Name); there {
			g.tell(was, true)
		}
		return
	}
	g.cache.Set(&b)
	if there && (known.Pool() != b.Pool() || known.UID != b.UID) {
		g.tell(known, true)
	}
	g.tell(b, false)
}

func (g *Gardener) tell(b engine.Binding, deleted bool) {
	for _, f := range g.handlers {
		f(b, deleted)
	}
}

// ended returns engine.ErrUnavailable if ctx has ended, otherwise nil.
func ended(ctx context.Context, op string) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", op, engine.ErrUnavailable, context.Cause(ctx))
}

// find returns a binding, or an error with engine.CodeUnknownBinding. The caller holds the lock.
func (g *Gardener) find(op, name string) (engine.Binding, error) {
	b, there := g.bindings[name]
	if !there {
		return b, &engine.Error{Code: engine.CodeUnknownBinding, Op: op, Err: fmt.Errorf("%s %s/%s is not there", g.kind, g.namespace, name)}
	}
	return b, nil
}

// Get reads one binding. Errors: engine.CodeUnknownBinding, engine.ErrUnavailable.
func (g *Gardener) Get(ctx context.Context, name string) (engine.Binding, error) {
	op := "get " + name
	if err := ended(ctx, op); err != nil {
		return engine.Binding{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.find(op, name)
}

// Claim writes the mark on the binding, fenced by the resourceVersion of seen. Errors: engine.ErrConflict,
// engine.ErrUnavailable, engine.CodeUnknownBinding.
func (g *Gardener) Claim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return g.patch(ctx, "claim", seen, func(b *engine.Binding) {
		b.ClaimedIn, b.Tenant, b.Generation, b.Epoch = b.Pool().Name(), mark.Tenant, mark.Generation, mark.Epoch
	})
}

// MarkDirty writes dirty=true with the tenant and generation of the mark. The errors are Claim's.
func (g *Gardener) MarkDirty(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return g.patch(ctx, "mark dirty", seen, func(b *engine.Binding) {
		b.Dirty, b.Tenant, b.Generation = true, mark.Tenant, mark.Generation
	})
}

// Unclaim removes the tenant and writes the generation of the mark. The errors are Claim's.
func (g *Gardener) Unclaim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return g.patch(ctx, "unclaim", seen, func(b *engine.Binding) { b.Tenant, b.ClaimedIn, b.Generation = "", "", mark.Generation })
}

// Free removes tenant and dirty, and records the request. The errors are Claim's.
func (g *Gardener) Free(ctx context.Context, seen engine.Binding, request string) (engine.Binding, error) {
	return g.patch(ctx, "free", seen, func(b *engine.Binding) {
		b.Tenant, b.ClaimedIn, b.Dirty, b.ReleasedBy = "", "", false, request
	})
}

// patch changes a binding if its resourceVersion still is seen's.
func (g *Gardener) patch(ctx context.Context, verb string, seen engine.Binding, change func(*engine.Binding)) (engine.Binding, error) {
	op := verb + " " + seen.Name
	if err := ended(ctx, op); err != nil {
		return engine.Binding{}, err
	}
	if seen.ResourceVersion == "" {
		return engine.Binding{}, errors.New(op + ": the binding that was seen has no resourceVersion")
	}
	b, err := g.write(op, seen, change)
	if err == nil {
		g.follow()
	}
	return b, err
}

func (g *Gardener) write(op string, seen engine.Binding, change func(*engine.Binding)) (engine.Binding, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b, err := g.find(op, seen.Name)
	if err != nil {
		return engine.Binding{}, err
	}
	if b.ResourceVersion != seen.ResourceVersion {
		return engine.Binding{}, fmt.Errorf("%s: %w", op, engine.ErrConflict)
	}
	change(&b)
	return g.store(b), nil
}

// List calls f with each account, sorted by name, in the state when List begins.
func (g *Gardener) List(ctx context.Context, f func(engine.Binding) error) error {
	if err := ended(ctx, "list bindings"); err != nil {
		return err
	}
	g.mu.Lock()
	all := maps.Clone(g.bindings)
	g.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].HyperscalerType == "" {
			continue
		}
		if err := f(all[name]); err != nil {
			return err
		}
	}
	return nil
}

// Shoots calls f with each Shoot, sorted by name, in the state when Shoots begins.
func (g *Gardener) Shoots(ctx context.Context, f func(engine.Shoot) error) error {
	if err := ended(ctx, "list Shoots"); err != nil {
		return err
	}
	g.mu.Lock()
	all := maps.Clone(g.shoots)
	g.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := f(all[name]); err != nil {
			return err
		}
	}
	return nil
}

// EachShoot calls f with each Shoot, sorted by name, in the state when EachShoot begins. It begins anew once, as a Client
// may.
func (g *Gardener) EachShoot(ctx context.Context, restart func(), f func(engine.Shoot)) error {
	return EachShootOf(ctx, g.Shoots, restart, f)
}

// EachShootOf makes an EachShoot of a list of Shoots. It begins anew once: a caller has to expect that.
func EachShootOf(ctx context.Context, list func(context.Context, func(engine.Shoot) error) error, restart func(), f func(engine.Shoot)) error {
	var all []engine.Shoot
	err := list(ctx, func(s engine.Shoot) error {
		all = append(all, s)
		return nil
	})
	if err != nil {
		return err
	}
	restart()
	for _, s := range all[:len(all)/2] {
		f(s)
	}
	restart()
	for _, s := range all {
		f(s)
	}
	return nil
}

// Refers reports whether any Shoot names the binding.
func (g *Gardener) Refers(ctx context.Context, binding string) (found bool, err error) {
	err = g.Shoots(ctx, func(s engine.Shoot) error {
		found = found || s.Binding == binding
		return nil
	})
	return found, err
}

// Referrer returns the kind and name by which a Shoot refers to a binding. The error has
// engine.CodeUnknownBinding for a Secret to which no binding resource refers.
func (g *Gardener) Referrer(ctx context.Context, binding string) (kind, name string, err error) {
	if g.kind != secretKind {
		return g.kind, binding, nil
	}
	if err := ended(ctx, "referrer of "+binding); err != nil {
		return "", "", err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r, there := g.referring[binding]
	if !there {
		return "", "", &engine.Error{Code: engine.CodeUnknownBinding, Err: fmt.Errorf("nothing refers to the Secret %s", binding)}
	}
	return r.kind, r.name, nil
}

// Claimable returns the cache's suggestions for a tenant: see [suggest.Index.Claimable].
func (g *Gardener) Claimable(pool engine.Pool, tenant string, internalTenant bool, n int) (seen []engine.Binding, all bool) {
	return g.cache.Claimable(pool, tenant, internalTenant, n)
}

// Shared returns the bindings of a shared pool that may be assigned, from the cache.
func (g *Gardener) Shared(pool engine.Pool) []engine.Binding { return g.cache.Shared(pool) }

// Barred returns the names of the tenant's and the unclaimed bindings that must not gain a runtime, from the cache.
func (g *Gardener) Barred(pool engine.Pool, tenant string, internalTenant bool) []string {
	return g.cache.Barred(pool, tenant, internalTenant)
}

// Cached returns a binding from the cache, and whether the cache has it.
func (g *Gardener) Cached(name string) (engine.Binding, bool) { return g.cache.Cached(name) }

// Pools returns the pools with bindings in the cache, sorted by name.
func (g *Gardener) Pools() []engine.Pool { return g.cache.Pools() }

// All iterates over the bindings of the cache, sorted by name, in the state when the loop begins.
func (g *Gardener) All() iter.Seq[engine.Binding] {
	return func(yield func(engine.Binding) bool) {
		for _, b := range g.cache.All() {
			if !yield(*b) {
				return
			}
		}
	}
}
