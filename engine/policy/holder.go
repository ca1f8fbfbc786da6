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
	digest    string // of the policy's text, "" for none
	catalog   *Catalog
	instances []TypeInstance
	expected  string // where the policy comes from; "" for nowhere
	lacks     string // why there is none yet

	current atomic.Pointer[Snapshot]
}

// Snapshot is the present one, never nil. A request asks for it once.
func (h *Holder) Snapshot() *Snapshot {
	if s := h.current.Load(); s != nil {
		return s
	}
	return NewSnapshot(nil, nil, nil)
}

// Expect says where a policy comes from, such as ConfigMap hap-policy. From then on a
// request is not refused while there is none: its error is [ErrLate].
func (h *Holder) Expect(source string) {
	h.change(func() { h.expected, h.lacks = source, "is not there" })
}

// TakePolicy takes over a policy. Where it is not valid the error is a [document.Faults], and
// the last good one stays.
func (h *Holder) TakePolicy(content []byte) error {
	p, err := Parse(content)
	if err != nil {
		h.change(func() { h.lacks = "is not valid" })
		return err
	}
	h.change(func() { h.policy, h.digest = p, Digest(content) })
	return nil
}

// Digest returns the digest of the policy in force, "" if there is none.
func (h *Holder) Digest() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.digest
}

// DropPolicy leaves none. Every request is refused with that reason; with [ErrLate] where
// a policy is expected.
func (h *Holder) DropPolicy() {
	h.change(func() { h.policy, h.digest, h.lacks = nil, "", "is not there" })
}

// TakeCatalog takes over a catalog, nil for none.
func (h *Holder) TakeCatalog(c *Catalog) { h.change(func() { h.catalog = c }) }

// TakeTypeInstances takes over what the system has.
func (h *Holder) TakeTypeInstances(all []TypeInstance) { h.change(func() { h.instances = all }) }

func (h *Holder) change(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
	s := NewSnapshot(h.policy, h.catalog, h.instances)
	if h.policy == nil && h.expected != "" {
		s.late = late(h.expected, h.lacks)
	}
	h.current.Store(s)
}
