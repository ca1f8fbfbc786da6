package counters

import (
	"context"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine/account"
)

// departure is a Lua function that takes a runtime off its binding, if it has one, and replaces its record by a
// tombstone, which it returns.
const departure = `
local function depart(id, rt)
  local gone = {state = 'gone', binding = '', sequence = next_sequence(), request = '',
    confirmed = false, origin = '', tenant = rt.tenant}
  if rt.state == 'assigned' then
    gone.binding = rt.binding
    unassign(rt.binding, id, rt.confirmed)
  elseif rt.state == 'waiting' then
    gone.request = rt.request
  end
  put_runtime(id, gone, rt.state == 'waiting')
  return gone
end
`

// releaseScript makes a runtime gone, and takes it off its binding if it has one (rule 7). The record of the
// gone runtime keeps the request that waited, so that a repeat names it again.
//
//	KEYS    -> see records
//	ARGV[1] -> runtime
//	ARGV[2] -> tenant that asks, '' for none
//	ARGV[3] -> number of the runtime's place in the directory (account.Place.Sequence)
//	ARGV[4] -> '1' to make a runtime without a record gone, too
//
//	Returns {'OK', binding, tenant, generation, sequence, count, state, repeated, request that waited,
//	1 if the runtime is another tenant's, 1 if it has left the pool since its place was read, 1 if nothing was
//	done because there is no record}
var releaseScript = script.New("release runtime", []string{script.Joined, records, departure}, `
local id = ARGV[1]
local rt, left = arrived(id, tonumber(ARGV[3]))
if left then return {'OK', '', '', 0, num(rt.sequence), 0, 'free', 0, '', 0, 1, 0} end
if rt.state == '' and ARGV[4] ~= '1' then return {'OK', '', '', 0, 0, 0, 'free', 0, '', 0, 0, 1} end
local repeated = rt.state == 'gone'
if ARGV[2] ~= '' and rt.tenant ~= '' and rt.tenant ~= ARGV[2] and (not repeated or rt.binding ~= '' or rt.request ~= '') then
  return {'OK', '', '', 0, 0, 0, 'free', 0, '', 1, 0, 0}
end
if not repeated then rt = depart(id, rt) end
local out = {'OK', rt.binding, '', 0, num(rt.sequence), 0, 'free', repeated and 1 or 0, rt.request, 0, 0, 0}
if rt.binding ~= '' then
  local rec = get_binding(rt.binding)
  -- The binding's state is returned only while the binding is this tenant's.
  if rec.tenant == rt.tenant or is_shared(rec) then
    out[3], out[4], out[6], out[7] = rec.tenant, num(rec.generation), rec.count, rec.state
  end
end
return out
`)

// ReleaseRuntime makes a runtime gone, and takes it off its binding if it has one (rule 7). A waiting
// runtime becomes gone, too. tenant is the tenant that asks, "" if none is named. If the runtime is
// another tenant's, nothing changes and the Departure is Foreign; if it has left the pool since its place was
// read, nothing changes and the Departure is Moved; if a tenant asks and there is no record, nothing changes and it is
// Unknown. A repeat returns the same sequence. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) ReleaseRuntime(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error) {
	return s.release(ctx, place, runtime, tenant, tenant == "")
}

// ReleaseUnknown is ReleaseRuntime for a runtime whose Departure was Unknown, and for which no other tenant's request
// waits: a runtime without a record becomes gone, too. Errors: as ReleaseRuntime.
func (s *Store) ReleaseUnknown(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error) {
	return s.release(ctx, place, runtime, tenant, true)
}

func (s *Store) release(ctx context.Context, place account.Place, runtime, tenant string, unknown bool) (account.Departure, error) {
	if err := checkNames(runtime, tenant); err != nil {
		return account.Departure{}, err
	}
	r, err := s.run(ctx, releaseScript, place.Pool, s.poolKeys(place.Pool), runtime, tenant, place.Sequence, script.Flag(unknown))
	if err != nil {
		return account.Departure{}, err
	}
	d := account.Departure{
		Binding: r.Text(), Tenant: r.Text(), Generation: r.Number(), Sequence: r.Number(),
		Count: int(r.Number()), State: account.State(r.Text()), Repeated: r.Flag(), Waited: r.Text(), Foreign: r.Flag(), Moved: r.Flag(),
		Unknown: r.Flag(),
	}
	return d, r.Err()
}

// forgetScript drops the record of a runtime that has no account.
//
//	KEYS    -> see records
//	ARGV[1] -> runtime
//	ARGV[2] -> sequence that the record must have
//
//	Returns {'OK', 1 if it was dropped}
var forgetScript = script.New("forget", []string{records}, `
local rt = get_runtime(ARGV[1])
if rt.sequence ~= tonumber(ARGV[2]) or rt.state == 'assigned' or rt.state == '' then return {'OK', 0} end
drop_runtime(ARGV[1])
return {'OK', 1}
`)

// Forget drops the record of a runtime without an account, if the record has that sequence, and reports
// whether it did. Call it when the runtime's event cannot be delivered again (rules 12 and 14), or when
// none of its requests waits (rule 11). Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Forget(ctx context.Context, pool, runtime string, sequence int64) (bool, error) {
	if err := checkNames(runtime); err != nil {
		return false, err
	}
	r, err := s.run(ctx, forgetScript, pool, s.poolKeys(pool), runtime, sequence)
	if err != nil {
		return false, err
	}
	return r.Flag(), r.Err()
}
