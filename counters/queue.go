package counters

import (
	"context"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine/account"
)

// queueScript reads a page of the waiting runtimes, by their sequence.
//
//	KEYS    -> see records
//	ARGV[1] -> sequence behind which the page begins
//	ARGV[2] -> number of runtimes to read
//
//	Returns {'OK'} and five values for each waiting runtime: its id, tenant, request and sequence, and
//	the sequence at which a waiting runtime of its tenant was last served, 0 if none is recorded
var queueScript = script.New("queue", []string{records}, `
local out, turns = {'OK'}, {}
local had = redis.call('ZRANGE', KEYS[7], 0, -1, 'WITHSCORES')
for i = 1, #had, 2 do turns[had[i]] = tonumber(had[i + 1]) end
for _, id in ipairs(redis.call('ZRANGE', KEYS[6], '(' .. ARGV[1], '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[2])) do
  local rt = get_runtime(id)
  out[#out + 1], out[#out + 2], out[#out + 3] = id, rt.tenant, rt.request
  out[#out + 1], out[#out + 2] = num(rt.sequence), num(turns[rt.tenant] or 0)
end
return out
`)

// Queue returns the runtimes that wait for a pool, in the order in which they are to be served
// (account.InTurn). It reads page by page, so that other calls are not held up. A runtime that begins to wait
// again meanwhile may come twice. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Queue(ctx context.Context, pool string) ([]account.Waiter, error) {
	var waiters []account.Waiter
	for after, more := int64(0), true; more; {
		r, err := s.run(ctx, queueScript, pool, s.poolKeys(pool), after, lookedAt)
		if err != nil {
			return nil, err
		}
		page := waitersOf(r)
		if r.Err() != nil {
			return nil, r.Err()
		}
		waiters = append(waiters, page...)
		if more = len(page) == lookedAt && page[lookedAt-1].Sequence > after; more {
			after = page[lookedAt-1].Sequence
		}
	}
	account.InTurn(waiters)
	return waiters, nil
}

// waitersOf decodes the rest of a reply of queue or heads.
func waitersOf(r *script.Reply) (all []account.Waiter) {
	for r.More() {
		all = append(all, account.Waiter{
			Runtime: r.Text(), Tenant: r.Text(), Request: r.Text(), Sequence: r.Number(), Turn: r.Number(),
		})
	}
	return all
}

// headsScript reads the next runtime of each tenant. Tenants for which no turn is recorded come first,
// so the script stops when it has found ARGV[1] of them. If fewer of them wait, it reads the whole queue.
//
//	KEYS    -> see records
//	ARGV[1] -> maximum number of tenants
//
//	Returns {'OK', number of all that wait} and five values for each, as queue does
var headsScript = script.New("heads", []string{records}, `
local most, turns, met, first, unserved = tonumber(ARGV[1]), {}, {}, {}, 0
local had = redis.call('ZRANGE', KEYS[7], 0, -1, 'WITHSCORES')
for i = 1, #had, 2 do turns[had[i]] = tonumber(had[i + 1]) end
local waiting = redis.call('ZCARD', KEYS[6])
for from = 0, waiting - 1, 100 do
  if unserved >= most then break end
  for _, id in ipairs(redis.call('ZRANGE', KEYS[6], from, from + 99)) do
    local rt = get_runtime(id)
    if not met[rt.tenant] then
      met[rt.tenant] = true
      local turn = turns[rt.tenant] or 0
      if turn == 0 then unserved = unserved + 1 end
      first[#first + 1] = {id = id, tenant = rt.tenant, request = rt.request, sequence = rt.sequence, turn = turn}
    end
  end
end
table.sort(first, function(a, b)
  if a.turn ~= b.turn then return a.turn < b.turn end
  return a.sequence < b.sequence
end)
local out = {'OK', num(waiting)}
for i = 1, math.min(most, #first) do
  local w = first[i]
  out[#out + 1], out[#out + 2], out[#out + 3] = w.id, w.tenant, w.request
  out[#out + 1], out[#out + 2] = num(w.sequence), num(w.turn)
end
return out
`)

// Heads returns how many runtimes wait for a pool and, for at most `most` tenants in the order in which the pool
// serves them, the runtime of the tenant that has waited longest. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Heads(ctx context.Context, pool string, most int) (account.Heads, error) {
	r, err := s.run(ctx, headsScript, pool, s.poolKeys(pool), most)
	if err != nil {
		return account.Heads{}, err
	}
	heads := account.Heads{Waiting: int(r.Number()), First: waitersOf(r)}
	return heads, r.Err()
}
