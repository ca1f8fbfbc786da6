package counters_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/seedtest"
)

// ask is one call of a history; the field that is set says which.
type ask struct {
	assign  *account.Request
	confirm *account.Claim
	release string // the runtime
	by      string // the tenant that asks for the release, "" if none is named
	records bool   // everything that is remembered, at the end
}

func (a ask) String() string {
	switch {
	case a.assign != nil:
		return fmt.Sprintf("assign %+v", *a.assign)
	case a.confirm != nil:
		return fmt.Sprintf("confirm %+v", *a.confirm)
	case a.records:
		return "records"
	default:
		return "release " + a.release + " by " + a.by
	}
}

// ofModel runs the call on the model and returns its result.
func (a ask) ofModel(p *account.Pool) string {
	switch {
	case a.assign != nil:
		return said(p.Assign(*a.assign))
	case a.confirm != nil:
		return said(p.Confirm(*a.confirm))
	case a.records:
		return fmt.Sprint(p.Bindings(), p.Runtimes())
	default:
		return said(p.ReleaseRuntime(a.release, a.by, 0))
	}
}

// ofRedis runs the call on Redis. It returns the claim of a decision, for the caller to confirm.
func (a ask) ofRedis(ctx context.Context, m *counterstest.Machine, pool string) (string, *account.Claim) {
	switch {
	case a.assign != nil:
		d, err := m.Assign(ctx, pool, *a.assign)
		claim := d.Claim(a.assign.Runtime)
		return said(d, err), &claim
	case a.confirm != nil:
		return said(m.Confirm(ctx, pool, *a.confirm)), nil
	case a.records:
		bindings, runtimes, err := m.Records(ctx, pool)
		if err != nil {
			return err.Error(), nil
		}
		return fmt.Sprint(bindings, runtimes), nil
	default:
		return said(m.ReleaseRuntime(ctx, account.Place{Pool: pool}, a.release, a.by)), nil
	}
}

func said[T any](v T, err error) string { return fmt.Sprintf("%+v %v", v, err) }

// sequential is the porcupine model: the results of calls one after the other.
func sequential(t *testing.T) porcupine.Model {
	start := account.NewPool()
	if !start.BeginRebuild("e1", time.Unix(0, 0), 0) || !start.Install("e1", account.Snapshot{}) {
		t.Fatal("the model is not built")
	}
	facts := func(p *account.Pool) []any {
		queue, err := p.Queue() // has the turns
		return []any{p.Status(), p.Bindings(), p.Runtimes(), queue, err}
	}
	return porcupine.Model{
		Init: func() any { return start },
		Step: func(state, input, output any) (bool, any) {
			next := state.(*account.Pool).Clone()
			return input.(ask).ofModel(next) == output, next
		},
		Equal: func(a, b any) bool {
			return reflect.DeepEqual(facts(a.(*account.Pool)), facts(b.(*account.Pool)))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprint(input, " -> ", output) },
	}
}

// TestLinearizable runs many concurrent callers against small pools on Redis. Their results and the
// final records must equal the model's for some sequential order of the same calls.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	const callers, calls = 6, 12
	histories := seedtest.Share(150)
	model := sequential(t)
	m := counterstest.NewMachine(counterstest.Redis(t), "")
	seed := seedtest.Of(t)
	for n := range histories {
		pool := fmt.Sprintf("p%d", n)
		build(t, m, pool, "e1", account.Snapshot{})
		history := concurrent(t, m, pool, callers, calls, seed+uint64(n))
		if !porcupine.CheckOperations(model, history) {
			for _, op := range history {
				t.Logf("%d..%d caller %d: %v -> %v", op.Call, op.Return, op.ClientId, op.Input, op.Output)
			}
			t.Fatalf("history %d is that of no order of its calls", n)
		}
		if porcupine.CheckOperations(model, forged(t, history)) {
			t.Fatalf("history %d is taken with a forged answer, too", n)
		}
	}
}

// concurrent runs the callers concurrently, each one's calls in order.
func concurrent(t *testing.T, m *counterstest.Machine, pool string, callers, calls int, seed uint64) []porcupine.Operation {
	t.Helper()
	var mu sync.Mutex
	var history []porcupine.Operation
	begin := time.Now()
	do := func(caller int, a ask) *account.Claim {
		from := time.Since(begin)
		output, claim := a.ofRedis(t.Context(), m, pool)
		to := time.Since(begin)
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: caller, Input: a, Call: int64(from), Output: output, Return: int64(to)})
		return claim
	}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(caller)))
			var last *account.Claim
			for range calls {
				a := randomAsk(r, last)
				if claim := do(caller, a); claim != nil {
					last = claim
				}
			}
		})
	}
	all.Wait()
	do(callers, ask{records: true})
	return history
}

// randomAsk returns a call of a caller whose latest claim is this one, nil for none.
func randomAsk(r *rand.Rand, last *account.Claim) ask {
	runtime := fmt.Sprintf("r%d", r.IntN(16))
	switch n := r.IntN(10); {
	case n < 3 && last != nil:
		return ask{confirm: last}
	case n < 4:
		return ask{release: runtime, by: []string{"", "ga-0", "ga-1"}[r.IntN(3)]}
	default:
		tenant := r.IntN(2)
		request := account.Request{
			Runtime: runtime, Request: fmt.Sprintf("q%d", r.IntN(3)), Tenant: fmt.Sprintf("ga-%d", tenant), All: true,
			Terms: account.Terms{Several: tenant == 1, Limit: 2, Strategy: account.FillMostPopulated},
		}
		for _, i := range r.Perm(3) {
			request.Seen = append(request.Seen, account.Seen{Binding: string(rune('a' + i))})
		}
		return ask{assign: &request}
	}
}

// forged is a history in which an answer names a binding that was not offered.
func forged(t *testing.T, history []porcupine.Operation) []porcupine.Operation {
	t.Helper()
	copied := slices.Clone(history)
	for i, op := range copied {
		if op.Input.(ask).assign != nil {
			copied[i].Output = "{Outcome:assigned Binding:z}"
			return copied
		}
	}
	t.Fatal("nothing was assigned")
	return nil
}
