package counters

import (
	"context"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine/account"
)

// dirtyingScript permits to write dirty=true (rule 8).
//
//	KEYS    -> see records
//	ARGV[1] -> binding
//	ARGV[2] -> generation
//
//	Returns {'OK', 1 if it may be written, tenant that the label must name, 1 if the claim is pristine}
var dirtyingScript = script.New("begin dirtying", []string{records}, `
local rec = get_binding(ARGV[1])
if not emptied(rec, tonumber(ARGV[2])) then return {'OK', 0, '', 0} end
if rec.state ~= 'dirtying' then
  rec.state = 'dirtying'
  put_binding(ARGV[1], rec)
end
return {'OK', 1, rec.tenant, rec.pristine and 1 or 0}
`)

// BeginDirtying permits the caller to write dirty=true on a binding without runtimes that drains or is
// dirtying under this generation (rule 8). The binding is then dirtying, and Assign does not choose it. If the
// Permit is Pristine, the caller removes the tenant's label instead, and calls MarkFreed. For any other binding
// nothing changes, and Permit.Given is false. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) BeginDirtying(ctx context.Context, pool, binding string, generation int64) (account.Permit, error) {
	r, err := s.onBinding(ctx, dirtyingScript, pool, binding, generation)
	if err != nil {
		return account.Permit{}, err
	}
	return account.Permit{Given: r.Flag(), Tenant: r.Text(), Pristine: r.Flag()}, r.Err()
}

// inUseScript counts the runtimes on a binding (rule 9).
//
//	KEYS    -> see records
//	ARGV[1] -> binding
//
//	Returns {'OK', count}
var inUseScript = script.New("in use", []string{records}, `
return {'OK', get_binding(ARGV[1]).count}
`)

// InUse returns the number of runtimes on the binding. A release is refused while there are any (rule
// 9). Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) InUse(ctx context.Context, pool, binding string) (int, error) {
	r, err := s.onBinding(ctx, inUseScript, pool, binding, 0)
	if err != nil {
		return 0, err
	}
	return int(r.Number()), r.Err()
}

// freedScript ends a claim whose label was removed (rule 9).
//
//	KEYS    -> see records
//	ARGV[1] -> binding
//	ARGV[2] -> generation
//
//	Returns {'OK', 1 if the binding was freed}
var freedScript = script.New("mark freed", []string{records}, `
local rec = get_binding(ARGV[1])
if not emptied(rec, tonumber(ARGV[2])) then return {'OK', 0} end
free_binding(ARGV[1], rec)
return {'OK', 1}
`)

// MarkFreed ends the claim of that generation after its label was removed (rule 9), and reports
// whether it did. It changes only a draining or dirtying binding without runtimes. Errors: ErrNotBuilt,
// or an *engine.Error of Redis.
func (s *Store) MarkFreed(ctx context.Context, pool, binding string, generation int64) (bool, error) {
	r, err := s.onBinding(ctx, freedScript, pool, binding, generation)
	if err != nil {
		return false, err
	}
	return r.Flag(), r.Err()
}

func (s *Store) onBinding(ctx context.Context, sc script.Script, pool, binding string, generation int64) (*script.Reply, error) {
	if err := checkNames(binding); err != nil {
		return nil, err
	}
	if err := checkNumbers(generation); err != nil {
		return nil, err
	}
	return s.run(ctx, sc, pool, s.poolKeys(pool), binding, generation)
}

// observeScript updates the record of a binding without runtimes from its label (rule 10).
//
//	KEYS    -> see records
//	ARGV[1] -> binding
//	ARGV[2] -> tenant of the label, '' is unclaimed
//	ARGV[3] -> 1: the label is dirty
//	ARGV[4] -> generation of the label
//	ARGV[5] -> generation of the record before the label was read from Kubernetes; 0: the label may be cached
//
//	Returns {'OK', change, record before, record now}: the change is adopted, dirtying, freed or '', and records
//	are packed, '' for a binding without one
var observeScript = script.New("observe", []string{records}, `
local name, tenant, dirty, generation, after = ARGV[1], ARGV[2], ARGV[3] == '1', tonumber(ARGV[4]), tonumber(ARGV[5])
local rec = get_binding(name)
local unclaimed = tenant == '' and not dirty

local function packed() return get(2, name) or '' end
local was = packed()
local function now(change) return {'OK', change, was, packed()} end

-- Records the claim that the label shows. If the label is not dirty, that is an
-- idle claim of the next generation: a worker writes the label of that generation
-- before it answers a request, and that write fences every other writer.
local function adopt()
  rec.state, rec.tenant, rec.generation = 'claimed', tenant, generation + 1
  rec.confirmed, rec.claimed, rec.pristine = false, 0, false
  if dirty then rec.state, rec.generation = 'dirtying', generation end
  put_binding(name, rec)
  return now('adopted')
end

local function loose()
  return rec.count == 0 and (rec.state == 'draining' or rec.state == 'dirtying'
    or rec.state == 'claimed' and not is_shared(rec))
end

local foreign = tenant ~= '' and tenant ~= rec.tenant
local function overtaken()
  return foreign or tenant ~= '' and not dirty and generation > rec.generation
end

if rec.state == 'free' then
  -- If no label accounts for the runtimes of the binding, no tenant adopts it.
  if unclaimed or rec.count > 0 then return now('') end
  return adopt()
end
if not loose() then return now('') end
-- The label is older than this claim: a cache lags, or the claim has not written its label yet.
if generation < rec.generation and (rec.confirmed or after ~= rec.generation) then return now('') end
if dirty and not foreign and (rec.state ~= 'dirtying' or generation < rec.generation) then
  rec.state, rec.generation, rec.pristine = 'dirtying', generation, false
  put_binding(name, rec)
  return now('dirtying')
end
if unclaimed then
  -- The label of a claim that drains is at or above the record's generation. An idle claim has written none.
  if rec.state ~= 'claimed' and generation < rec.generation then return now('') end
  free_binding(name, rec)
  return now('freed')
end
if overtaken() then return adopt() end
return now('')
`)

// Observe updates the record of a binding without runtimes from its label (rule 10). For a binding with
// runtimes nothing changes. A record becomes dirtying only if the label is dirty. Do not call it for a shared
// pool, which has no claims. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Observe(ctx context.Context, pool string, l account.Label) (account.Observation, error) {
	if err := checkNames(l.Binding, l.Tenant); err != nil {
		return account.Observation{}, err
	}
	if err := checkNumbers(l.Generation, l.After); err != nil {
		return account.Observation{}, err
	}
	r, err := s.run(ctx, observeScript, pool, s.poolKeys(pool), l.Binding, l.Tenant, script.Flag(l.Dirty), l.Generation, l.After)
	if err != nil {
		return account.Observation{}, err
	}
	return account.Observation{
		Change: account.Change(r.Text()), Before: recordOf(r, l.Binding), Record: recordOf(r, l.Binding),
	}, r.Err()
}

// recordOf decodes a packed record. The empty text is a free binding.
func recordOf(r *script.Reply, name string) account.Record {
	packed := r.Text()
	if packed == "" {
		return account.Record{State: account.Free}
	}
	rec, err := unpack(name, packed)
	r.Fail(err)
	return rec
}
