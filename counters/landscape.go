package counters

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/engine"
)

// landscapeRecord reads the record of the landscape, of each field no more than says
// whether it is too long.
//
//	KEYS[1] -> hash of the record
const landscapeRecord = `
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

// landscapeScript reads the record.
//
//	Returns {} where there is none, {why} where it cannot be read, else
//	{cluster, namespace, resource, shadow}
var landscapeScript = redis.NewScript(landscapeRecord + `
local have, why = read()
if why then return {why} end
return have or {}
`)

// claimLandscapeScript writes the record where there is none, and the cluster where
// only that is not known.
//
//	ARGV -> cluster, namespace, resource, shadow
//
//	Returns what is recorded then, as landscapeScript
var claimLandscapeScript = redis.NewScript(landscapeRecord + `
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

// adoptLandscapeScript writes the record whatever stood there. Fields of a newer version
// stay.
//
//	ARGV -> cluster, namespace, resource, shadow
//
//	Returns {}
var adoptLandscapeScript = redis.NewScript(landscapeRecord + `
local _, why = read()
if why then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'cluster', ARGV[1], 'namespace', ARGV[2], 'resource', ARGV[3], 'shadow', ARGV[4])
return {}
`)

// Landscape gives the landscape that is recorded, and whether one is. Errors:
// engine.ErrNoLandscape where the record cannot be read, else an *engine.Error of Redis.
func (s *Store) Landscape(ctx context.Context) (l engine.Landscape, found bool, err error) {
	return s.landscape(ctx, landscapeScript)
}

// ClaimLandscape records a landscape where none is recorded, and gives the one that is
// recorded then. Of several that claim at once one wins, and all are given that one. Errors as of
// Landscape.
func (s *Store) ClaimLandscape(ctx context.Context, want engine.Landscape) (have engine.Landscape, err error) {
	if err := want.Check(); err != nil {
		return engine.Landscape{}, err
	}
	have, _, err = s.landscape(ctx, claimLandscapeScript, landscapeFields(want)...)
	return have, err
}

// AdoptLandscape records a landscape in the place of whatever is recorded. An
// *engine.Error of Redis.
func (s *Store) AdoptLandscape(ctx context.Context, l engine.Landscape) error {
	if err := l.Check(); err != nil {
		return err
	}
	_, _, err := s.landscape(ctx, adoptLandscapeScript, landscapeFields(l)...)
	return err
}

func landscapeFields(l engine.Landscape) []any {
	return []any{l.Cluster, l.Namespace, l.Resource, flag(l.Shadow)}
}

func (s *Store) landscape(ctx context.Context, script *redis.Script, args ...any) (engine.Landscape, bool, error) {
	fields, err := script.Run(ctx, s.client(), []string{s.landscapeKey()}, args...).StringSlice()
	switch {
	case err != nil:
		return engine.Landscape{}, false, &engine.Error{
			Code: engine.CodeInternal, Op: "landscape in Redis", Err: err, Hint: "check that Redis is reachable and writable",
		}
	case len(fields) == 0:
		return engine.Landscape{}, false, nil
	case len(fields) != 4:
		return engine.Landscape{}, false, fmt.Errorf("%w: %w", engine.ErrNoLandscape, errors.New(fields[0]))
	}
	l := engine.Landscape{Cluster: fields[0], Namespace: fields[1], Resource: fields[2], Shadow: fields[3] == flag(true)}
	if err := l.Check(); err != nil {
		return engine.Landscape{}, false, err
	}
	return l, true, nil
}
