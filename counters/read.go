package counters

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// page is the number of entries that one HSCAN or SCAN asks for.
const page = 500

// Pools returns the sorted names of all pools that have a meta key in Redis, built or not. It scans all keys:
// do not call it for each event. Error: an *engine.Error of Redis.
func (s *Store) Pools(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	pools := map[string]bool{}
	scan := func(ctx context.Context, client redis.Cmdable) error {
		keys := client.Scan(ctx, 0, escapeGlob(s.prefix)+":{*}:meta", page).Iterator()
		for keys.Next(ctx) {
			mu.Lock()
			if name, ok := s.poolOf(keys.Val()); ok {
				pools[name] = true
			}
			mu.Unlock()
		}
		return keys.Err()
	}
	err := s.eachMaster(ctx, scan)
	if err != nil {
		return nil, readError("pools", err)
	}
	names := make([]string, 0, len(pools))
	for name := range pools {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func (s *Store) eachMaster(ctx context.Context, scan func(context.Context, redis.Cmdable) error) error {
	if cluster, ok := s.client().(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
			return scan(ctx, master)
		})
	}
	return scan(ctx, s.client())
}

// poolOf returns the name of the pool whose meta key this is, and false for any other key, such as a bucket's.
func (s *Store) poolOf(metaKey string) (string, bool) {
	token, ok := strings.CutPrefix(metaKey, s.prefix+":{")
	if !ok {
		return "", false
	}
	token, ok = strings.CutSuffix(token, "}:meta")
	if !ok || isBucket(token) {
		return "", false
	}
	name, err := engine.FromToken(token)
	return name, err == nil
}

func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(s)
}

// Bindings returns the records of a pool in no particular order. A record may come twice. An error ends the
// sequence: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Bindings(ctx context.Context, pool string) iter.Seq2[account.NamedRecord, error] {
	return scanHash(ctx, s, pool, s.poolKeys(pool)[1], func(name, packed string) (account.NamedRecord, error) {
		rec, err := unpack(name, packed)
		return account.NamedRecord{Binding: name, Record: rec}, err
	})
}

// Runtimes returns the runtimes of a pool in no particular order. A runtime may come twice. An error ends the
// sequence: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Runtimes(ctx context.Context, pool string) iter.Seq2[account.NamedRuntime, error] {
	return scanHash(ctx, s, pool, s.poolKeys(pool)[2], func(id, packed string) (account.NamedRuntime, error) {
		rt, err := unpackRuntime(id, packed)
		return account.NamedRuntime{ID: id, Runtime: rt}, err
	})
}

// lookedAt is the number of records that one call of onScript or queueScript reads: about a millisecond of the server.
const lookedAt = 1000

// onScript reads one page of a pool's runtimes, and returns only the runtimes whose records contain a
// text.
//
//	KEYS    -> see records
//	ARGV[1] -> cursor of HSCAN
//	ARGV[2] -> number of records to read
//	ARGV[3] -> text
//
//	Returns {'OK', next cursor} and two values for each such runtime: its id, its packed record
var onScript = script.New("runtimes on a binding", nil, `
local page = redis.call('HSCAN', KEYS[3], ARGV[1], 'COUNT', ARGV[2])
local found, entries = {'OK', page[1]}, page[2]
for i = 2, #entries, 2 do
  if string.find(entries[i], ARGV[3], 1, true) then
    found[#found + 1], found[#found + 2] = entries[i - 1], entries[i]
  end
end
return found
`)

