package rule

import "github.com/hap-worker/hap-worker/engine"

// TenantSelector finds the bindings of a dedicated pool that are the tenant's
// own. An internal tenant may keep internal bindings that carry its name.
func TenantSelector(pool engine.Pool, tenant string, internal bool) string {
	usable := ",!dirty,!internal"
	if internal {
		usable = ",!dirty"
	}
	return poolSelector(pool) + ",shared!=true" + usable + ",tenantName=" + tenant
}

// ClaimSelector finds the bindings of a dedicated pool that may be claimed.
func ClaimSelector(pool engine.Pool) string {
	return poolSelector(pool) + ",shared!=true,!dirty,!internal,!tenantName"
}

// SharedSelector finds the bindings of a shared pool.
func SharedSelector(pool engine.Pool) string {
	return poolSelector(pool) + ",shared=true,!dirty,!internal"
}

func poolSelector(pool engine.Pool) string {
	if pool.EUAccess {
		return "hyperscalerType=" + pool.HyperscalerType + ",euAccess=true"
	}
	return "hyperscalerType=" + pool.HyperscalerType + ",!euAccess"
}

// TenantSelector is the label selector that is tried first: the tenant's own
// bindings, in a shared pool all of its bindings. It is "" in a dedicated pool
// where the request names no tenant.
func (m Match) TenantSelector() string {
	switch {
	case m.Pool.Shared:
		return SharedSelector(m.Pool)
	case m.tenant == "":
		return ""
	}
	return TenantSelector(m.Pool, m.tenant, m.internal[m.tenant])
}

// ClaimSelector is the label selector of the bindings that the tenant may claim
// where it has none that serves; "" in a shared pool, of which nothing is claimed.
func (m Match) ClaimSelector() string {
	if m.Pool.Shared {
		return ""
	}
	return ClaimSelector(m.Pool)
}

// Internal reports whether the tenant is one of the internal ones.
func (m Match) Internal() bool { return m.internal[m.tenant] }
