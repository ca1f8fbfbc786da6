package counters

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// stagedFor is how long staged records live if they are never installed.
const stagedFor = time.Hour

// chunk bounds the entries that one script stages, so that none blocks Redis for long.
const chunk = 500

// chunksAtOnce bounds the chunks of one round trip: about one megabyte.
const chunksAtOnce = 16

// site reads the meta of a pool or bucket, or the head of a site, for the scripts of a rebuild. `built`
// is true if the epoch was installed on this run and this replication history of the server, and is trusted
// (rules 1 and 15). `here` is true if the token was written on that run and history: a server that started
// again, or a replica that was promoted, may have the token of a rebuild whose install it has lost (rule 13e).
//
//	KEYS[1] -> meta
const site = script.ServerID + `
local head = redis.call('HMGET', KEYS[1], 'epoch', 'server', 'token', 'since', 'tokenServer', 'history', 'tokenHistory')
local built = head[1] and head[2] == server and (not head[6] or head[6] == history) and trusted(head[1])
local here = head[5] == server and (not head[7] or head[7] == history)
`

// beginScript claims a rebuild (rule 13a).
//
//	KEYS[1] -> meta
//	ARGV[1] -> token
//	ARGV[2] -> now, in milliseconds
//	ARGV[3] -> lease, in milliseconds; a negative one only renews the token's rebuild
//
//	Returns {'OK', 1} if the rebuild is the token's; {'OK', 0} if the place is built, if another token's
//	lease has not ended, if this token was written on another run or history of the server, or if a renewal finds
//	another token or none. A token that was written on another run or history has no lease
var beginScript = script.NewOutside("begin rebuild", site+`
local token, now, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if built then return {'OK', 0} end
if head[3] ~= token then
  if lease < 0 then return {'OK', 0} end
  if head[3] and here and math.abs(now - tonumber(head[4])) < lease then return {'OK', 0} end
elseif not here then return {'OK', 0}
end
redis.call('HDEL', KEYS[1], 'epoch', 'server', 'history')
redis.call('HSET', KEYS[1], 'token', token, 'since', ARGV[2], 'tokenServer', server, 'tokenHistory', history)
return {'OK', 1}
`)

// BeginRebuild claims the rebuild of a pool, or of a bucket by its name (account.BucketOf), under a
// token that was never used before (rule 13a). mine is false if the place is built, or if another
// token began or renewed a rebuild less than lease ago on this run of the server. Error: an
// *engine.Error of Redis.
func (s *Store) BeginRebuild(ctx context.Context, place, token string, now time.Time, lease time.Duration) (mine bool, err error) {
	return s.claimRebuild(ctx, place, s.metaKey(place), token, now, max(0, lease.Milliseconds()))
}

// RenewRebuild begins the lease of the token's rebuild anew, and reports whether the rebuild is still the
// token's. If it is not, nothing changes and the caller must stop. Error: an *engine.Error of Redis.
func (s *Store) RenewRebuild(ctx context.Context, place, token string, now time.Time) (mine bool, err error) {
	return s.claimRebuild(ctx, place, s.metaKey(place), token, now, -1)
}

func (s *Store) claimRebuild(ctx context.Context, place, meta, token string, now time.Time, lease int64) (bool, error) {
	if err := checkToken(token); err != nil {
		return false, err
	}
	r, err := s.run(ctx, beginScript, place, []string{meta}, token, now.UnixMilli(), lease)
	if err != nil {
		return false, err
	}
	return r.Flag(), r.Err()
}

// timeScript returns the server's time.
//
//	KEYS[1] -> any key: the server that has it is asked
//
//	Returns {'OK', microseconds since 1970}
var timeScript = script.NewOutside("time", site+`
local now = tonumber(told(info('server'), 'server_time_usec:'))
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
return {'OK', string.format('%.0f', now)}
`)

// Time returns the time of the server's clock. In a Redis Cluster this is, for all callers, the node that has the
// directory's first bucket. Leases of rebuilds are measured with this clock. Error: an *engine.Error of Redis.
func (s *Store) Time(ctx context.Context) (time.Time, error) {
	place := account.BucketName(0)
	r, err := s.run(ctx, timeScript, place, []string{s.metaKey(place)})
	if err != nil {
		return time.Time{}, err
	}
	now, err := strconv.ParseInt(r.Text(), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the time of Redis: %w", err)
	}
	return time.UnixMicro(now), r.Err()
}

// checkToken refuses a token that cannot be part of a key. The token becomes the place's next epoch.
func checkToken(token string) error {
	if token == "" || engine.Token(token) != token {
		return &engine.Error{Code: engine.CodeInternal, Err: fmt.Errorf("rebuild token %q is not of [A-Za-z0-9_-]", token)}
	}
	return nil
}

