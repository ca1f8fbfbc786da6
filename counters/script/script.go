package script

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// asksItself is the last argument of a script that is not sent over a lane: the script asks the server
// for its run id.
const asksItself = ""

// Script is a Lua script. Its name is for errors, OnCall and account.Contained.
type Script struct {
	name string
	many bool // one call can decide several requests
	*redis.Script
}

// New returns a script with gate. functions are the parts that body needs: Lua functions, and Joined. body is that of
// the function which decides one request: it gets the request's arguments as ARGV, and returns {'OK', values…},
// {'REBUILT'} or {'ELSEWHERE'}.
func New(name string, functions []string, body string) Script {
	text := gate + strings.Join(functions, "") + "\nlocal function decide(ARGV, place, second)\n" + body + "\nend\n" + each
	return Script{name: name, many: true, Script: redis.NewScript(text)}
}

// NewOutside returns a script without gate, which runs whether or not the place has an epoch, such as
// those of a rebuild. A call of it has one request.
func NewOutside(name, text string) Script { return Script{name: name, Script: redis.NewScript(text)} }

// Request is one request to a script, about one place (a pool, a bucket or a site) or two.
type Request struct {
	Keys   []string // the keys of the place; the first one is its meta
	Second []string // the keys of the second place, a bucket; nil if there is none
	Bucket string   // the name of the second place
	Args   []any
}

// epochs selects the epochs of the request's places from the fenced epochs of a whole call.
func (r Request) epochs(place string, fenced map[string]string) account.Epochs {
	out := make(account.Epochs, 2)
	if epoch := fenced[r.Keys[0]]; epoch != "" {
		out[place] = epoch
	}
	if r.Second != nil && fenced[r.Second[0]] != "" {
		out[r.Bucket] = fenced[r.Second[0]]
	}
	return out
}

// arguments returns the keys and arguments of one script call for several requests. A script that is not for
// many gets only the first. server is the run id of the server, or asksItself.
func (sc Script) arguments(server string, requests []Request) (keys []string, args []any) {
	if !sc.many {
		return requests[0].Keys, append(slices.Clip(requests[0].Args), server)
	}
	n := 2
	for _, r := range requests {
		n += 5 + len(r.Args)
	}
	p := places{numbers: make(map[string]int, 1)}
	args = make([]any, 1, n)
	for _, r := range requests {
		args = p.add(args, r.Keys)
		if r.Second != nil {
			args = p.add(args, r.Second)
		}
	}
	args[0] = len(p.numbers)
	for _, r := range requests {
		second := 0
		if r.Second != nil {
			second = p.numbers[r.Second[0]]
		}
		args = append(append(args, p.numbers[r.Keys[0]], second, len(r.Args)), r.Args...)
	}
	return p.keys, append(args, server)
}

// places numbers the places of one call from 1, by their meta keys.
type places struct {
	numbers map[string]int
	keys    []string
}

// add numbers a place that has no number yet, and appends the count of its keys to args. It ignores any other place.
func (p *places) add(args []any, keys []string) []any {
	if p.numbers[keys[0]] > 0 {
		return args
	}
	p.numbers[keys[0]] = len(p.numbers) + 1
	p.keys = append(p.keys, keys...)
	return append(args, len(keys))
}

// answers splits the result of one call into the answers to its n requests, and the fenced epochs of
// its places by their meta keys, nil if there are none.
func (sc Script) answers(values []any, n int) (answers []any, fenced map[string]string, err error) {
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

// Together sends several requests in one call, and returns their answers, and the fenced epochs of
// their places by the places' meta keys. In a cluster all requests must be about the same place.
func (sc Script) Together(ctx context.Context, client redis.Scripter, requests ...Request) (answers []any, fenced map[string]string, err error) {
	keys, args := sc.arguments(asksItself, requests)
	values, err := sc.Run(ctx, client, keys, args...).Slice()
	if err != nil {
		return nil, nil, err
	}
	return sc.answers(values, len(requests))
}

// first returns the answer to the first request of a call.
func first(answers []any, fenced map[string]string, err error) laneAnswer {
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

// refusal is the error with which a script failed for one request. It counts as the server's answer (see refused).
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError makes r a redis.Error.
func (refusal) RedisError() {}

// read converts an answer of the script to a reply. Errors: ErrNotBuilt, ErrRebuilt, or an
// *engine.Error around err.
func (sc Script) read(place string, answer any, err error) (*Reply, error) {
	if err != nil {
		return nil, &engine.Error{
			Code: engine.CodeInternal, Op: sc.name + " in Redis, " + place, Err: err,
			Hint: "check that Redis is reachable and writable",
		}
	}
	r := &Reply{}
	switch v := answer.(type) {
	case []any:
		r.values = v
	case string:
		r.fields = strings.Split(v, "|")
	}
	switch r.Text() {
	case "NOTBUILT":
		return nil, fmt.Errorf("%s: %s: %w", sc.name, place, account.ErrNotBuilt)
	case "REBUILT":
		return nil, fmt.Errorf("%s: %s: %w", sc.name, place, account.ErrRebuilt)
	case "ELSEWHERE":
		r.Elsewhere = true
	}
	return r, nil
}

// Flag encodes a boolean for scripts.
func Flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
