package counters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// gate begins every script that decides or reads: rule 1, nothing is decided
// where there is no epoch. The epoch counts only on the server that it was
// installed on: a server that started again may have come up with older data.
// Which run that is, a script gets as its last argument from a lane, whose
// connection leads to no other one. Without a lane it asks the server itself, since
// go-redis repeats a command on a new connection with the arguments of the old one.
//
//	KEYS[1] -> meta: epoch, server, seq, paused, token, since
//	Returns {'NOTBUILT'} instead of what the script returns
const gate = serverID + `
local head = redis.call('HMGET', KEYS[1], 'epoch', 'server', 'paused')
if not head[1] or head[2] ~= server then return {'NOTBUILT'} end
local epoch, paused = head[1], head[3] == '1'
local function next_sequence() return redis.call('HINCRBY', KEYS[1], 'seq', 1) end
`

// serverID takes the id of the server's run off the arguments, or asks for it; '-'
// where the server does not tell.
const serverID = `
local server = table.remove(ARGV)
if server == '' then
  local info = redis.pcall('INFO', 'server')
  local at = type(info) == 'string' and string.find(info, 'run_id:', 1, true)
  server = at and string.match(info, '^%w+', at + 7) or '-'
end
`

// asksItself is the last argument of a script that does not come over a lane.
const asksItself = ""

// script is a Lua script and the name that errors give it.
type script struct {
	name string
	*redis.Script
}

// newScript joins the parts of a script.
func newScript(name string, parts ...string) script {
	return script{name: name, Script: redis.NewScript(strings.Join(parts, ""))}
}

// run runs a script on a pool or bucket. ErrNotBuilt where that has no epoch,
// else an *engine.Error of Redis.
func (s *Store) run(ctx context.Context, sc script, place string, keys []string, args ...any) (*reply, error) {
	defer s.called(ctx, sc, time.Now())
	values, err := s.overLane(ctx, sc, keys, args)
	if err != nil && !refused(err) && ctx.Err() == nil {
		values, err = sc.Run(ctx, s.client, keys, append(slices.Clip(args), asksItself)...).Slice()
	}
	return sc.read(place, values, err)
}

// called tells of a call that began then.
func (s *Store) called(ctx context.Context, sc script, begin time.Time) {
	if s.onCall != nil {
		s.onCall(ctx, sc.name, time.Since(begin))
	}
}

// read makes a reply of what a call of the script gave.
func (sc script) read(place string, values []any, err error) (*reply, error) {
	if err != nil {
		return nil, &engine.Error{
			Code: engine.CodeInternal, Op: sc.name + " in Redis, " + place, Err: err,
			Hint: "check that Redis is reachable and writable",
		}
	}
	r := &reply{values: values}
	switch r.text() {
	case "NOTBUILT":
		return nil, fmt.Errorf("%s: %s: %w", sc.name, place, account.ErrNotBuilt)
	case "REBUILT":
		return nil, fmt.Errorf("%s: %s: %w", sc.name, place, account.ErrRebuilt)
	default:
		return r, nil
	}
}

// call is one of several calls of a script.
type call struct {
	place string
	keys  []string
	args  []any
}

// runAll runs a script several times in one round trip. A place that is not built
// has no reply: its error does not end the others.
func (s *Store) runAll(ctx context.Context, sc script, calls []call) ([]*reply, error) {
	defer s.called(ctx, sc, time.Now())
	send := func() ([]*redis.Cmd, error) {
		results := make([]*redis.Cmd, len(calls))
		pipe := s.client.Pipeline()
		for i, c := range calls {
			results[i] = pipe.EvalSha(ctx, sc.Hash(), c.keys, append(slices.Clip(c.args), asksItself)...)
		}
		_, err := pipe.Exec(ctx)
		return results, err
	}
	results, err := send()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		// The server does not have it yet, or is another one. The calls may be repeated.
		if err := sc.Load(ctx, s.client).Err(); err != nil {
			_, err = sc.read("all pools", nil, err)
			return nil, err
		}
		results, _ = send() // each result has its own error
	}
	replies := make([]*reply, len(calls))
	for i, result := range results {
		values, err := result.Slice()
		replies[i], err = sc.read(calls[i].place, values, err)
		if err != nil && !errors.Is(err, account.ErrNotBuilt) {
			return nil, err
		}
	}
	return replies, nil
}

// reply reads the flat array that a script returned, front to back.
type reply struct {
	values []any
	err    error
}

func (r *reply) next() any {
	if len(r.values) == 0 {
		r.err = errors.New("a script returned fewer values than it should")
		return nil
	}
	v := r.values[0]
	r.values = r.values[1:]
	return v
}

func (r *reply) text() string {
	text, ok := r.next().(string)
	if !ok && r.err == nil {
		r.err = errors.New("a script returned a number where it should return a text")
	}
	return text
}

func (r *reply) number() int64 {
	switch v := r.next().(type) {
	case int64:
		return v
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			r.err = err
		}
		return n
	default:
		return 0
	}
}

func (r *reply) flag() bool { return r.number() == 1 }

func (r *reply) more() bool { return r.err == nil && len(r.values) > 0 }

// flag is a boolean as scripts take it.
func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
