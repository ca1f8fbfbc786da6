package counters

import (
	"context"
	"errors"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine/account"
)

// statusScript reads epoch, sequence and sizes of a pool or bucket.
//
//	KEYS -> those of the place
//
//	Returns {'OK', epoch, sequence, paused, runtimes, bindings, waiting}
var statusScript = script.New("status", nil, `
local out = {'OK', epoch, redis.call('HGET', KEYS[1], 'seq') or '0', paused and 1 or 0}
if #KEYS == 2 then out[5], out[6], out[7] = redis.call('HLEN', KEYS[2]), 0, 0
else out[5], out[6], out[7] = redis.call('HLEN', KEYS[3]), redis.call('HLEN', KEYS[2]), redis.call('ZCARD', KEYS[6]) end
return out
`)

// Status returns epoch, sequence, pause and sizes of a pool, or of a bucket by its name; the zero
// Status for a place that is not built. Error: an *engine.Error of Redis.
func (s *Store) Status(ctx context.Context, place string) (account.Status, error) {
	r, err := s.run(ctx, statusScript, place, s.keysOf(place))
	if errors.Is(err, account.ErrNotBuilt) {
		return account.Status{}, nil
	}
	if err != nil {
		return account.Status{}, err
	}
	return account.Status{
		Built: true, Epoch: r.Text(), Sequence: r.Number(), Paused: r.Flag(),
		Runtimes: int(r.Number()), Bindings: int(r.Number()), Waiting: int(r.Number()),
	}, r.Err()
}

// Built reports for each pool, or bucket by its name, whether it is built, in one round trip. It does
// not check whether epochs are in force. Error: an *engine.Error of Redis.
func (s *Store) Built(ctx context.Context, places ...string) (map[string]bool, error) {
	epochs, err := s.Epochs(ctx, places...)
	built := make(map[string]bool, len(places))
	for _, place := range places {
		built[place] = epochs[place] != ""
	}
	return built, err
}

// Epochs returns the epoch of each place that is built, in one round trip; the result has no entry for the
// others. places are pools, and buckets by their names. Epochs does not check whether the epochs are in force.
// Error: an *engine.Error of Redis.
func (s *Store) Epochs(ctx context.Context, places ...string) (account.Epochs, error) {
	keys := make(map[string][]string, len(places))
	for _, place := range places {
		keys[place] = s.keysOf(place)
	}
	return s.epochs(ctx, keys)
}

// epochs is Epochs for places that are given as a map from each name to the place's keys.
func (s *Store) epochs(ctx context.Context, keys map[string][]string) (account.Epochs, error) {
	calls := make([]script.Call, 0, len(keys))
	for place, of := range keys {
		calls = append(calls, script.Call{Place: place, Request: script.Request{Keys: of, Args: []any{1, "epoch"}}})
	}
	replies, err := s.script.AskAll(ctx, recordScript, calls)
	if err != nil {
		return nil, err
	}
	epochs := make(account.Epochs, len(calls))
	for i, call := range calls {
		if replies[i] == nil {
			continue
		}
		epochs[call.Place] = replies[i].Text()
		if err := replies[i].Err(); err != nil {
			return nil, err
		}
	}
	return epochs, nil
}

// pauseScript pauses or resumes a pool.
//
//	KEYS    -> see records
//	ARGV[1] -> 1: pause, 0: resume
//
//	Returns {'OK'}
var pauseScript = script.New("pause", nil, `
grow('HSET', KEYS[1], 'paused', ARGV[1])
return {'OK'}
`)

// Pause stops new assignments of the pool; its requests wait, or are refused if they must not wait. Existing
// assignments stay, and are repeated to requests that ask again. A rebuild keeps the pause unless Redis has
// lost the pool's meta. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Pause(ctx context.Context, pool string) error { return s.setPaused(ctx, pool, true) }

// Resume ends Pause. Errors: ErrNotBuilt, or an *engine.Error of Redis.
func (s *Store) Resume(ctx context.Context, pool string) error { return s.setPaused(ctx, pool, false) }

func (s *Store) setPaused(ctx context.Context, pool string, paused bool) error {
	_, err := s.run(ctx, pauseScript, pool, s.poolKeys(pool), script.Flag(paused))
	return err
}
