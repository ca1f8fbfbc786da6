package counters

import (
	"context"
	"strings"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Tenants returns the tenants that have an assigned runtime in a pool. It reads all runtimes,
// and keeps of each no more than a new tenant. ErrNotBuilt, else an *engine.Error of Redis.
func (s *Store) Tenants(ctx context.Context, pool string) (map[string]bool, error) {
	tenants := map[string]bool{}
	for tenant, err := range scanHash(ctx, s, pool, s.poolKeys(pool)[2], tenantOf) {
		if err != nil {
			return nil, err
		}
		if tenant != "" && !tenants[tenant] {
			tenants[strings.Clone(tenant)] = true // so the rest of the record is let go
		}
	}
	return tenants, nil
}

// tenantOf is the tenant of an assigned runtime, "" for none, without the cost of all the
// other fields.
func tenantOf(id, packed string) (string, error) {
	if strings.Count(packed, "|") != 6 {
		_, err := unpackRuntime(id, packed) // which says what is wrong
		return "", err
	}
	if !strings.HasPrefix(packed, string(account.RuntimeAssigned)+"|") {
		return "", nil
	}
	return packed[strings.LastIndexByte(packed, '|')+1:], nil
}
