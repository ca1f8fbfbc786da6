package gardener

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/hap-worker/hap-worker/engine"
)

// index holds the bindings as the watch has shown them. One goroutine, the
// informer's, changes it; everybody reads it. A binding in it is never changed,
// only replaced, so readers copy it without looking into it.
type index struct {
	mu     sync.RWMutex
	byName map[string]*engine.Binding
	pools  map[engine.Pool]*pool
}

// pool is one pool's part of the index.
type pool struct {
	size      int
	unclaimed ring                         // clean, not internal, not cordoned; dedicated pools only
	owned     map[string][]*engine.Binding // by tenant, in order of names, in whatever state; dedicated pools only
	shared    []*engine.Binding            // assignable, in order of names; shared pools only
}

func newIndex() *index {
	return &index{byName: map[string]*engine.Binding{}, pools: map[engine.Pool]*pool{}}
}

// set replaces what is known of a binding.
func (x *index) set(b engine.Binding) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old, ok := x.byName[b.Name]; ok {
		x.leave(old)
	}
	x.byName[b.Name] = &b
	x.enter(&b)
}

// remove forgets a binding and reports what was known of it.
func (x *index) remove(name string) (engine.Binding, bool) {
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

// enter puts b where the queries of its pool find it. An empty type is no pool.
func (x *index) enter(b *engine.Binding) {
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
	case b.Shared:
		if assignable(b) {
			p.shared = insert(p.shared, b)
		}
	case b.Tenant != "":
		p.owned[b.Tenant] = insert(p.owned[b.Tenant], b)
	case assignable(b):
		p.unclaimed.insert(b)
	}
}

// leave undoes enter.
func (x *index) leave(b *engine.Binding) {
	if b.HyperscalerType == "" {
		return
	}
	p := x.pools[b.Pool()]
	p.size--
	switch {
	case p.size == 0:
		delete(x.pools, b.Pool())
	case b.Shared:
		p.shared = without(p.shared, b)
	case b.Tenant != "":
		if p.owned[b.Tenant] = without(p.owned[b.Tenant], b); len(p.owned[b.Tenant]) == 0 {
			delete(p.owned, b.Tenant)
		}
	default:
		p.unclaimed.remove(b)
	}
}

func (x *index) claimable(id engine.Pool, tenant string, internalTenant bool, n int) (seen []engine.Binding, all bool) {
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
		if !b.Dirty && !b.Cordoned && (internalTenant || !b.Internal) {
			seen = append(seen, *b)
		}
	}
	for b := range p.unclaimed.from(tenant, n) {
		seen = append(seen, *b)
	}
	return seen, n >= len(p.unclaimed)
}

func (x *index) sharedOf(id engine.Pool) []engine.Binding {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if p := x.pools[id]; p != nil {
		return values(p.shared)
	}
	return nil
}

func (x *index) ownedBy(id engine.Pool, tenant string) []engine.Binding {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if p := x.pools[id]; p != nil {
		return values(p.owned[tenant])
	}
	return nil
}

func (x *index) barred(id engine.Pool, tenant string, internalTenant bool) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p := x.pools[id]
	if p == nil {
		return nil
	}
	var names []string
	for _, b := range p.owned[tenant] {
		if b.Dirty || b.Cordoned || b.Internal && !internalTenant {
			names = append(names, b.Name)
		}
	}
	return names
}

func (x *index) cached(name string) (engine.Binding, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if b, ok := x.byName[name]; ok {
		return *b, true
	}
	return engine.Binding{}, false
}

func (x *index) poolList() []engine.Pool {
	x.mu.RLock()
	ids := make([]engine.Pool, 0, len(x.pools))
	for id := range x.pools {
		ids = append(ids, id)
	}
	x.mu.RUnlock()
	slices.SortFunc(ids, func(a, b engine.Pool) int { return cmp.Compare(a.Name(), b.Name()) })
	return ids
}

// all is a snapshot in order of names. The bindings themselves are not copied.
func (x *index) all() []*engine.Binding {
	x.mu.RLock()
	list := make([]*engine.Binding, 0, len(x.byName))
	for _, b := range x.byName {
		list = append(list, b)
	}
	x.mu.RUnlock()
	slices.SortFunc(list, byName)
	return list
}

// assignable reports whether b could be given to somebody who does not have it.
func assignable(b *engine.Binding) bool { return !b.Dirty && !b.Internal && !b.Cordoned }

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
