package policy

import (
	"sync"
	"sync/atomic"
)

// Holder has the Snapshot that requests are resolved with while what it is made
// of changes. A change is taken over as a whole or not at all, and holds from the
// next Snapshot on. The zero value has no policy, no catalog and nothing
// available. It is safe for concurrent use.
type Holder struct {
	mu        sync.Mutex // held while a snapshot is made of the following
	policy    *Policy
	catalog   *Catalog
	instances []TypeInstance

	current atomic.Pointer[Snapshot]
}

// Snapshot is the present one, never nil. A request asks for it once.
func (h *Holder) Snapshot() *Snapshot {
	if s := h.current.Load(); s != nil {
		return s
	}
	return NewSnapshot(nil, nil, nil)
}

// TakePolicy takes over a policy. Where it is not valid the error is a [document.Faults], and
// the last good one stays.
func (h *Holder) TakePolicy(content []byte) error {
	p, err := Parse(content)
	if err != nil {
		return err
	}
	h.change(func() { h.policy = p })
	return nil
}

// DropPolicy leaves none: every request is refused with that reason.
func (h *Holder) DropPolicy() { h.change(func() { h.policy = nil }) }

// TakeCatalog takes over a catalog, nil for none.
func (h *Holder) TakeCatalog(c *Catalog) { h.change(func() { h.catalog = c }) }

// TakeTypeInstances takes over what the system has.
func (h *Holder) TakeTypeInstances(all []TypeInstance) { h.change(func() { h.instances = all }) }

func (h *Holder) change(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
	h.current.Store(NewSnapshot(h.policy, h.catalog, h.instances))
}
