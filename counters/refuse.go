package counters

import (
	"context"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine/account"
)

// refuseScript ends the waiting of a request at its deadline (rule 12).
//
//	KEYS    -> see records
//	ARGV[1] -> runtime
//	ARGV[2] -> request
//	ARGV[3] -> its tenant
//	ARGV[4] -> number of the runtime's place in the directory (account.Place.Sequence)
//
//	Returns what assign returns; the outcome is refused, superseded, foreign, assigned or moved
var refuseScript = script.New("refuse", []string{records}, `
local id, request, tenant = ARGV[1], ARGV[2], ARGV[3]
local rt, left = arrived(id, tonumber(ARGV[4]))
if left then return decided('moved', rt) end
if rt.state == 'gone' then return decided('superseded', {binding = '', sequence = rt.sequence, request = rt.request}) end
if foreign(rt, tenant) then return decided('foreign', unknown_runtime()) end
if rt.state == 'assigned' then -- left to the worker that assigned it
  local out = decided('assigned', rt)
  out[7], out[8], out[10] = rt.confirmed and 1 or 0, rt.origin, 1
  return out
end
if rt.state ~= 'refused' or rt.request ~= request then
  local waited = rt.state == 'waiting'
  rt = {state = 'refused', binding = '', sequence = next_sequence(), request = request,
    confirmed = false, origin = '', tenant = rt.tenant ~= '' and rt.tenant or tenant}
  put_runtime(id, rt, waited)
end
return decided('refused', rt)
`)

// Refuse ends the waiting of a request at its deadline (rule 12). The outcome is Refused, also for an unknown
// runtime; or, without a change, Superseded (the runtime is gone), Foreign (it is another tenant's), Assigned (it has
// an account by now) or Moved (it has left the pool). A repeat returns the same. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Refuse(ctx context.Context, place account.Place, runtime, request, tenant string) (account.Decision, error) {
	if err := checkNames(runtime, request, tenant); err != nil {
		return account.Decision{}, err
	}
	reply, err := s.run(ctx, refuseScript, place.Pool, s.poolKeys(place.Pool), runtime, request, tenant, place.Sequence)
	if err != nil {
		return account.Decision{}, err
	}
	return decisionOf(reply)
}

// takeBackScript removes the assignment or the waiting of a request (rule 11).
//
//	KEYS    -> see records
//	ARGV[1] -> runtime
//	ARGV[2] -> request
//	ARGV[3] -> tenant of the request
//
//	Returns {'OK'}
var takeBackScript = script.New("take back", []string{records}, `
local id, request, tenant = ARGV[1], ARGV[2], ARGV[3]
local rt = get_runtime(id)
local rest, relied = {}, false
for one in string.gmatch(rt.request, '[^ ]+') do
  if one == request then relied = true else rest[#rest + 1] = one end
end
if not relied or foreign(rt, tenant) then return {'OK'} end
if rt.state == 'assigned' and (#rest > 0 or rt.origin == 'shoot') then -- others may have been answered with it, or its cluster was there before
  rt.request = table.concat(rest, ' ')
  put_runtime(id, rt)
  return {'OK'}
end
if rt.state == 'assigned' then unassign(rt.binding, id) end
if rt.state == 'assigned' or rt.state == 'waiting' then drop_runtime(id) end
return {'OK'}
`)

// TakeBack removes the assignment or the waiting of a request whose final answer is not an assignment
// (rule 11). An assignment stays while another request may be answered with it, or if it was adopted from a
// Shoot. A record of another tenant stays. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) TakeBack(ctx context.Context, pool, runtime, request, tenant string) error {
	if err := checkNames(runtime, request, tenant); err != nil {
		return err
	}
	_, err := s.run(ctx, takeBackScript, pool, s.poolKeys(pool), runtime, request, tenant)
	return err
}
