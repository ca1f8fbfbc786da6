// Package landscapes keeps in Redis which landscape all other keys belong to, so that a worker
// with a wrong address decides nothing.
package landscapes

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine"
)

// record has the function that reads the record. It returns at most 300 bytes of each field: enough for
// Landscape.Check to refuse a field that is too long.
//
//	KEYS[1] -> hash of the record
const record = `
local function read()
  local fields = redis.pcall('HMGET', KEYS[1], 'cluster', 'namespace', 'resource', 'shadow')
  if fields.err then return nil, fields.err end
  local found = false
  for i = 1, 4 do
    found = found or fields[i] ~= false
    fields[i] = string.sub(fields[i] or '', 1, 300)
  end
  return found and fields or false
end
`

// readScript reads the record.
//
//	Returns {} if there is none, {why} if it cannot be read, or
//	{cluster, namespace, resource, shadow}
var readScript = redis.NewScript(record + `
local have, why = read()
if why then return {why} end
return have or {}
`)

// claimScript writes the record if there is none. If the record has no cluster and its other fields equal the
// arguments, the script adds the cluster. Otherwise it changes nothing.
//
//	ARGV -> cluster, namespace, resource, shadow
//
//	Returns the record after that, as readScript does
var claimScript = redis.NewScript(record + `
local have, why = read()
if why then return {why} end
if not have then
  redis.call('HSET', KEYS[1], 'cluster', ARGV[1], 'namespace', ARGV[2], 'resource', ARGV[3], 'shadow', ARGV[4])
  return {ARGV[1], ARGV[2], ARGV[3], ARGV[4]}
end
if have[1] == '' and ARGV[1] ~= '' and have[2] == ARGV[2] and have[3] == ARGV[3] and have[4] == ARGV[4] then
  redis.call('HSET', KEYS[1], 'cluster', ARGV[1])
  have[1] = ARGV[1]
end
return have
`)

// adoptScript overwrites the record. It keeps fields of a newer version, unless the record cannot be read.
//
//	ARGV -> cluster, namespace, resource, shadow
//
//	Returns {}
var adoptScript = redis.NewScript(record + `
local _, why = read()
if why then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'cluster', ARGV[1], 'namespace', ARGV[2], 'resource', ARGV[3], 'shadow', ARGV[4])
return {}
`)

// Recorded returns the recorded landscape, and whether there is one. Errors: engine.ErrNoLandscape if
// the record cannot be read, or an *engine.Error of Redis.
func Recorded(ctx context.Context, s *counters.Store) (l engine.Landscape, found bool, err error) {
	return run(ctx, s, readScript)
}

// Claim records a landscape if none is recorded, and returns the recorded one, which may differ from want. If
// the record has no cluster and otherwise equals want, Claim adds the cluster. Of concurrent claims one wins,
// and all return its landscape.
// Errors: engine.ErrNoLandscape if want names none or the record cannot be read, or an *engine.Error of
// Redis.
func Claim(ctx context.Context, s *counters.Store, want engine.Landscape) (have engine.Landscape, err error) {
	if err := want.Check(); err != nil {
		return engine.Landscape{}, err
	}
	have, _, err = run(ctx, s, claimScript, fieldsOf(want)...)
	return have, err
}

// Adopt records a landscape, and replaces a recorded one. Errors: engine.ErrNoLandscape if l names none,
// or an *engine.Error of Redis.
func Adopt(ctx context.Context, s *counters.Store, l engine.Landscape) error {
	if err := l.Check(); err != nil {
		return err
	}
	_, _, err := run(ctx, s, adoptScript, fieldsOf(l)...)
	return err
}

func fieldsOf(l engine.Landscape) []any {
	shadow := "0"
	if l.Shadow {
		shadow = isShadow
	}
	return []any{l.Cluster, l.Namespace, l.Resource, shadow}
}

// isShadow is the value of the field shadow for a shadow's landscape.
const isShadow = "1"

func run(ctx context.Context, s *counters.Store, script *redis.Script, args ...any) (engine.Landscape, bool, error) {
	fields, err := s.Record("landscape", "landscape").Run(ctx, script, args...)
	switch {
	case err != nil:
		return engine.Landscape{}, false, err
	case len(fields) == 0:
		return engine.Landscape{}, false, nil
	case len(fields) != 4:
		return engine.Landscape{}, false, fmt.Errorf("%w: %w", engine.ErrNoLandscape, errors.New(fields[0]))
	}
	l := engine.Landscape{Cluster: fields[0], Namespace: fields[1], Resource: fields[2], Shadow: fields[3] == isShadow}
	if err := l.Check(); err != nil {
		return engine.Landscape{}, false, err
	}
	return l, true, nil
}
