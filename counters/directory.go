package counters

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hap-worker/hap-worker/engine/account"
)

// The entries of a bucket are "pool|<name>" or "gone|<sequence>".
const (
	entryPool = "pool|"
	entryGone = "gone|"
)

// locateScript returns a runtime's place, setting it where there is none.
//
//	KEYS[1] -> meta of the bucket
//	KEYS[2] -> hash runtime -> entry
//	ARGV[1] -> runtime
//	ARGV[2] -> entry to set if there is none; '' sets a tombstone with the bucket's next sequence
//
//	Returns {'OK', entry}
var locateScript = newScript("locate", nil, `
local entry = get(2, ARGV[1])
if entry then return {'OK', entry} end
entry = ARGV[2]
if entry == '' then entry = 'gone|' .. num(next_sequence()) end
set(2, ARGV[1], entry)
return {'OK', entry}
`)

// Locate returns the runtime's place for a provision, which becomes pool where it
// had none. Gone: the provision is superseded under that sequence. ErrNotBuilt,
// else an *engine.Error of Redis.
func (s *Store) Locate(ctx context.Context, runtime, pool string) (account.Place, error) {
	return s.locate(ctx, runtime, entryPool+pool)
}

// Depart returns the runtime's place for a deprovision: the pool to release it
// in, or Gone where it never had any, now or before. Repeated, it returns the same
// sequence. ErrNotBuilt, else an *engine.Error of Redis.
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
	return r.place()
}

// forgetPlaceScript drops an entry.
//
//	KEYS[1] -> meta of the bucket
//	KEYS[2] -> hash runtime -> entry
//	ARGV[1] -> runtime
//	ARGV[2] -> the entry that it must be
//
//	Returns {'OK', 1 if it was dropped}
var forgetPlaceScript = newScript("forget place", nil, `
if get(2, ARGV[1]) ~= ARGV[2] then return {'OK', 0} end
set(2, ARGV[1], false)
return {'OK', 1}
`)

// ForgetPlace drops the runtime's entry if it still is p, and reports whether
// it did. ErrNotBuilt, else an *engine.Error of Redis.
func (s *Store) ForgetPlace(ctx context.Context, runtime string, p account.Place) (bool, error) {
	if err := checkNames(runtime); err != nil {
		return false, err
	}
	r, err := s.run(ctx, forgetPlaceScript, account.BucketOf(runtime), s.directoryKeys(runtime), runtime, packPlace(p))
	if err != nil {
		return false, err
	}
	return r.flag(), r.err
}

// placeScript reads an entry.
//
//	KEYS[1] -> meta of the bucket
//	KEYS[2] -> hash runtime -> entry
//	ARGV[1] -> runtime
//
//	Returns {'OK', entry or ''}
var placeScript = newScript("place", nil, `
return {'OK', get(2, ARGV[1]) or ''}
`)

// Place looks a runtime up without deciding anything; the zero Place for one
// that the directory does not know. ErrNotBuilt, else an *engine.Error of Redis.
func (s *Store) Place(ctx context.Context, runtime string) (account.Place, error) {
	r, err := s.run(ctx, placeScript, account.BucketOf(runtime), s.directoryKeys(runtime), runtime)
	if err != nil {
		return account.Place{}, err
	}
	return r.place()
}

func (r *reply) place() (account.Place, error) {
	entry := r.text()
	if r.err != nil || entry == "" {
		return account.Place{}, r.err
	}
	return unpackPlace(entry)
}

func packPlace(p account.Place) string {
	if p.Gone {
		return entryGone + strconv.FormatInt(p.Sequence, 10)
	}
	return entryPool + p.Pool
}

func unpackPlace(entry string) (account.Place, error) {
	if pool, ok := strings.CutPrefix(entry, entryPool); ok {
		return account.Place{Pool: pool}, nil
	}
	if sequence, ok := strings.CutPrefix(entry, entryGone); ok {
		n, err := strconv.ParseInt(sequence, 10, 64)
		return account.Place{Gone: true, Sequence: n}, err
	}
	return account.Place{}, fmt.Errorf("the directory's entry %q is unreadable", entry)
}
