package counters

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine/account"
)

// records is the part of a pool's scripts that reads and writes records. checkNames makes sure that no
// field of a record contains '|', and no name a space.
//
//	KEYS[1] -> meta
//	KEYS[2] -> hash binding -> state|tenant|generation|confirmed|count|claimed|pristine
//	KEYS[3] -> hash runtime -> state|binding|sequence|request|confirmed|origin|tenant
//	KEYS[4] -> sorted set of "tenant binding", all of score 0: a tenant's bindings in byte order
//	KEYS[5] -> sorted set of "binding runtime", all of score 0: the runtimes on each binding in claiming
//	KEYS[6] -> sorted set of the runtimes that wait, by sequence
//	KEYS[7] -> sorted set of tenants, by the sequence at which a waiting runtime of theirs was last served
const records = `
local function bit(b) return b and '1' or '0' end

local function unpack_binding(name, packed)
  if not packed then
    return {state = 'free', tenant = '', generation = 0, confirmed = false, count = 0, claimed = 0, pristine = false,
      known = false}
  end
  local state, tenant, generation, confirmed, count, claimed, pristine =
    string.match(packed, '^(%a+)|([^|]*)|(%d+)|([01])|(%d+)|(%d+)|([01])$')
  if not state then error('the record of binding ' .. name .. ' is unreadable') end
  return {state = state, tenant = tenant, generation = tonumber(generation), confirmed = confirmed == '1',
    count = tonumber(count), claimed = tonumber(claimed), pristine = pristine == '1', known = true,
    listed = state ~= 'free' and tenant ~= '' and tenant or nil}
end

local function get_binding(name) return unpack_binding(name, get(2, name)) end

local function put_binding(name, rec)
  local listed = rec.state ~= 'free' and rec.tenant ~= '' and rec.tenant or nil
  if rec.listed ~= listed then
    if rec.listed then shrink('ZREM', KEYS[4], rec.listed .. ' ' .. name) end
    if listed then grow('ZADD', KEYS[4], 0, listed .. ' ' .. name) end
    rec.listed = listed
  end
  if rec.state == 'free' and rec.count == 0 then
    set(2, name, false)
    return
  end
  set(2, name, rec.state .. '|' .. rec.tenant .. '|' .. num(rec.generation) .. '|' .. bit(rec.confirmed) .. '|' ..
    num(rec.count) .. '|' .. num(rec.claimed) .. '|' .. bit(rec.pristine))
end

local function free_binding(name, rec)
  rec.state, rec.tenant, rec.count = 'free', '', 0
  put_binding(name, rec)
end

local function unknown_runtime()
  return {state = '', binding = '', sequence = 0, request = '', confirmed = false, origin = '', tenant = ''}
end

local function get_runtime(id)
  local packed = get(3, id)
  if not packed then return unknown_runtime() end
  local state, binding, sequence, request, confirmed, origin, tenant =
    string.match(packed, '^(%a+)|([^|]*)|(%d+)|([^|]*)|([01])|(%a*)|([^|]*)$')
  if not state then error('the record of runtime ' .. id .. ' is unreadable') end
  return {state = state, binding = binding, sequence = tonumber(sequence), request = request,
    confirmed = confirmed == '1', origin = origin, tenant = tenant}
end

-- Rule 16: returns the record of a runtime whose place has the number after, and
-- whether the runtime went to another pool since that place was read. A record of an
-- earlier move is ignored, since the runtime has come back.
local function arrived(id, after)
  local rt = get_runtime(id)
  if rt.state == 'moved' then
    if rt.sequence > after then return rt, true end
    rt = unknown_runtime()
  end
  if after > KEYS.sequence then
    raise_sequence(after)
    grow()
  end
  return rt, false
end

-- waited: the runtime waits according to its record so far.
local function put_runtime(id, rt, waited)
  if rt.state == 'waiting' then
    grow('ZADD', KEYS[6], num(rt.sequence), id)
  elseif waited then
    shrink('ZREM', KEYS[6], id)
  end
  set(3, id, rt.state .. '|' .. rt.binding .. '|' .. num(rt.sequence) .. '|' .. rt.request .. '|' ..
    bit(rt.confirmed) .. '|' .. rt.origin .. '|' .. rt.tenant)
end

local function drop_runtime(id)
  set(3, id, false)
  shrink('ZREM', KEYS[6], id)
end

-- Rule 3: a record of an older version may name no tenant; such a runtime is not foreign.
local function foreign(rt, tenant)
  return (rt.state == 'assigned' or rt.state == 'waiting') and rt.tenant ~= '' and rt.tenant ~= tenant
end

local function is_shared(rec) return rec.state == 'claimed' and rec.tenant == '' end

-- Rule 7: takes a runtime off the record. A claim without runtimes drains, and stays
-- confirmed or unconfirmed; a dirtying or shared binding keeps its state.
local function less(rec)
  rec.count = math.max(0, rec.count - 1)
  if rec.count == 0 and not is_shared(rec) and (rec.state == 'claiming' or rec.state == 'claimed') then
    rec.state = 'draining'
  end
end

-- left: the runtime may have been answered. Its account may then hold a cluster, and
-- goes back to the pool only after it was cleaned.
local function unassign(name, id, left)
  local rec = get_binding(name)
  if not rec.known then return end
  less(rec)
  rec.pristine = rec.pristine and not left
  shrink('ZREM', KEYS[5], name .. ' ' .. id)
  put_binding(name, rec)
end

-- Rules 8 and 9: reports whether the record is that claim, ended and without runtimes.
local function emptied(rec, generation)
  return (rec.state == 'draining' or rec.state == 'dirtying') and rec.generation == generation and rec.count == 0
end

-- rt.request has the requests that the runtime is assigned by, separated by spaces.
local function first_request(rt) return string.match(rt.request, '^[^ ]*') end

local function decided(outcome, rt)
  return {'OK', outcome, rt.binding, 0, num(rt.sequence), epoch, 0, '', first_request(rt), 0, 0, 0, 0}
end
`

