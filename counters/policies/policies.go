// Package policies keeps in Redis which policy each worker uses, for hapctl.
package policies

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine/policy"
)

// forgotten is how long the record of a worker is kept after its last Tell.
const forgotten = 2 * time.Minute

// tellScript writes the record of a worker, and deletes the records that were last written too long ago.
//
//	KEYS[1] -> hash worker -> digest|since|seen, times in ms
//	ARGV    -> worker, record, oldest seen that is kept (ms), time to live (ms)
var tellScript = redis.NewScript(`
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
local cursor = '0'
repeat
  local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', 1000)
  cursor = page[1]
  for i = 1, #page[2], 2 do
    local seen = tonumber(string.match(page[2][i + 1], '|(%d+)$') or 0)
    if seen < tonumber(ARGV[3]) then redis.call('HDEL', KEYS[1], page[2][i]) end
  end
until cursor == '0'
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {}
`)

// readScript reads all records.
//
//	KEYS[1] -> as above
//
//	Returns {worker, record, ...}
var readScript = redis.NewScript(`
local all, cursor = {}, '0'
repeat
  local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', 1000)
  cursor = page[1]
  for i = 1, #page[2] do all[#all + 1] = page[2][i] end
until cursor == '0'
return all
`)

// forgetScript deletes the record of a worker.
//
//	KEYS[1] -> as above
//	ARGV    -> worker
var forgetScript = redis.NewScript(`redis.call('HDEL', KEYS[1], ARGV[1]) return {}`)

// Tell records the policy of a worker, and returns what it records: it sets p.Seen, and p.Since if that is zero, by
// the clock of Redis, since the clocks of workers may differ. It also deletes the records of workers whose last
// Tell was more than two minutes ago. Error: an *engine.Error of Redis.
func Tell(ctx context.Context, s *counters.Store, p policy.InForce) (policy.InForce, error) {
	now, err := s.Time(ctx)
	if err != nil {
		return p, err
	}
	p.Seen = now
	if p.Since.IsZero() {
		p.Since = now
	}
	record := strings.Join([]string{p.Digest, strconv.FormatInt(p.Since.UnixMilli(), 10), strconv.FormatInt(p.Seen.UnixMilli(), 10)}, "|")
	_, err = run(ctx, s, tellScript, p.Worker, record, now.Add(-forgotten).UnixMilli(), forgotten.Milliseconds())
	return p, err
}

// Forget deletes the record of a worker that stops. Error: an *engine.Error of Redis.
func Forget(ctx context.Context, s *counters.Store, worker string) error {
	_, err := run(ctx, s, forgetScript, worker)
	return err
}

// All returns the policies that workers have recorded, in no particular order. It skips records that
// it cannot read. Error: an *engine.Error of Redis.
func All(ctx context.Context, s *counters.Store) ([]policy.InForce, error) {
	fields, err := run(ctx, s, readScript)
	if err != nil {
		return nil, err
	}
	var all []policy.InForce
	for i := 0; i+1 < len(fields); i += 2 {
		parts := strings.Split(fields[i+1], "|")
		if len(parts) != 3 {
			continue
		}
		since, wrong := strconv.ParseInt(parts[1], 10, 64)
		seen, unread := strconv.ParseInt(parts[2], 10, 64)
		if errors.Join(wrong, unread) == nil {
			all = append(all, policy.InForce{Worker: fields[i], Digest: parts[0], Since: time.UnixMilli(since).UTC(), Seen: time.UnixMilli(seen).UTC()})
		}
	}
	return all, nil
}

func run(ctx context.Context, s *counters.Store, script *redis.Script, args ...any) ([]string, error) {
	return s.Record("policies", "policies of workers").Run(ctx, script, args...)
}