// stageScript adds entries to a key from which the rebuild's install takes them.
//
//	KEYS[1] -> meta
//	KEYS[2] -> key to add to
//	ARGV[1] -> token
//	ARGV[2] -> HSET or ZADD
//	ARGV[3] -> milliseconds that the key lives
//	then the arguments of the command
//
//	Returns {'OK', 1 if the rebuild is still the token's}
var stageScript = script.NewOutside("stage", site+`
if built or not here or head[3] ~= ARGV[1] then return {'OK', 0} end
redis.call(ARGV[2], KEYS[2], unpack(ARGV, 4))
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {'OK', 1}
`)

// installScript replaces the records by the staged ones (rule 13e), only if the place is not built, and
// the token is still this one and was written on this run of the server. The token becomes the epoch.
//
//	KEYS[1] -> meta
//	KEYS[2..1+n] -> keys of the records
//	KEYS[2+n..1+2n] -> staged keys, in the same order
//	KEYS[2+2n..] -> keys that start empty
//	ARGV[1] -> token
//	ARGV[2] -> sequence
//	ARGV[3] -> n
//	ARGV[4..3+n] -> number of entries that each staged key must have
//
//	Returns {'OK', 1} if the place is built under this token, {'OK', 0} if it is
//	not the token's, {'OK', 2} if what was staged is no longer complete
var installScript = script.NewOutside("install", site+`
local token, n = ARGV[1], tonumber(ARGV[3])
if built then return {'OK', head[1] == token and 1 or 0} end
if head[3] ~= token or not here then return {'OK', 0} end
local function entries(key)
  local kind = redis.call('TYPE', key)['ok']
  if kind == 'hash' then return redis.call('HLEN', key) end
  if kind == 'zset' then return redis.call('ZCARD', key) end
  return 0
end
for i = 1, n do
  if entries(KEYS[1 + n + i]) ~= tonumber(ARGV[3 + i]) then return {'OK', 2} end
end
local keys = 0
for i = 1, n do
  redis.call('UNLINK', KEYS[1 + i])
  if tonumber(ARGV[3 + i]) > 0 then
    keys = keys + 1
    redis.call('RENAME', KEYS[1 + n + i], KEYS[1 + i])
    redis.call('PERSIST', KEYS[1 + i])
  end
end
for i = 2 + 2 * n, #KEYS do redis.call('UNLINK', KEYS[i]) end
redis.call('HDEL', KEYS[1], 'token', 'since', 'tokenServer', 'tokenHistory')
redis.call('HSET', KEYS[1], 'epoch', token, 'server', server, 'history', history, 'seq', ARGV[2], 'keys', string.format('%d', keys))
return {'OK', 1}
`)

// Part is the new content of one record: a hash, or a sorted set. Its entries are made when they are sent, so that not
// all are in memory twice.
type Part struct {
	command string
	entries iter.Seq2[Entry, error]
}

// Entry is a field of a hash and its value, or a score of a sorted set and its member.
type Entry [2]any

// NewHash returns the Part of a hash. encode makes a field and its value of each pair.
func NewHash[K, V any](from iter.Seq2[K, V], encode func(K, V) (Entry, error)) Part {
	return Part{"HSET", encoded(from, encode)}
}

// NewSortedSet returns the Part of a sorted set. encode makes a score and its member of each pair.
func NewSortedSet[K, V any](from iter.Seq2[K, V], encode func(K, V) (Entry, error)) Part {
	return Part{"ZADD", encoded(from, encode)}
}

func encoded[K, V any](from iter.Seq2[K, V], encode func(K, V) (Entry, error)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for key, value := range from {
			if !yield(encode(key, value)) {
				return
			}
		}
	}
}

// where returns the entries of a map whose values are to be kept.
func where[V any](from map[string]V, keep func(V) bool) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for key, value := range from {
			if keep(value) && !yield(key, value) {
				return
			}
		}
	}
}

// Install replaces the pool's records by the snapshot (rule 13e), and reports whether the pool is built under
// this token. It returns false if another rebuild has built the pool, or if the rebuild is no longer the token's. A
// repeat after success returns true. Error: an *engine.Error of Redis; another error if staged records are gone,
// after which the rebuild must begin again.
func (s *Store) Install(ctx context.Context, pool, token string, snapshot account.Snapshot) (bool, error) {
	k := s.poolKeys(pool)
	to := target{pool, k[0], []string{k[1], k[2], k[3], k[5]}, s.stagingKeys(pool, token), []string{k[4], k[6]}}
	return s.install(ctx, to, token, snapshot.Sequence, stagePool(snapshot))
}

