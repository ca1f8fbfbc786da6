package counters

import (
	"context"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine/account"
)

// claimInput decodes a claim and reads its runtime and binding. `matches` is true if all of the claim
// still holds: the epoch, the runtime's assignment under that sequence, and the binding's tenant and
// generation.
//
//	ARGV[1] -> runtime
//	ARGV[2] -> binding
//	ARGV[3] -> generation
//	ARGV[4] -> sequence
//	ARGV[5] -> epoch
const claimInput = `
local id, name = ARGV[1], ARGV[2]
local rt, rec = get_runtime(id), get_binding(name)
local matches = ARGV[5] == epoch
  and rt.state == 'assigned' and rt.binding == name and rt.sequence == tonumber(ARGV[4])
  and rec.tenant == rt.tenant and rec.generation == tonumber(ARGV[3])
`

// confirmScript records that the label carries the claim (rule 5).
//
//	KEYS -> see records
//	ARGV -> see claimInput
//
//	Returns {'OK', 1}, or {'OK', 0} without a change if the claim does not match or the binding is neither in
//	claiming nor in claimed
var confirmScript = script.New("confirm", []string{records}, claimInput+`
if not matches or (rec.state ~= 'claiming' and rec.state ~= 'claimed') then return {'OK', 0} end
if not rec.confirmed or rec.state == 'claiming' then
  shrink('ZREMRANGEBYLEX', KEYS[5], '[' .. name .. ' ', '(' .. name .. '!')
  rec.state, rec.confirmed = 'claimed', true
  put_binding(name, rec)
end
if not rt.confirmed then
  rt.confirmed = true
  put_runtime(id, rt)
end
return {'OK', 1}
`)

// Confirm records that the binding's label was seen to carry the claim (rule 5), and returns true: the runtime
// may be answered. If the claim no longer holds, Confirm changes nothing and returns false: the caller starts
// over at Assign. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Confirm(ctx context.Context, pool string, c account.Claim) (bool, error) {
	return s.onClaim(ctx, confirmScript, pool, c)
}

// revokeScript takes back an unconfirmed claim (rule 6). While the binding is in claiming, no runtime on
// it has been answered: the binding becomes free and all its runtimes are dropped, at a cost that grows
// with their number. In any other state, for example after a rebuild or an adoption, other runtimes may have been
// answered: the binding becomes dirtying, and only this runtime is dropped, and only if it is unconfirmed.
//
//	KEYS -> see records
//	ARGV -> see claimInput
//
//	Returns {'OK', 1}, or {'OK', 0} without a change if the claim does not match or the binding is confirmed
var revokeScript = script.New("revoke", []string{records}, claimInput+`
if not matches or rec.confirmed then return {'OK', 0} end
if rec.state == 'claiming' then
  local from, to = '[' .. name .. ' ', '(' .. name .. '!'
  for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[5], from, to)) do
    drop_runtime(string.sub(member, #name + 2))
  end
  shrink('ZREMRANGEBYLEX', KEYS[5], from, to)
  free_binding(name, rec)
  return {'OK', 1}
end
-- Rule 6: other runtimes of a rebuilt or adopted binding may have been answered long ago.
rec.state, rec.pristine = 'dirtying', false
if not rt.confirmed then
  less(rec)
  drop_runtime(id)
end
put_binding(name, rec)
return {'OK', 1}
`)

// Revoke takes back a claim that cannot be confirmed, for example because the label is another tenant's
// or dirty (rule 6). If the binding is confirmed or the claim no longer holds, Revoke changes nothing and returns
// false. In either case the caller starts over at Assign. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Revoke(ctx context.Context, pool string, c account.Claim) (bool, error) {
	return s.onClaim(ctx, revokeScript, pool, c)
}

func (s *Store) onClaim(ctx context.Context, sc script.Script, pool string, c account.Claim) (bool, error) {
	if err := checkNames(c.Runtime, c.Binding); err != nil {
		return false, err
	}
	if err := checkNumbers(c.Generation, c.Sequence); err != nil {
		return false, err
	}
	reply, err := s.run(ctx, sc, pool, s.poolKeys(pool), c.Runtime, c.Binding, c.Generation, c.Sequence, c.Epoch)
	if err != nil {
		return false, err
	}
	return reply.Flag(), reply.Err()
}
