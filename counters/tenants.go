package counters

import (
	"context"
	"strings"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Tenants returns the tenants that have an assigned runtime in a pool. It reads all runtimes, and
// keeps only their tenants in memory. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Tenants(ctx context.Context, pool string) (map[string]bool, error) {
	tenants := map[string]bool{}
	for tenant, err := range scanHash(ctx, s, pool, s.poolKeys(pool)[2], tenantOf) {
		if err != nil {
			return nil, err
		}
		if tenant != "" && !tenants[tenant] {
			tenants[strings.Clone(tenant)] = true // a copy, so that the record can be freed
		}
	}
	return tenants, nil
}

// tenantOf returns the tenant of an assigned runtime, "" for any other state, without decoding all
// fields.
func tenantOf(id, packed string) (string, error) {
	if strings.Count(packed, "|") != 6 {
		_, err := unpackRuntime(id, packed) // its error names the fault
		return "", err
	}
	if !strings.HasPrefix(packed, string(account.RuntimeAssigned)+"|") {
		return "", nil
	}
	return packed[strings.LastIndexByte(packed, '|')+1:], nil
}
