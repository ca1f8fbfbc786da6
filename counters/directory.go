package counters

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine/account"
)

// The entries of a bucket are "pool|<name>", "gone|<sequence>" or, for a runtime that came from
// another pool, "moved|<sequence>|<name>". The prefix "moved|" keeps an older version from taking such
// a runtime for one that never moved. "gone|0<sequence>" is tentative; an older version reads it as an entry
// that is not tentative, and does not drop it.
const (
	entryPool  = "pool|"
	entryGone  = "gone|"
	entryMoved = "moved|"
	tentative  = "0" // after entryGone
)

// locateScript returns a runtime's place, and sets it if there is none.
//
//	KEYS[1] -> meta of the bucket
//	KEYS[2] -> hash runtime -> entry
//	ARGV[1] -> runtime
//	ARGV[2] -> entry to set if there is none; '' sets a tombstone with the bucket's next sequence
//
//	Returns {'OK', entry}. A tentative entry is not tentative afterwards (rule 14)
var locateScript = script.New("locate", nil, `
local entry = get(2, ARGV[1])
if entry then
  local asked = string.match(entry, '^gone|0(.+)')
  if asked then
    entry = 'gone|' .. asked
    set(2, ARGV[1], entry)
  end
  return {'OK', entry}
end
entry = ARGV[2]
if entry == '' then entry = 'gone|' .. num(next_sequence()) end
set(2, ARGV[1], entry)
return {'OK', entry}
`)

// Locate returns the runtime's place for a provision, and sets it to pool if there is none. If the
// place is Gone, the provision is superseded under the place's sequence. Errors: ErrNotBuilt, or an
// *engine.Error of Redis.
func (s *Store) Locate(ctx context.Context, runtime, pool string) (account.Place, error) {
	return s.locate(ctx, runtime, entryPool+pool)
}

// Depart returns the runtime's place for a deprovision: the pool to release the runtime in, or Gone. A runtime
// without a place becomes Gone under the bucket's next sequence, and a repeat returns the same sequence.
// Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Depart(ctx context.Context, runtime string) (account.Place, error) {
	return s.locate(ctx, runtime, "")
}

func (s *Store) locate(ctx context.Context, runtime, entry string) (account.Place, error) {
	if err := checkNames(runtime); err != nil {
		return account.Place{}, err
	}
	r, err := s.run(ctx, locateScript, account.BucketOf(runtime), s.directoryKeys(runtime), runtime, entry)
	if err != nil {
		return account.Place{}, err
	}
	return placeOf(r)
}

// beginForgettingScript replaces an entry by a tentative one.
//
//	KEYS[1] -> meta of the bucket
//	KEYS[2] -> hash runtime -> entry
//	ARGV[1] -> runtime
//	ARGV[2] -> the entry that it must be, '' for none
//
//	Returns {'OK', the tentative entry, '' if none was replaced}
var beginForgettingScript = script.New("begin forgetting", nil, `
if (get(2, ARGV[1]) or '') ~= ARGV[2] then return {'OK', ''} end
local entry = 'gone|0' .. num(next_sequence())
set(2, ARGV[1], entry)
return {'OK', entry}
`)

// BeginForgetting replaces the runtime's entry by a tentative one with the bucket's next sequence, if the entry still is
// was; the zero Place stands for no entry. It returns the tentative entry, or the zero Place if it has replaced none. A
// request that calls Locate or Depart from then on finds the runtime gone, and the entry is not tentative any more.
// Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) BeginForgetting(ctx context.Context, runtime string, was account.Place) (account.Place, error) {
	if err := checkNames(runtime); err != nil {
		return account.Place{}, err
	}
	entry := ""
	if was != (account.Place{}) {
		entry = packPlace(was)
	}
	r, err := s.run(ctx, beginForgettingScript, account.BucketOf(runtime), s.directoryKeys(runtime), runtime, entry)
	if err != nil {
		return account.Place{}, err
	}
	return placeOf(r)
}

// forgetPlaceScript drops an entry.
//
//	KEYS[1] -> meta of the bucket
//	KEYS[2] -> hash runtime -> entry
//	ARGV[1] -> runtime
//	ARGV[2] -> the entry that it must be
//
//	Returns {'OK', 1 if it was dropped}
var forgetPlaceScript = script.New("forget place", nil, `
if get(2, ARGV[1]) ~= ARGV[2] then return {'OK', 0} end
set(2, ARGV[1], false)
return {'OK', 1}
`)

// ForgetPlace drops the runtime's entry if it still is p, and reports whether it did. Errors:
// ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) ForgetPlace(ctx context.Context, runtime string, p account.Place) (bool, error) {
	if err := checkNames(runtime); err != nil {
		return false, err
	}
	r, err := s.run(ctx, forgetPlaceScript, account.BucketOf(runtime), s.directoryKeys(runtime), runtime, packPlace(p))
	if err != nil {
		return false, err
	}
	return r.Flag(), r.Err()
}

