package counters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters/lua"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// asksItself is the last argument of a script that is not sent over a lane: the script asks the server
// for its run id.
const asksItself = ""

// script is a Lua script, with its name in errors.
type script struct {
	name string
	many bool // one call can decide several requests
	*redis.Script
}

// newScript returns a script of the Lua functions that it uses, and of the body of the function that
// decides a request.
func newScript(name string, functions []string, body string) script {
	text := lua.Gate + strings.Join(functions, "") + "\nlocal function decide(ARGV, place, second)\n" + body + "\nend\n" + lua.Each
	return script{name: name, many: true, Script: redis.NewScript(text)}
}

// newSiteScript returns a script of a rebuild, which is for one pool or bucket and needs no epoch.
func newSiteScript(name, body string) script {
	return script{name: name, Script: redis.NewScript(site + body)}
}

// request is one request to a script, about one place (a pool or bucket) or two.
type request struct {
	keys   []string
	second []string // the keys of the second one, a bucket
	bucket string   // its name
	args   []any
}

// epochs selects the epochs of the request's places from the fenced epochs of a whole call.
func (r request) epochs(place string, fenced map[string]string) account.Epochs {
	out := make(account.Epochs, 2)
	if epoch := fenced[r.keys[0]]; epoch != "" {
		out[place] = epoch
	}
	if r.second != nil && fenced[r.second[0]] != "" {
		out[r.bucket] = fenced[r.second[0]]
	}
	return out
}

// arguments returns the keys and arguments of one script call for several requests, or for one if the
// script is not for many.
func (sc script) arguments(server string, requests []request) (keys []string, args []any) {
	if !sc.many {
		return requests[0].keys, append(slices.Clip(requests[0].args), server)
	}
	n := 2
	for _, r := range requests {
		n += 5 + len(r.args)
	}
	p := places{numbers: make(map[string]int, 1)}
	args = make([]any, 1, n)
	for _, r := range requests {
		args = p.add(args, r.keys)
		if r.second != nil {
			args = p.add(args, r.second)
		}
	}
	args[0] = len(p.numbers)
	for _, r := range requests {
		second := 0
		if r.second != nil {
			second = p.numbers[r.second[0]]
		}
		args = append(append(args, p.numbers[r.keys[0]], second, len(r.args)), r.args...)
	}
	return p.keys, append(args, server)
}

// places numbers the places of one call from 1, by their meta keys.
type places struct {
	numbers map[string]int
	keys    []string
}

// add numbers a new place and appends the number of its keys to args. It ignores a place that has a
// number.
func (p *places) add(args []any, keys []string) []any {
	if p.numbers[keys[0]] > 0 {
		return args
	}
	p.numbers[keys[0]] = len(p.numbers) + 1
	p.keys = append(p.keys, keys...)
	return append(args, len(keys))
}

// answers splits the result of one call into the answers to its n requests, and the fenced epochs of
// its places by their meta keys.
func (sc script) answers(values []any, n int) (answers []any, fenced map[string]string, err error) {
	if !sc.many {
		return []any{values}, nil, nil
	}
	if len(values) == n+1 {
		told, _ := values[n].([]any)
		fenced = make(map[string]string, len(told)/2)
		for i := 0; i+1 < len(told); i += 2 {
			meta, _ := told[i].(string)
			fenced[meta], _ = told[i+1].(string)
		}
		values = values[:n]
	}
	if len(values) != n {
		return nil, nil, fmt.Errorf("%s gave %d answers to %d requests", sc.name, len(values), n)
	}
	return values, fenced, nil
}

// run runs a script on a pool or bucket. Errors: ErrNotBuilt if that has no epoch, or an *engine.Error
// of Redis.
func (s *Store) run(ctx context.Context, sc script, place string, keys []string, args ...any) (*reply, error) {
	return s.ask(ctx, sc, place, request{keys: keys, args: args})
}

