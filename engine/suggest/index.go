// Package suggest chooses, from the bindings in a cache, the ones that a tenant may get. It is fast and may
// be out of date: Redis decides.
package suggest

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hap-worker/hap-worker/engine"
)

// Index stores the bindings as a watch has shown them. It is safe for concurrent use. A stored binding is
// never changed, only replaced, so that a reader may keep its pointer after the lock.
type Index struct {
	mu     sync.RWMutex
	byName map[string]*engine.Binding
	pools  map[engine.Pool]*pool
}

// pool is one pool's part of the index.
type pool struct {
	size      int
	unclaimed ring                         // clean, not internal, not held back; dedicated pools only
	withheld  []*engine.Binding            // the other unclaimed ones, in order of names; dedicated pools only
	owned     map[string][]*engine.Binding // by tenant, in order of names, in whatever state; dedicated pools only
	shared    []*engine.Binding            // assignable, in order of names; shared pools only
}

// New returns an empty Index.
func New() *Index {
	return &Index{byName: map[string]*engine.Binding{}, pools: map[engine.Pool]*pool{}}
}

// Set replaces a binding. It keeps b: the caller must not change it afterwards.
func (x *Index) Set(b *engine.Binding) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old, ok := x.byName[b.Name]; ok {
		x.leave(old)
	}
	x.byName[b.Name] = b
	x.enter(b)
}

// Remove deletes a binding. It returns the deleted binding and whether there was one.
func (x *Index) Remove(name string) (engine.Binding, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old, ok := x.byName[name]
	if !ok {
		return engine.Binding{}, false
	}
	delete(x.byName, name)
	x.leave(old)
	return *old, true
}

// enter adds b to the lists of its pool. A binding without a type has no pool.
func (x *Index) enter(b *engine.Binding) {
	if b.HyperscalerType == "" {
		return
	}
	p := x.pools[b.Pool()]
	if p == nil {
		p = &pool{owned: map[string][]*engine.Binding{}}
		x.pools[b.Pool()] = p
	}
	p.size++
	switch {
	case b.Pool().Shared:
		if assignable(b) {
			p.shared = insert(p.shared, b)
		}
	case b.Tenant != "":
		p.owned[b.Tenant] = insert(p.owned[b.Tenant], b)
	case assignable(b):
		p.unclaimed.insert(b)
	default:
		p.withheld = insert(p.withheld, b)
	}
}

// leave removes a binding from the lists that enter added it to.
func (x *Index) leave(b *engine.Binding) {
	if b.HyperscalerType == "" {
		return
	}
	p := x.pools[b.Pool()]
	p.size--
	switch {
	case p.size == 0:
		delete(x.pools, b.Pool())
	case b.Pool().Shared:
		p.shared = without(p.shared, b)
	case b.Tenant != "":
		if p.owned[b.Tenant] = without(p.owned[b.Tenant], b); len(p.owned[b.Tenant]) == 0 {
			delete(p.owned, b.Tenant)
		}
	case assignable(b):
		p.unclaimed.remove(b)
	default:
		p.withheld = without(p.withheld, b)
	}
}

// Claimable returns the bindings of a dedicated pool that a tenant may get, best first: the bindings whose
// label names the tenant (clean, not held back, not internal unless internalTenant), then up to n unclaimed
// ones (clean, neither internal nor held back) in an order that depends on the tenant. A greater n extends the same
// list. all is true if n covers all of these. The time depends on n and on the tenant's bindings, hardly on the pool.
func (x *Index) Claimable(id engine.Pool, tenant string, internalTenant bool, n int) (seen []engine.Binding, all bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p := x.pools[id]
	if p == nil {
		return nil, true
	}
	n = max(n, 0)
	own := p.owned[tenant]
	seen = make([]engine.Binding, 0, len(own)+min(n, len(p.unclaimed)))
	for _, b := range own {
		if !b.Dirty && !b.HeldBack() && (internalTenant || !b.Internal) {
			seen = append(seen, *b)
		}
	}
	for b := range p.unclaimed.from(tenant, n) {
		seen = append(seen, *b)
	}
	return seen, n >= len(p.unclaimed)
}

// Shared returns the bindings of a shared pool that may be assigned, in order of names.
func (x *Index) Shared(id engine.Pool) []engine.Binding {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if p := x.pools[id]; p != nil {
		return values(p.shared)
	}
	return nil
}

// Owned returns all bindings of a dedicated pool that carry the tenant's name, in
// whatever state, in order of names.
func (x *Index) Owned(id engine.Pool, tenant string) []engine.Binding {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if p := x.pools[id]; p != nil {
		return values(p.owned[tenant])
	}
	return nil
}

// Barred returns the names of bindings of a dedicated pool that must not gain a runtime: dirty, held back, or internal
// although the tenant is not. It looks at the tenant's own and at the unclaimed ones: if a label was removed by hand,
// Redis may still count the binding as the tenant's.
func (x *Index) Barred(id engine.Pool, tenant string, internalTenant bool) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p := x.pools[id]
	if p == nil {
		return nil
	}
	var names []string
	for _, list := range [][]*engine.Binding{p.owned[tenant], p.withheld} {
		for _, b := range list {
			if b.Dirty || b.HeldBack() || b.Internal && !internalTenant {
				names = append(names, b.Name)
			}
		}
	}
	return names
}

// Cached returns a binding, and whether the index has it.
func (x *Index) Cached(name string) (engine.Binding, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if b, ok := x.byName[name]; ok {
		return *b, true
	}
	return engine.Binding{}, false
}

// Pools returns the pools that have at least one binding, in order of names.
func (x *Index) Pools() []engine.Pool {
	x.mu.RLock()
	ids := make([]engine.Pool, 0, len(x.pools))
	for id := range x.pools {
		ids = append(ids, id)
	}
	x.mu.RUnlock()
	slices.SortFunc(ids, func(a, b engine.Pool) int { return cmp.Compare(a.Name(), b.Name()) })
	return ids
}

// All returns all bindings in order of names. It copies the list, not the bindings.
func (x *Index) All() []*engine.Binding {
	return slices.SortedFunc(slices.Values(x.Unsorted()), byName)
}

// Unsorted is All in no particular order, which is several times as fast.
func (x *Index) Unsorted() []*engine.Binding {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.AppendSeq(make([]*engine.Binding, 0, len(x.byName)), maps.Values(x.byName))
}

// assignable reports whether b is clean, not internal and not held back. It does not look at the tenant.
func assignable(b *engine.Binding) bool { return !b.Dirty && !b.Internal && !b.HeldBack() }

func byName(a, b *engine.Binding) int { return strings.Compare(a.Name, b.Name) }

func insert(list []*engine.Binding, b *engine.Binding) []*engine.Binding {
	i, _ := slices.BinarySearchFunc(list, b, byName)
	return slices.Insert(list, i, b)
}

func without(list []*engine.Binding, b *engine.Binding) []*engine.Binding {
	if i, found := slices.BinarySearchFunc(list, b, byName); found {
		return slices.Delete(list, i, i+1)
	}
	return list
}

func values(list []*engine.Binding) []engine.Binding {
	copied := make([]engine.Binding, 0, len(list))
	for _, b := range list {
		copied = append(copied, *b)
	}
	return copied
}
