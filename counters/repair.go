package counters

import (
	"context"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine/account"
)

// recountScript sets a binding's count to the number of its runtimes. It reads all runtimes of the
// pool, which takes about a second for a million and blocks every other decision meanwhile.
//
//	KEYS    -> see records
//	ARGV[1] -> binding
//
//	Returns {'OK', 1 if the count changed}
var recountScript = script.New("recount", []string{records}, `
local name, count, cursor = ARGV[1], 0, '0'
local begins = 'assigned|' .. name .. '|'
local length = #begins
repeat
  local page = redis.call('HSCAN', KEYS[3], cursor, 'COUNT', 1000)
  cursor = page[1]
  for i = 2, #page[2], 2 do
    if string.sub(page[2][i], 1, length) == begins then count = count + 1 end
  end
until cursor == '0'
local rec = get_binding(name)
if rec.count == count then return {'OK', 0} end
rec.count, rec.pristine = count, false
put_binding(name, rec)
return {'OK', 1}
`)

// Recount sets the binding's count to the number of runtimes that are assigned to it, and reports
// whether the count changed. A claim whose count becomes 0 does not drain. Recount blocks the server
// for a microsecond per runtime of the pool. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Recount(ctx context.Context, pool, binding string) (bool, error) {
	return s.mend(ctx, recountScript, pool, []string{binding})
}

// restoreScript restores an assignment.
//
//	KEYS    -> see records
//	ARGV[1] -> runtime
//	ARGV[2] -> its record as it was read, packed, '' for none
//	ARGV[3] -> its new record, packed
//	ARGV[4] -> its binding
//	ARGV[5] -> record for the binding if it has none, packed, without runtimes
//	ARGV[6] -> sequence of the runtime's new record
//
//	Returns {'OK', 1 if it was restored}
var restoreScript = script.New("restore", []string{records}, `
local id, was, to, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if (get(3, id) or '') ~= was then return {'OK', 0} end
if get_binding(name).state == 'claiming' then return {'OK', 0} end -- a worker is about to confirm or revoke its claim
local rt = get_runtime(id)
if rt.state == 'assigned' then unassign(rt.binding, id) end
local rec = get_binding(name) -- which may be the binding that the runtime was just taken off
if not rec.known then
  rec = unpack_binding(name, ARGV[5])
  rec.listed = nil
elseif rec.state == 'draining' then
  rec.state = 'claimed'
end
rec.count, rec.pristine = rec.count + 1, false
put_binding(name, rec)
shrink('ZREM', KEYS[6], id)
set(3, id, to)
if tonumber(ARGV[6]) > KEYS.sequence then raise_sequence(tonumber(ARGV[6])) end
return {'OK', 1}
`)

// Restore writes the assignment rt, which the ledger or a Shoot has and Redis has lost, and reports
// whether it did. It changes nothing if the runtime's record no longer equals was (zero: no record), or if
// the binding is in claiming. A runtime that is assigned by was is taken off that binding first. The count of rt's
// binding grows by one, and a draining binding becomes claimed. A binding without a record gets the record should,
// with a count of 1, and unconfirmed unless it is shared. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Restore(ctx context.Context, pool, runtime string, was, rt account.Runtime, should account.Record) (bool, error) {
	before := ""
	if was != (account.Runtime{}) {
		before = packRuntime(was)
	}
	should.Confirmed, should.Count = should.State == account.InUse && should.Tenant == "", 0
	if err := checkNames(rt.Request, rt.Tenant, should.Tenant); err != nil {
		return false, err
	}
	if err := checkNumbers(rt.Sequence, should.Generation, should.Claimed); err != nil {
		return false, err
	}
	return s.mend(ctx, restoreScript, pool, []string{runtime, rt.Binding}, runtime, before, packRuntime(rt), rt.Binding, pack(should), rt.Sequence)
}

// releaseUnchangedScript makes a runtime gone if its record is as it was read.
//
//	KEYS    -> see records
//	ARGV[1] -> runtime
//	ARGV[2] -> its record as it was read, packed
//
//	Returns {'OK', 1 if it is gone by that}
var releaseUnchangedScript = script.New("release unchanged", []string{records, departure}, `
local id = ARGV[1]
if get(3, id) ~= ARGV[2] then return {'OK', 0} end
depart(id, get_runtime(id))
return {'OK', 1}
`)

// ReleaseUnchanged releases a runtime that was assigned or waited, as ReleaseRuntime does, if its record still equals
// was, which must not be the record of a runtime that is gone. It reports whether the runtime became gone by it. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) ReleaseUnchanged(ctx context.Context, pool, runtime string, was account.Runtime) (bool, error) {
	return s.mend(ctx, releaseUnchangedScript, pool, []string{runtime}, runtime, packRuntime(was))
}

// dropAdoptedScript removes a runtime that was read only from a Shoot (account.Adopted).
//
//	KEYS    -> see records
//	ARGV[1] -> runtime
//	ARGV[2] -> binding
//
//	Returns {'OK', 1 if it was dropped}
var dropAdoptedScript = script.New("drop adopted", []string{records}, `
local rt = get_runtime(ARGV[1])
if rt.state ~= 'assigned' or rt.origin ~= 'shoot' or rt.request ~= '' or rt.binding ~= ARGV[2] then return {'OK', 0} end
local rec = get_binding(rt.binding)
if rec.state == 'claimed' and rec.count <= 1 and not is_shared(rec) then return {'OK', 0} end
if rec.known then
  rec.count = math.max(0, rec.count - 1)
  put_binding(rt.binding, rec)
end
drop_runtime(ARGV[1])
return {'OK', 1}
`)