// RuntimesOn returns the runtimes of a pool whose records name the binding: the runtimes on it, and
// those that left it and are gone. Order, repetitions and errors are as for Runtimes.
func (s *Store) RuntimesOn(ctx context.Context, pool, binding string) iter.Seq2[account.NamedRuntime, error] {
	return func(yield func(account.NamedRuntime, error) bool) {
		for cursor, begun := "0", false; !begun || cursor != "0"; begun = true {
			r, err := s.run(ctx, onScript, pool, s.poolKeys(pool), cursor, lookedAt, "|"+binding+"|")
			if err != nil {
				yield(account.NamedRuntime{}, err)
				return
			}
			for cursor = r.Text(); r.More(); {
				id := r.Text()
				rt, err := unpackRuntime(id, r.Text())
				if err == nil && rt.Binding != binding {
					continue // another field has the text
				}
				if !yield(account.NamedRuntime{ID: id, Runtime: rt}, err) || err != nil {
					return
				}
			}
		}
	}
}

// Places returns the entries of the bucket with this name, in no particular order. An entry may come twice. An
// error ends the sequence: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Places(ctx context.Context, bucket string) iter.Seq2[account.NamedPlace, error] {
	return scanHash(ctx, s, bucket, s.bucketKeys(bucket)[1], func(id, entry string) (account.NamedPlace, error) {
		place, err := unpackPlace(entry)
		return account.NamedPlace{Runtime: id, Place: place}, err
	})
}

// scanHash checks that the place is built, and reads one of its hashes page by page.
func scanHash[T any](ctx context.Context, s *Store, place, key string, parse func(field, value string) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := s.checkBuilt(ctx, place); err != nil {
			yield(none, err)
			return
		}
		var cursor uint64
		for {
			fields, next, err := s.client().HScan(ctx, key, cursor, "", page).Result()
			if err != nil {
				yield(none, readError(place, err))
				return
			}
			for i := 0; i+1 < len(fields); i += 2 {
				entry, err := parse(fields[i], fields[i+1])
				if !yield(entry, err) || err != nil {
					return
				}
			}
			if cursor = next; cursor == 0 {
				return
			}
		}
	}
}

// recordScript reads one field of one hash, such as a packed record.
//
//	KEYS    -> those of the place
//	ARGV[1] -> number of the hash among KEYS
//	ARGV[2] -> field
//
//	Returns {'OK', value or ''}
var recordScript = script.New("record", nil, `
return {'OK', redis.call('HGET', KEYS[tonumber(ARGV[1])], ARGV[2]) or ''}
`)

func (s *Store) checkBuilt(ctx context.Context, place string) error {
	_, err := s.run(ctx, recordScript, place, s.keysOf(place), 1, "epoch")
	return err
}

// Binding returns the record of a binding; a binding without a record is free. Errors: ErrNotBuilt, or
// an *engine.Error of Redis.
func (s *Store) Binding(ctx context.Context, pool, binding string) (account.Record, error) {
	r, err := s.run(ctx, recordScript, pool, s.poolKeys(pool), 2, binding)
	if err != nil {
		return account.Record{}, err
	}
	rec := recordOf(r, binding)
	return rec, r.Err()
}

// Runtime returns the runtime's place in the directory and its record in that pool; both are zero for
// an unknown runtime. If the place is Gone, the record is zero. Errors: ErrNotBuilt, or an
// *engine.Error of Redis.
func (s *Store) Runtime(ctx context.Context, id string) (account.Place, account.Runtime, error) {
	place, err := s.Place(ctx, id)
	if err != nil || place.Pool == "" {
		return place, account.Runtime{}, err
	}
	rt, err := s.RuntimeIn(ctx, place.Pool, id)
	return place, rt, err
}

// RuntimeIn returns the runtime's record in a pool, the zero Runtime if there is none. Errors:
// ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) RuntimeIn(ctx context.Context, pool, id string) (account.Runtime, error) {
	r, err := s.run(ctx, recordScript, pool, s.poolKeys(pool), 3, id)
	if err != nil {
		return account.Runtime{}, err
	}
	packed := r.Text()
	if r.Err() != nil || packed == "" {
		return account.Runtime{}, r.Err()
	}
	return unpackRuntime(id, packed)
}

func readError(what string, err error) error {
	return &engine.Error{
		Code: engine.CodeInternal, Op: "reading " + what + " from Redis", Err: err,
		Hint: "check that Redis is reachable",
	}
}