// pack writes a record as the scripts read it.
func pack(rec account.Record) string {
	return strings.Join([]string{
		string(rec.State), rec.Tenant, strconv.FormatInt(rec.Generation, 10), script.Flag(rec.Confirmed),
		strconv.Itoa(rec.Count), strconv.FormatInt(rec.Claimed, 10), script.Flag(rec.Pristine),
	}, "|")
}

// packRuntime writes a runtime's record as the scripts read it. It allocates once for up to 192 bytes, since a
// rebuild writes all runtimes.
func packRuntime(rt account.Runtime) string {
	var room [192]byte
	b := append(append(room[:0], rt.State...), '|')
	b = append(append(b, rt.Binding...), '|')
	b = append(strconv.AppendInt(b, rt.Sequence, 10), '|')
	b = append(append(b, rt.Request...), '|')
	b = append(append(b, script.Flag(rt.Confirmed)...), '|')
	b = append(append(b, rt.Origin...), '|')
	return string(append(b, rt.Tenant...))
}

func unpack(name, packed string) (account.Record, error) {
	f := strings.Split(packed, "|")
	if len(f) != 7 {
		return account.Record{}, fmt.Errorf("the record of binding %s is unreadable: %q", name, packed)
	}
	n := numbers{}
	rec := account.Record{
		State: account.State(f[0]), Tenant: f[1], Generation: n.parse(f[2]), Confirmed: f[3] == "1",
		Count: int(n.parse(f[4])), Claimed: n.parse(f[5]), Pristine: f[6] == "1",
	}
	return rec, n.err
}

func unpackRuntime(id, packed string) (account.Runtime, error) {
	f := strings.Split(packed, "|")
	if len(f) != 7 {
		return account.Runtime{}, fmt.Errorf("the record of runtime %s is unreadable: %q", id, packed)
	}
	n := numbers{}
	rt := account.Runtime{
		State: account.RuntimeState(f[0]), Binding: f[1], Sequence: n.parse(f[2]), Request: f[3],
		Confirmed: f[4] == "1", Origin: account.Origin(f[5]), Tenant: f[6],
	}
	return rt, n.err
}

// numbers parses numbers and keeps the first error.
type numbers struct{ err error }

func (n *numbers) parse(s string) int64 {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil && n.err == nil {
		n.err = err
	}
	return v
}
