package rule

import (
	"strings"

	"github.com/hap-worker/hap-worker/engine"
)

// Labels are the keys of the labels on bindings, as selectors use them.
type Labels struct{ HyperscalerType, TenantName, Dirty, Internal, Shared, EUAccess string }

// StandardLabels returns the keys of CredentialsBindings and SecretBindings.
func StandardLabels() Labels {
	return Labels{
		HyperscalerType: "hyperscalerType", TenantName: "tenantName", Dirty: "dirty",
		Internal: "internal", Shared: "shared", EUAccess: "euAccess",
	}
}

// LegacyLabels returns the keys of the older scheme of Secrets.
func LegacyLabels() Labels {
	labels := StandardLabels()
	labels.HyperscalerType, labels.TenantName = "hyperscaler-type", "tenant-name"
	return labels
}

// Tenant returns the selector of the tenant's own bindings in a dedicated pool, without dirty ones. It selects
// internal bindings only for an internal tenant, which may keep those that carry its name.
func (l Labels) Tenant(pool engine.Pool, tenant string, internal bool) string {
	if internal {
		return l.pool(pool, l.Shared+"!=true", "!"+l.Dirty, l.TenantName+"="+tenant)
	}
	return l.pool(pool, l.Shared+"!=true", "!"+l.Dirty, "!"+l.Internal, l.TenantName+"="+tenant)
}

// Available returns the selector of the bindings of a pool that can serve any tenant: those that are neither
// dirty nor internal and, in a dedicated pool, have no tenant yet.
func (l Labels) Available(pool engine.Pool) string {
	if pool.Shared {
		return l.pool(pool, l.Shared+"=true", "!"+l.Dirty, "!"+l.Internal)
	}
	return l.pool(pool, l.Shared+"!=true", "!"+l.Dirty, "!"+l.Internal, "!"+l.TenantName)
}

func (l Labels) pool(pool engine.Pool, more ...string) string {
	access := "!" + l.EUAccess
	if pool.EUAccess {
		access = l.EUAccess + "=true"
	}
	return l.HyperscalerType + "=" + pool.HyperscalerType + "," + access + "," + strings.Join(more, ",")
}

// TenantSelector returns the label selector that is tried first: that of the tenant's own bindings or, in a
// shared pool, of the bindings for any tenant. It is "" if the pool is dedicated and the request names no tenant.
func (m Match) TenantSelector() string {
	switch {
	case m.Pool.Shared:
		return m.labels.Available(m.Pool)
	case m.tenant == "":
		return ""
	}
	return m.labels.Tenant(m.Pool, m.tenant, m.internal[m.tenant])
}

// ClaimSelector returns the label selector of the bindings that the tenant may claim if it has none
// that serves; "" in a shared pool, whose bindings are not claimed.
func (m Match) ClaimSelector() string {
	if m.Pool.Shared {
		return ""
	}
	return m.labels.Available(m.Pool)
}

// Available returns the label selector of the bindings of a pool that can serve any tenant. The pool need not
// be the pool of the match.
func (m Match) Available(pool engine.Pool) string { return m.labels.Available(pool) }

// Internal reports whether the tenant is one of the internal ones.
func (m Match) Internal() bool { return m.internal[m.tenant] }