// stagePool returns bindings, runtimes, the tenants' bindings and the waiting runtimes, to be staged in this order. A
// rebuild leaves no binding in claiming, so the list of runtimes on such bindings stays empty.
func stagePool(snapshot account.Snapshot) []Part {
	waiting := map[string]int64{} // complete when the runtimes are staged
	recorded := where(snapshot.Bindings, func(rec account.Record) bool { return rec.State != account.Free || rec.Count > 0 })
	owned := where(snapshot.Bindings, func(rec account.Record) bool { return rec.State != account.Free && rec.Tenant != "" })
	return []Part{
		NewHash(recorded, func(name string, rec account.Record) (Entry, error) {
			return Entry{name, pack(rec)}, errors.Join(checkNames(name, rec.Tenant), checkNumbers(rec.Generation, rec.Claimed))
		}),
		NewHash(snapshot.EachRuntime(), func(id string, rt account.Runtime) (Entry, error) {
			if rt.State == account.RuntimeWaiting {
				waiting[id] = rt.Sequence
			}
			return Entry{id, packRuntime(rt)}, checkNames(id, rt.Binding, rt.Request, rt.Tenant)
		}),
		NewSortedSet(owned, func(name string, rec account.Record) (Entry, error) { return Entry{0, rec.Tenant + " " + name}, nil }),
		NewSortedSet(maps.All(waiting), func(id string, sequence int64) (Entry, error) { return Entry{sequence, id}, nil }),
	}
}

// InstallBucket is Install for a bucket of the directory, by its name.
func (s *Store) InstallBucket(ctx context.Context, bucket, token string, d account.Directory) (bool, error) {
	places := NewHash(maps.All(d.Places), func(id string, place account.Place) (Entry, error) {
		return Entry{id, packPlace(place)}, checkNames(id)
	})
	k := s.bucketKeys(bucket)
	return s.install(ctx, target{bucket, k[0], k[1:], s.stagingKeys(bucket, token), nil}, token, d.Sequence, []Part{places})
}

// target has the keys of an install: the meta of the place, the live keys of its records, the staged keys that
// replace them in the same order, and live keys that the install empties.
type target struct {
	place, meta          string
	live, staging, empty []string
}

func (s *Store) install(ctx context.Context, to target, token string, sequence int64, parts []Part) (bool, error) {
	if err := checkToken(token); err != nil {
		return false, err
	}
	if err := checkNumbers(sequence); err != nil {
		return false, err
	}
	// An earlier attempt under this token may have staged parts of an older snapshot.
	if err := s.client().Unlink(ctx, to.staging...).Err(); err != nil {
		return false, &engine.Error{Code: engine.CodeInternal, Op: "install in Redis, " + to.place, Err: err}
	}
	args := []any{token, sequence, len(parts)}
	for i, part := range parts {
		entries, err := s.stage(ctx, to, token, to.staging[i], part)
		if err != nil {
			return false, err
		}
		args = append(args, entries)
	}
	r, err := s.run(ctx, installScript, to.place, slices.Concat([]string{to.meta}, to.live, to.staging, to.empty), args...)
	if err != nil {
		return false, err
	}
	outcome := r.Number()
	if outcome == 2 {
		return false, fmt.Errorf("install of %s: what was staged is no longer there, begin the rebuild again", to.place)
	}
	return outcome == 1, r.Err()
}

// stage adds one part to its key in chunks, several to a round trip, and returns the number of its entries. If the place
// is built or another token has the rebuild by now, stage stops without an error; installScript then finds the same.
func (s *Store) stage(ctx context.Context, to target, token, key string, part Part) (entries int, err error) {
	keys, ttl := []string{to.meta, key}, strconv.FormatInt(stagedFor.Milliseconds(), 10)
	var calls []script.Call
	send := func() (ours bool, err error) {
		replies, err := s.script.AskAll(ctx, stageScript, calls)
		for _, r := range replies {
			if !r.Flag() {
				return false, r.Err()
			}
		}
		calls = calls[:0]
		return err == nil, err
	}
	args := []any{token, part.command, ttl}
	for e, err := range part.entries {
		if err != nil {
			return entries, err
		}
		args = append(args, e[0], e[1])
		if entries++; entries%chunk > 0 {
			continue
		}
		calls, args = append(calls, script.Call{Place: to.place, Request: script.Request{Keys: keys, Args: args}}), append(make([]any, 0, 3+2*chunk), args[:3]...)
		if len(calls) == chunksAtOnce {
			if ours, err := send(); !ours {
				return entries, err
			}
		}
	}
	if len(args) > 3 {
		calls = append(calls, script.Call{Place: to.place, Request: script.Request{Keys: keys, Args: args}})
	}
	if len(calls) > 0 {
		_, err = send()
	}
	return entries, err
}
