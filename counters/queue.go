package counters

import (
	"context"

	"github.com/hap-worker/hap-worker/engine/account"
)

// queueScript reads who waits.
//
//	KEYS -> see records
//
//	Returns {'OK'} and five values for each: runtime, tenant, request, sequence, turn of the tenant
var queueScript = newScript("queue", []string{records}, `
local out = {'OK'}
for _, id in ipairs(redis.call('ZRANGE', KEYS[6], 0, -1)) do
  local rt = get_runtime(id)
  local turn = redis.call('ZSCORE', KEYS[7], rt.tenant) or '0'
  out[#out + 1], out[#out + 2], out[#out + 3] = id, rt.tenant, rt.request
  out[#out + 1], out[#out + 2] = num(rt.sequence), num(tonumber(turn))
end
return out
`)

// Queue gives the runtimes that wait for a pool, in the order in which they are
// to be served (account.InTurn). Its cost grows with their number. ErrNotBuilt,
// else an *engine.Error of Redis.
func (s *Store) Queue(ctx context.Context, pool string) ([]account.Waiter, error) {
	r, err := s.run(ctx, queueScript, pool, s.poolKeys(pool))
	if err != nil {
		return nil, err
	}
	var waiters []account.Waiter
	for r.more() {
		waiters = append(waiters, account.Waiter{
			Runtime: r.text(), Tenant: r.text(), Request: r.text(), Sequence: r.number(), Turn: r.number(),
		})
	}
	if r.err != nil {
		return nil, r.err
	}
	account.InTurn(waiters)
	return waiters, nil
}
