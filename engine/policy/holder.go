package policy

import (
	"sync"
	"sync/atomic"
)

// Holder stores the current Snapshot, and replaces it when the policy, the catalog or the TypeInstances
// change. A change is atomic: the next call of Snapshot returns all of it. The zero value has no policy, no
// catalog and no TypeInstances. It is safe for concurrent use.
type Holder struct {
	mu        sync.Mutex // protects the fields below, from which snapshots are built
	policy    *Policy
	digest    string // of the policy's text, "" for none
	catalog   *Catalog
	instances []TypeInstance
	expected  string // where the policy comes from; "" if no policy is expected
	lacks     string // completes the message about a missing policy: "is not there" or "is not valid"

	current atomic.Pointer[Snapshot]
}

// Snapshot returns the current Snapshot, never nil.
func (h *Holder) Snapshot() *Snapshot {
	if s := h.current.Load(); s != nil {
		return s
	}
	return NewSnapshot(nil, nil, nil)
}

// Expect sets the source of the policy, such as ConfigMap hap-policy. From then on, requests are not refused
// while there is no policy: they fail with [ErrLate].
func (h *Holder) Expect(source string) {
	h.change(func() { h.expected, h.lacks = source, "is not there" })
}

// TakePolicy parses a policy and puts it in force. If it is invalid, the error is a [document.Faults], and
// the previous policy stays in force.
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

// DropPolicy removes the policy. Every request is then refused for that reason, or fails with [ErrLate] if a
// policy is expected.
func (h *Holder) DropPolicy() {
	h.change(func() { h.policy, h.digest, h.lacks = nil, "", "is not there" })
}

// TakeCatalog replaces the catalog; nil is none.
func (h *Holder) TakeCatalog(c *Catalog) { h.change(func() { h.catalog = c }) }

// TakeTypeInstances replaces the TypeInstances that are available.
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