// DropAdopted removes a runtime that was read only from a Shoot, once the Shoot is gone, and reports whether it
// did. It removes only a runtime that is assigned to the binding with the Origin account.Adopted and by no request,
// and not the last runtime of a claim. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) DropAdopted(ctx context.Context, pool, runtime, binding string) (bool, error) {
	return s.mend(ctx, dropAdoptedScript, pool, []string{runtime, binding})
}

// doubtScript makes a claim unconfirmed.
//
//	KEYS    -> see records
//	ARGV[1] -> binding
//	ARGV[2] -> generation
//
//	Returns {'OK', 1}, or {'OK', 0} without a change if it was not confirmed, is shared or has another generation
var doubtScript = script.New("doubt", []string{records}, `
local rec = get_binding(ARGV[1])
if not rec.confirmed or is_shared(rec) or rec.generation ~= tonumber(ARGV[2]) then return {'OK', 0} end
rec.confirmed, rec.pristine = false, false
put_binding(ARGV[1], rec)
return {'OK', 1}
`)

// Doubt makes a confirmed claim of that generation unconfirmed, so that a worker reads the label before a further
// runtime is answered with the binding (rule 4). It reports whether it did. Errors: ErrNotBuilt, or an
// *engine.Error of Redis.
func (s *Store) Doubt(ctx context.Context, pool, binding string, generation int64) (bool, error) {
	return s.mend(ctx, doubtScript, pool, []string{binding}, binding, generation)
}

// drainIdleScript makes a claimed binding without runtimes draining, unless it is shared.
//
//	KEYS    -> see records
//	ARGV[1] -> binding
//	ARGV[2] -> generation
//
//	Returns {'OK', 1 if it drains}
var drainIdleScript = script.New("drain idle", []string{records}, `
local rec = get_binding(ARGV[1])
if rec.state ~= 'claimed' or is_shared(rec) or rec.count > 0 or rec.generation ~= tonumber(ARGV[2]) then return {'OK', 0} end
rec.state, rec.pristine = 'draining', false
put_binding(ARGV[1], rec)
return {'OK', 1}
`)

// DrainIdle makes a claimed binding of that generation draining if it has no runtimes and is not shared, as its
// last deprovision would have, and reports whether it did. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) DrainIdle(ctx context.Context, pool, binding string, generation int64) (bool, error) {
	return s.mend(ctx, drainIdleScript, pool, []string{binding}, binding, generation)
}

// raiseScript raises a pool's sequence.
//
//	KEYS    -> see records
//	ARGV[1] -> sequence
//
//	Returns {'OK', 1 if the pool was behind}
var raiseScript = script.New("raise", []string{records}, `
if KEYS.sequence >= tonumber(ARGV[1]) then return {'OK', 0} end
raise_sequence(tonumber(ARGV[1]))
grow()
return {'OK', 1}
`)

// Raise raises the pool's sequence to sequence, and reports whether it was lower. Errors:
// ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Raise(ctx context.Context, pool string, sequence int64) (bool, error) {
	if err := checkNumbers(sequence); err != nil {
		return false, err
	}
	return s.mend(ctx, raiseScript, pool, nil, sequence)
}

// discardScript removes the epoch.
//
//	KEYS[1] -> meta
//	ARGV[1] -> the epoch to remove, '' for any
//
//	Returns {'OK', 1 if the place was built under that epoch}, otherwise {'OK', 0}
var discardScript = script.NewOutside("discard", site+`
if ARGV[1] ~= '' and ARGV[1] ~= head[1] then return {'OK', 0} end
redis.call('HDEL', KEYS[1], 'epoch', 'server', 'history')
return {'OK', built and 1 or 0}
`)

// Discard removes the epoch of a pool, or of a bucket by its name, as if Redis had lost the place: no
// script decides there until it is rebuilt. It reports whether the place was built. Error: an
// *engine.Error of Redis.
func (s *Store) Discard(ctx context.Context, place string) (bool, error) {
	return s.discard(ctx, place, s.metaKey(place), "")
}

// Depose is Discard if the place still has this epoch (rule 15); the epoch "" stands for any. If the place has
// another epoch or none, nothing changes and the result is false.
func (s *Store) Depose(ctx context.Context, place, epoch string) (bool, error) {
	return s.discard(ctx, place, s.metaKey(place), epoch)
}

func (s *Store) discard(ctx context.Context, place, meta, epoch string) (bool, error) {
	r, err := s.run(ctx, discardScript, place, []string{meta}, epoch)
	if err != nil {
		return false, err
	}
	return r.Flag(), r.Err()
}

// mend checks the names and runs a repair script. Without args, the names are its arguments.
func (s *Store) mend(ctx context.Context, sc script.Script, pool string, names []string, args ...any) (bool, error) {
	if err := checkNames(names...); err != nil {
		return false, err
	}
	if args == nil {
		for _, name := range names {
			args = append(args, name)
		}
	}
	r, err := s.run(ctx, sc, pool, s.poolKeys(pool), args...)
	if err != nil {
		return false, err
	}
	return r.Flag(), r.Err()
}
