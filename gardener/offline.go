package gardener

import "github.com/hap-worker/hap-worker/engine"

// Offline suggests bindings as a Client's cache does, from what it is told and
// without a server: for simulations. It is safe for concurrent use.
type Offline struct{ index *index }

// NewOffline gives one with the bindings.
func NewOffline(bindings []engine.Binding) *Offline {
	o := &Offline{index: newIndex()}
	for _, b := range bindings {
		o.Set(b)
	}
	return o
}

// Set replaces what is known of a binding.
func (o *Offline) Set(b engine.Binding) { o.index.set(b) }

// Cached is the binding as it was told last.
func (o *Offline) Cached(name string) (engine.Binding, bool) { return o.index.cached(name) }

// Claimable is as [Client.Claimable].
func (o *Offline) Claimable(pool engine.Pool, tenant string, internalTenant bool, n int) (seen []engine.Binding, all bool) {
	return o.index.claimable(pool, tenant, internalTenant, n)
}

// Shared is as [Client.Shared].
func (o *Offline) Shared(pool engine.Pool) []engine.Binding { return o.index.sharedOf(pool) }

// Barred is as [Client.Barred].
func (o *Offline) Barred(pool engine.Pool, tenant string, internalTenant bool) []string {
	return o.index.barred(pool, tenant, internalTenant)
}
