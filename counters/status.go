package counters

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/engine/account"
)

// statusScript reads what is remembered of a pool or bucket as a whole.
//
//	KEYS[1] -> meta
//	KEYS[2] -> hash of the runtimes
//	KEYS[3] -> hash of the bindings, for a pool
//	KEYS[4] -> sorted set of those that wait, for a pool
//
//	Returns {'OK', epoch, sequence, paused, runtimes, bindings, waiting}
var statusScript = newScript("status", nil, `
local out = {'OK', epoch, redis.call('HGET', KEYS[1], 'seq') or '0', paused and 1 or 0, redis.call('HLEN', KEYS[2]), 0, 0}
if KEYS[3] then out[6], out[7] = redis.call('HLEN', KEYS[3]), redis.call('ZCARD', KEYS[4]) end
return out
`)

// Status returns what is remembered of a pool, or of a bucket by its name, as a
// whole. One that is not built has the zero Status. An *engine.Error of Redis.
func (s *Store) Status(ctx context.Context, place string) (account.Status, error) {
	var keys []string
	if isBucket(place) {
		keys = s.bucketKeys(place)
	} else {
		k := s.poolKeys(place)
		keys = []string{k[0], k[2], k[1], k[5]}
	}
	r, err := s.run(ctx, statusScript, place, keys)
	if errors.Is(err, account.ErrNotBuilt) {
		return account.Status{}, nil
	}
	if err != nil {
		return account.Status{}, err
	}
	return account.Status{
		Built: true, Epoch: r.text(), Sequence: r.number(), Paused: r.flag(),
		Runtimes: int(r.number()), Bindings: int(r.number()), Waiting: int(r.number()),
	}, r.err
}

// Built says of each pool, or bucket by its name, whether it is built, in one
// round trip. An *engine.Error of Redis.
func (s *Store) Built(ctx context.Context, places ...string) (map[string]bool, error) {
	epochs, err := s.Epochs(ctx, places...)
	built := make(map[string]bool, len(places))
	for _, place := range places {
		built[place] = epochs[place] != ""
	}
	return built, err
}

// Epochs returns the epochs of pools, and of buckets by their names, that are built, in one
// round trip. Whether they are in force is not asked. An *engine.Error of Redis.
func (s *Store) Epochs(ctx context.Context, places ...string) (account.Epochs, error) {
	metas := make([]string, len(places))
	for i, place := range places {
		metas[i] = s.metaKey(place)
	}
	return s.epochs(ctx, places, metas)
}

func (s *Store) epochs(ctx context.Context, places, metas []string) (account.Epochs, error) {
	calls := make([]call, len(places))
	for i, meta := range metas {
		calls[i] = call{places[i], request{keys: []string{meta, meta}, args: []any{"epoch"}}}
	}
	replies, err := s.runAll(ctx, recordScript, calls)
	if err != nil {
		return nil, err
	}
	epochs := make(account.Epochs, len(places))
	for i, place := range places {
		if replies[i] != nil {
			epochs[place] = replies[i].text()
		}
	}
	return epochs, nil
}

// Replicated reports whether a server has a replica, had one, or was one: then another one may be
// the master beside it (rule 15). An *engine.Error of Redis.
func (s *Store) Replicated(ctx context.Context) (bool, error) {
	var replicated atomic.Bool
	err := s.eachMaster(ctx, func(ctx context.Context, c redis.Cmdable) error {
		text, err := c.Info(ctx, "replication").Result()
		if e := redis.Error(nil); errors.As(err, &e) {
			return nil // a server that tells nothing of it
		}
		info := map[string]string{}
		connection.ReadInfo(text, info)
		if info["connected_slaves"] > "0" || info["repl_backlog_active"] == "1" || strings.Trim(info["master_replid2"], "0") != "" {
			replicated.Store(true)
		}
		return err
	})
	if err != nil {
		return false, readError("the replication", err)
	}
	return replicated.Load(), nil
}

// pauseScript pauses or resumes a pool.
//
//	KEYS[1] -> meta
//	ARGV[1] -> 1: paused
//
//	Returns {'OK'}
var pauseScript = newScript("pause", nil, `
redis.call('HSET', KEYS[1], 'paused', ARGV[1])
return {'OK'}
`)

// Pause keeps the pool from new assignments: its requests wait. What was
// assigned stays, and is repeated to who asks again. A rebuild keeps it while
// Redis has not lost the pool's meta. ErrNotBuilt, else an *engine.Error of Redis.
func (s *Store) Pause(ctx context.Context, pool string) error { return s.setPaused(ctx, pool, true) }

// Resume ends Pause. ErrNotBuilt, else an *engine.Error of Redis.
func (s *Store) Resume(ctx context.Context, pool string) error { return s.setPaused(ctx, pool, false) }

func (s *Store) setPaused(ctx context.Context, pool string, paused bool) error {
	_, err := s.run(ctx, pauseScript, pool, []string{s.metaKey(pool)}, flag(paused))
	return err
}