func (s *Store) ask(ctx context.Context, sc script, place string, asked request) (*reply, error) {
	begin := time.Now()
	answer := s.overLane(ctx, sc, asked)
	if answer.err != nil && !refused(answer.err) && ctx.Err() == nil {
		answer = s.withoutLane(ctx, sc, asked)
	}
	s.called(ctx, sc, begin)
	r, err := sc.read(place, answer.values, answer.err)
	if err != nil || len(answer.fenced) == 0 || s.inForce == nil || account.Contained(sc.name) {
		return r, err
	}
	if err := s.inForce(ctx, asked.epochs(place, answer.fenced)); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", sc.name, place, err)
	}
	return r, nil
}

func (s *Store) withoutLane(ctx context.Context, sc script, asked request) laneAnswer {
	keys, args := sc.arguments(asksItself, []request{asked})
	values, err := sc.Run(ctx, s.client(), keys, args...).Slice()
	if err != nil {
		return laneAnswer{err: err}
	}
	return sc.only(values)
}

// only returns the answer to the one request of a call.
func (sc script) only(values []any) laneAnswer {
	answers, fenced, err := sc.answers(values, 1)
	if err != nil {
		return laneAnswer{err: err}
	}
	return laneAnswer{values: answers[0], fenced: fenced, err: failure(answers[0])}
}

// failure returns why a script could not decide a request, nil if it did.
func failure(answer any) error {
	if values, ok := answer.([]any); ok && len(values) == 2 && values[0] == "FAILED" {
		why, _ := values[1].(string)
		return refusal(why)
	}
	return nil
}

// refusal is a server's answer to a command that it does not execute.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError makes r a redis.Error.
func (refusal) RedisError() {}

// called reports the duration of a call to onCall.
func (s *Store) called(ctx context.Context, sc script, begin time.Time) {
	if s.onCall != nil {
		s.onCall(ctx, sc.name, time.Since(begin))
	}
}

// read converts an answer of the script to a reply. Errors: ErrNotBuilt, ErrRebuilt, or an
// *engine.Error around err.
func (sc script) read(place string, answer any, err error) (*reply, error) {
	if err != nil {
		return nil, &engine.Error{
			Code: engine.CodeInternal, Op: sc.name + " in Redis, " + place, Err: err,
			Hint: "check that Redis is reachable and writable",
		}
	}
	r := &reply{}
	switch v := answer.(type) {
	case []any:
		r.values = v
	case string:
		r.fields = strings.Split(v, "|")
	}
	switch r.text() {
	case "NOTBUILT":
		return nil, fmt.Errorf("%s: %s: %w", sc.name, place, account.ErrNotBuilt)
	case "REBUILT":
		return nil, fmt.Errorf("%s: %s: %w", sc.name, place, account.ErrRebuilt)
	case "ELSEWHERE":
		r.elsewhere = true
	}
	return r, nil
}

// call is one of several calls of a script.
type call struct {
	place string
	request
}

// runAll runs a script several times in one round trip. The reply is nil for a place that is not
// built. Any other error ends it.
func (s *Store) runAll(ctx context.Context, sc script, calls []call) ([]*reply, error) {
	defer s.called(ctx, sc, time.Now())
	send := func() ([]*redis.Cmd, error) {
		results := make([]*redis.Cmd, len(calls))
		pipe := s.client().Pipeline()
		for i, c := range calls {
			keys, args := sc.arguments(asksItself, []request{c.request})
			results[i] = pipe.EvalSha(ctx, sc.Hash(), keys, args...)
		}
		_, err := pipe.Exec(ctx)
		return results, err
	}
	results, err := send()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		// The server does not have the script yet, or is another one. It is safe to repeat the calls.
		if err := sc.Load(ctx, s.client()).Err(); err != nil {
			_, err = sc.read("all pools", nil, err)
			return nil, err
		}
		results, _ = send() // each result has its own error
	}
	replies := make([]*reply, len(calls))
	for i, result := range results {
		values, err := result.Slice()
		answer := laneAnswer{err: err}
		if err == nil {
			answer = sc.only(values)
		}
		replies[i], err = sc.read(calls[i].place, answer.values, answer.err)
		if err != nil && !errors.Is(err, account.ErrNotBuilt) {
			return nil, err
		}
	}
	return replies, nil
}

// flag encodes a boolean for scripts.
func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
