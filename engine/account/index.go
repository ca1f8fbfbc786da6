package account

import (
	"maps"
	"slices"
)

// index finds a tenant's bindings and the waiting runtimes without a scan of all records: a pool may have
// hundreds of thousands. Only keep, drop, remember and forget write a pool's records; they update the index.
type index struct {
	owned   map[string][]string // by tenant: the names of its bindings that are not free, in byte order
	waiting map[string]struct{} // runtimes
}

func newIndex() index {
	return index{owned: map[string][]string{}, waiting: map[string]struct{}{}}
}

func (x index) clone() index {
	c := index{owned: make(map[string][]string, len(x.owned)), waiting: maps.Clone(x.waiting)}
	for tenant, names := range x.owned {
		c.owned[tenant] = slices.Clone(names)
	}
	return c
}

// keep stores a binding's record.
func (p *Pool) keep(name string, rec Record) {
	before, known := p.bindings[name]
	p.bindings[name] = rec
	listed, lists := known && before.State != Free, rec.State != Free
	if listed && lists && before.Tenant == rec.Tenant {
		return
	}
	if listed {
		p.index.disown(before.Tenant, name)
	}
	if lists {
		p.index.own(rec.Tenant, name)
	}
}

// drop removes a binding's record. A binding without a record is free.
func (p *Pool) drop(name string) {
	if before, known := p.bindings[name]; known && before.State != Free {
		p.index.disown(before.Tenant, name)
	}
	delete(p.bindings, name)
}

// remember stores a runtime's record.
func (p *Pool) remember(id string, rt Runtime) {
	p.runtimes[id] = rt
	if rt.State == RuntimeWaiting {
		p.index.waiting[id] = struct{}{}
	} else {
		delete(p.index.waiting, id)
	}
}

// forget removes a runtime's record.
func (p *Pool) forget(id string) {
	delete(p.runtimes, id)
	delete(p.index.waiting, id)
}

func (x index) own(tenant, name string) {
	names := x.owned[tenant]
	if at, found := slices.BinarySearch(names, name); !found {
		x.owned[tenant] = slices.Insert(names, at, name)
	}
}

func (x index) disown(tenant, name string) {
	names := x.owned[tenant]
	at, found := slices.BinarySearch(names, name)
	switch {
	case !found:
	case len(names) == 1:
		delete(x.owned, tenant)
	default:
		x.owned[tenant] = slices.Delete(names, at, at+1)
	}
}