// movePlaceScript replaces an entry.
//
//	KEYS[1] -> meta of the bucket
//	KEYS[2] -> hash runtime -> entry
//	ARGV[1] -> runtime
//	ARGV[2] -> the entry that it must be
//	ARGV[3] -> the new entry
//
//	Returns {'OK', 1 if it was replaced}
var movePlaceScript = script.New("move place", nil, `
if get(2, ARGV[1]) ~= ARGV[2] then return {'OK', 0} end
set(2, ARGV[1], ARGV[3])
return {'OK', 1}
`)

// MovePlace replaces the runtime's place with the new one (to) if the directory still has the old one
// (from), and reports whether it did (rule 16). Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) MovePlace(ctx context.Context, runtime string, from, to account.Place) (bool, error) {
	if err := checkNames(runtime); err != nil {
		return false, err
	}
	r, err := s.run(ctx, movePlaceScript, account.BucketOf(runtime), s.directoryKeys(runtime), runtime, packPlace(from), packPlace(to))
	if err != nil {
		return false, err
	}
	return r.Flag(), r.Err()
}

// leaveScript removes a runtime without an account from a pool (rule 16).
//
//	KEYS    -> see records
//	ARGV[1] -> runtime
//	ARGV[2] -> request whose rule names another pool
//	ARGV[3] -> its tenant
//	ARGV[4] -> number of the runtime's place in the directory (account.Place.Sequence)
//
//	Returns {'OK', 1, the number under which the runtime has left}, now or before, or {'OK', 0, 0} if it stays
var leaveScript = script.New("leave", []string{records}, `
local id, request, tenant = ARGV[1], ARGV[2], ARGV[3]
local rt, left = arrived(id, tonumber(ARGV[4]))
if left then return {'OK', 1, num(rt.sequence)} end
local waited = rt.state == 'waiting'
if rt.state == 'assigned' or rt.state == 'gone' or rt.state == 'refused' and rt.request == request or
  waited and (rt.request ~= request or rt.tenant ~= '' and rt.tenant ~= tenant) then return {'OK', 0, 0} end
rt = unknown_runtime()
rt.state, rt.sequence = 'moved', next_sequence()
put_runtime(id, rt, waited)
return {'OK', 1, num(rt.sequence)}
`)

// Leave removes a runtime without an account from the pool of its place, for a request whose rule
// names another pool (rule 16). left reports whether the runtime has left, and sequence is the number
// under which it has, 0 if it stays. It stays if it has an account or is gone, if it waits by another
// request or for another tenant, or if this very request was refused. A repeat returns the same. Errors:
// ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Leave(ctx context.Context, place account.Place, runtime, request, tenant string) (sequence int64, left bool, err error) {
	if err := checkNames(runtime, request, tenant); err != nil {
		return 0, false, err
	}
	r, err := s.run(ctx, leaveScript, place.Pool, s.poolKeys(place.Pool), runtime, request, tenant, place.Sequence)
	if err != nil {
		return 0, false, err
	}
	left, sequence = r.Flag(), r.Number()
	return sequence, left, r.Err()
}

// placeScript reads an entry.
//
//	KEYS[1] -> meta of the bucket
//	KEYS[2] -> hash runtime -> entry
//	ARGV[1] -> runtime
//
//	Returns {'OK', entry or ''}
var placeScript = script.New("place", nil, `
return {'OK', get(2, ARGV[1]) or ''}
`)

// Place returns the runtime's place, the zero Place if the directory has none, and changes nothing.
// Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Place(ctx context.Context, runtime string) (account.Place, error) {
	r, err := s.run(ctx, placeScript, account.BucketOf(runtime), s.directoryKeys(runtime), runtime)
	if err != nil {
		return account.Place{}, err
	}
	return placeOf(r)
}

func placeOf(r *script.Reply) (account.Place, error) {
	entry := r.Text()
	if r.Err() != nil || entry == "" {
		return account.Place{}, r.Err()
	}
	return unpackPlace(entry)
}

func packPlace(p account.Place) string {
	switch {
	case p.Tentative:
		return entryGone + tentative + strconv.FormatInt(p.Sequence, 10)
	case p.Gone:
		return entryGone + strconv.FormatInt(p.Sequence, 10)
	case p.Sequence > 0:
		return entryMoved + strconv.FormatInt(p.Sequence, 10) + "|" + p.Pool
	default:
		return entryPool + p.Pool
	}
}

func unpackPlace(entry string) (account.Place, error) {
	if pool, ok := strings.CutPrefix(entry, entryPool); ok {
		return account.Place{Pool: pool}, nil
	}
	if sequence, ok := strings.CutPrefix(entry, entryGone); ok {
		n, err := strconv.ParseInt(sequence, 10, 64)
		return account.Place{Gone: true, Sequence: n, Tentative: len(sequence) > 1 && strings.HasPrefix(sequence, tentative)}, err
	}
	if moved, ok := strings.CutPrefix(entry, entryMoved); ok {
		sequence, pool, _ := strings.Cut(moved, "|")
		n, err := strconv.ParseInt(sequence, 10, 64)
		return account.Place{Pool: pool, Sequence: n}, err
	}
	return account.Place{}, fmt.Errorf("the directory's entry %q is unreadable", entry)
}
