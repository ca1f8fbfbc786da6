package counters_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/seedtest"
)

// lost is the output of a call of which the caller does not know whether Redis has executed it.
type lost struct{}

// withLost is sequential for histories with calls of unknown outcome, which may have changed the state or not.
func withLost(t *testing.T) porcupine.Model {
	known := sequential(t)
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{known.Init()} },
		Step: func(state, input, output any) []any {
			if _, unknown := output.(lost); unknown {
				next := state.(*account.Pool).Clone()
				input.(ask).ofModel(next)
				return []any{state, next}
			}
			if ok, next := known.Step(state, input, output); ok {
				return []any{next}
			}
			return nil
		},
		Equal:             known.Equal,
		DescribeOperation: known.DescribeOperation,
	}).ToModel()
}

// cuts ends the connections of all callers at once. Redis has executed some of the calls that are on their way,
// and their answers are lost; the client repeats them.
type cuts struct {
	client       *redis.Client // not one of those that are cut
	mu           sync.Mutex
	begun, ended atomic.Int64
}

func (c *cuts) cut(t *testing.T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun.Add(1)
	if err := c.client.ClientKillByFilter(t.Context(), "TYPE", "normal").Err(); err != nil {
		t.Error(err)
	}
	c.ended.Add(1)
}

// lossy makes calls on lanes of which some are cut, and others are given up by their callers.
type lossy struct {
	*cuts
	m       *counterstest.Machine
	pool    string
	mu      sync.Mutex
	history []porcupine.Operation
	ghosts  int
}

// do makes a call. Each attempt of it whose answer may be lost becomes an operation of unknown outcome beside it,
// and so does a call that was given up: Redis may execute it at any later time.
func (l *lossy) do(ctx context.Context, begin time.Time, caller int, a ask) *account.Claim {
	ended, from := l.ended.Load(), time.Since(begin)
	output, claim := a.ofRedis(ctx, l.m, l.pool)
	to, cut := time.Since(begin), l.begun.Load()-ended
	l.mu.Lock()
	defer l.mu.Unlock()
	add := func(output any, to int64) {
		l.history = append(l.history, porcupine.Operation{ClientId: caller, Input: a, Call: int64(from), Output: output, Return: to})
	}
	for range cut {
		l.ghosts++
		add(lost{}, int64(to))
	}
	if ctx.Err() != nil {
		l.ghosts++
		add(lost{}, math.MaxInt64)
		return nil
	}
	add(output, int64(to))
	return claim
}

// TestLinearizableAfterLosses is TestLinearizable on lanes whose connections are cut while callers wait for their
// answers, and with callers that give up. There is an order of all calls in which each of unknown outcome was
// executed or not.
func TestLinearizableAfterLosses(t *testing.T) {
	t.Parallel()
	const callers, calls = 4, 10
	histories := seedtest.Share(150)
	server := counterstest.StartRedis(t)
	model, plain := withLost(t), sequential(t)
	m := counterstest.NewMachine(server.Client(t), "").OverLanes(t)
	cut := &cuts{client: server.Client(t)}
	seed := seedtest.Of(t)
	executed, n := 0, 0
	for ; n < histories || executed == 0 && n < 10*histories; n++ { // on a busy machine few of the calls that are cut were executed
		l := &lossy{cuts: cut, m: m, pool: fmt.Sprintf("p%d", n)}
		build(t, m, l.pool, "e1", account.Snapshot{})
		l.concurrent(t, callers, calls, seed+uint64(n))
		if !porcupine.CheckOperations(model, l.history) {
			for _, op := range l.history {
				t.Logf("%d..%d caller %d: %v -> %v", op.Call, op.Return, op.ClientId, op.Input, op.Output)
			}
			t.Fatalf("history %d is that of no order of its calls", n)
		}
		if porcupine.CheckOperations(model, forged(t, l.history)) {
			t.Fatalf("history %d is taken with a forged answer, too", n)
		}
		if l.ghosts > 0 && !porcupine.CheckOperations(plain, answered(l.history)) {
			executed++
		}
	}
	t.Logf("in %d of %d histories a call whose answer was lost had an effect", executed, n)
	if executed == 0 {
		t.Error("no lost call was executed: nothing was shown")
	}
}

// concurrent runs the callers. One cut is made beside a call of the first caller, and the second one gives up a
// call.
func (l *lossy) concurrent(t *testing.T, callers, calls int, seed uint64) {
	t.Helper()
	begin := time.Now()
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(caller)))
			disturbed := r.IntN(calls)
			var last *account.Claim
			for n := range calls {
				a := randomAsk(r, last)
				ctx, cancel := context.WithCancel(t.Context())
				switch {
				case n == disturbed && caller == 0:
					all.Go(func() { l.cut(t) })
				case n == disturbed && caller == 1:
					all.Go(cancel)
				}
				if claim := l.do(ctx, begin, caller, a); claim != nil {
					last = claim
				}
				cancel()
			}
		})
	}
	all.Wait()
	l.do(t.Context(), begin, callers, ask{records: true})
}

// answered returns the operations whose outcome is known.
func answered(history []porcupine.Operation) []porcupine.Operation {
	var out []porcupine.Operation
	for _, op := range history {
		if _, unknown := op.Output.(lost); !unknown {
			out = append(out, op)
		}
	}
	return out
}
