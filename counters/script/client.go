// Package script runs Lua scripts on Redis. It has the code that all scripts share, the lanes on which
// concurrent callers share round trips, and the decoding of replies.
package script

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Client runs scripts. It is safe for concurrent use. Set its fields before the first call.
type Client struct {
	// Redis returns the present connections. Required.
	Redis func() redis.UniversalClient
	// OnCall, if it is set, is called after every call, with the script's name. Many goroutines call it
	// concurrently.
	OnCall func(ctx context.Context, op string, took time.Duration)
	// Look, if it is set, reads which epochs are in force, and returns a check of epochs (rule 15). If the answer
	// of a script comes from a place whose epoch is fenced (account.Fenced), Ask calls Look after it, and returns
	// the error of the check. It does not for scripts of NewOutside, nor for those whose results permit nothing
	// outside of Redis (account.Contained). Callers whose requests share a round trip also share one Look. AskAll
	// never calls it.
	Look func(context.Context) account.EpochCheck

	lanes *lanes // nil: every call takes a connection of Redis
}

// OverLanes makes callers share one connection to each server, which batches concurrent requests into one
// round trip. EndLanes closes these connections.
func (c *Client) OverLanes() { c.lanes = &lanes{owner: c} }

// EndLanes closes the connections of OverLanes; later calls use connections of Redis.
func (c *Client) EndLanes() {
	if c.lanes != nil {
		c.lanes.close()
	}
}

// Ask sends a request to a script: over a lane if there is one, and after an error that is not final (see refused) once
// more without a lane. place is the name of the pool, bucket or site, in errors and for the check of Look. Errors:
// account.ErrNotBuilt, account.ErrRebuilt, the error of that check, or an *engine.Error of Redis.
func (c *Client) Ask(ctx context.Context, sc Script, place string, asked Request) (*Reply, error) {
	begin := time.Now()
	answer := c.overLane(ctx, sc, asked)
	if answer.err != nil && !refused(answer.err) && ctx.Err() == nil {
		answer = c.withoutLane(ctx, sc, asked)
	}
	c.called(ctx, sc, begin, answer.at)
	r, err := sc.read(place, answer.values, answer.err)
	if err != nil || !c.looks(sc, answer) {
		return r, err
	}
	check := answer.check
	if check == nil {
		check = c.Look(ctx)
	}
	if err := check(asked.epochs(place, answer.fenced)); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", sc.name, place, err)
	}
	return r, nil
}

// looks reports whether the answer counts only after Look: the call found a fenced epoch, Look is set, and the
// script is not account.Contained.
func (c *Client) looks(sc Script, answer laneAnswer) bool {
	return answer.err == nil && len(answer.fenced) > 0 && c.Look != nil && !account.Contained(sc.name)
}

func (c *Client) withoutLane(ctx context.Context, sc Script, asked Request) laneAnswer {
	return first(sc.Together(ctx, c.Redis(), asked))
}

// called tells OnCall how long a call took, from begin to end. A zero end stands for now.
func (c *Client) called(ctx context.Context, sc Script, begin, end time.Time) {
	if c.OnCall == nil {
		return
	}
	if end.IsZero() {
		end = time.Now()
	}
	c.OnCall(ctx, sc.name, end.Sub(begin))
}

// Call is one of the calls of AskAll.
type Call struct {
	Place string
	Request
}

// AskAll runs a script for several requests in one round trip, and returns a reply for each of them: nil if the
// place of the request is not built. Any other failure of a request is the error, without replies.
func (c *Client) AskAll(ctx context.Context, sc Script, calls []Call) ([]*Reply, error) {
	defer c.called(ctx, sc, time.Now(), time.Time{})
	groups := c.together(sc, calls)
	send := func() ([]*redis.Cmd, error) {
		results := make([]*redis.Cmd, len(groups))
		pipe := c.Redis().Pipeline()
		for i, group := range groups {
			requests := make([]Request, len(group))
			for n, call := range group {
				requests[n] = call.Request
			}
			keys, args := sc.arguments(asksItself, requests)
			results[i] = pipe.EvalSha(ctx, sc.Hash(), keys, args...)
		}
		_, err := pipe.Exec(ctx)
		return results, err
	}
	results, err := send()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		// The server does not have the script yet, or is another one. It is safe to repeat the calls.
		if err := sc.Load(ctx, c.Redis()).Err(); err != nil {
			_, err = sc.read("all pools", nil, err)
			return nil, err
		}
		results, _ = send() // each result has its own error
	}
	replies := make([]*Reply, 0, len(calls))
	for i, group := range groups {
		values, err := results[i].Slice()
		if err == nil {
			values, _, err = sc.answers(values, len(group))
		}
		for n, call := range group {
			var answer any
			failed := err
			if err == nil {
				answer, failed = values[n], failure(values[n])
			}
			reply, err := sc.read(call.Place, answer, failed)
			if err != nil && !errors.Is(err, account.ErrNotBuilt) {
				return nil, err
			}
			replies = append(replies, reply)
		}
	}
	return replies, nil
}

// mostTogether bounds the keys and arguments of one script call of AskAll for several requests: the server serves
// others in between.
const mostTogether = 1000

// together groups calls whose requests share one call of the script, within mostTogether. In a cluster each call
// is alone, since places may be on different servers.
func (c *Client) together(sc Script, calls []Call) (groups [][]Call) {
	_, cluster := c.Redis().(*redis.ClusterClient)
	arguments := 0
	for i := range calls {
		size := len(calls[i].Keys) + len(calls[i].Args)
		if i == 0 || cluster || !sc.many || arguments+size > mostTogether {
			groups, arguments = append(groups, nil), 0
		}
		last := len(groups) - 1
		groups[last], arguments = append(groups[last], calls[i]), arguments+size
	}
	return groups
}
