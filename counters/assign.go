package counters

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine/account"
)

// assignScript decides which binding a runtime gets (rule 3). It reads the records of the runtime, of its binding,
// of the tenant's own bindings and of the suggestions, and scans no hash: its cost hardly grows with the pool, unless
// the pool is shared and all its bindings are suggestions.
//
//	KEYS    -> see records
//	ARGV[1] -> runtime
//	ARGV[2] -> request
//	ARGV[3] -> tenant
//	ARGV[4] -> 1: the pool is shared
//	ARGV[5] -> 1: the tenant may have several accounts
//	ARGV[6] -> limit of runtimes per account, 0 is none
//	ARGV[7] -> strategy
//	ARGV[8] -> 1: the suggestions are all there is
//	ARGV[9] -> 1: it is this request's turn in the queue; 2: it must not wait; 3: both
//	ARGV[10] -> maximum number of considered bindings to return
//	ARGV[11] -> epoch that the pool must have, '' for any
//	ARGV[12] -> number of the runtime's place in the directory (account.Place.Sequence)
//	ARGV[13] -> n, the number of barred bindings
//	ARGV[14..13+n] -> barred bindings
//	then per suggestion: binding, generation of its label, 1 if it is labelled with the tenant
//
//	Returns {'OK', outcome, binding, generation, sequence, epoch, confirmed, origin, request, repeated,
//	count, position, 1 if the binding is in claiming} and three values for each considered binding: name, count,
//	verdict; {'REBUILT'} if the pool does not have the epoch of ARGV[11]
var assignScript = script.New("assign", []string{script.Joined, records, assignRequest, assignChoice, assignOutcome}, assignDecision)

// locateAndAssignScript looks a runtime up in the directory, and then decides as assign does. The place of a
// request is the pool, its second place the bucket of the directory.
//
//	KEYS     -> of the pool: those of assign; of the bucket: those of locate
//	ARGV[1…] -> those of assign
//	ARGV[#]  -> the expected entry: that of a runtime that is in the pool and never moved
//
//	Returns what assign returns, or {'ELSEWHERE'} if the directory has another entry for the runtime. If it
//	has none, the script writes the expected one
var locateAndAssignScript = script.New("locate and assign", []string{script.Joined, records, assignRequest, assignChoice, assignOutcome}, `
local mine = table.remove(ARGV)
enter(second)
local entry = get(2, ARGV[1])
if not entry then set(2, ARGV[1], mine) end
if entry and entry ~= mine then return {'ELSEWHERE'} end
enter(place)
`+assignDecision)

// LocateAndAssign is Locate and Assign in one script. If the directory has the runtime in another pool,
// as gone or as moved (rule 16), nothing changes and the Outcome of the decision is "": the caller then
// uses Locate and Assign. In a Redis Cluster the Outcome is always "", since no script may have the keys
// of both pool and bucket. Errors: ErrNotBuilt, ErrRebuilt, or an *engine.Error of Redis.
func (s *Store) LocateAndAssign(ctx context.Context, pool string, r account.Request) (account.Decision, error) {
	if _, cluster := s.client().(*redis.ClusterClient); cluster {
		return account.Decision{}, nil
	}
	args, err := assignArgs(r)
	if err != nil {
		return account.Decision{}, err
	}
	reply, err := s.script.Ask(ctx, locateAndAssignScript, pool, script.Request{
		Keys: s.poolKeys(pool), Second: s.directoryKeys(r.Runtime), Bucket: account.BucketOf(r.Runtime), Args: append(args, packPlace(account.Place{Pool: pool})),
	})
	if err != nil || reply.Elsewhere {
		return account.Decision{}, err
	}
	return decisionOf(reply)
}

// Assign decides which binding the runtime gets (rule 3). A repeat returns the same binding and sequence
// while the assignment stands. Errors: ErrNotBuilt, ErrRebuilt if the request names an Epoch and the pool
// has another one, or an *engine.Error of Redis.
func (s *Store) Assign(ctx context.Context, pool string, r account.Request) (account.Decision, error) {
	args, err := assignArgs(r)
	if err != nil {
		return account.Decision{}, err
	}
	reply, err := s.run(ctx, assignScript, pool, s.poolKeys(pool), args...)
	if err != nil {
		return account.Decision{}, err
	}
	return decisionOf(reply)
}

func assignArgs(r account.Request) ([]any, error) {
	if err := checkNames(r.Runtime, r.Request, r.Tenant); err != nil {
		return nil, err
	}
	args := make([]any, 0, 13+len(r.Barred)+3*len(r.Seen))
	args = append(args, r.Runtime, r.Request, r.Tenant, script.Flag(r.Shared), script.Flag(r.Terms.Several), r.Terms.Limit,
		string(r.Terms.Strategy), script.Flag(r.All), turn(r), account.MaxConsidered, r.Epoch, r.After, len(r.Barred))
	for _, name := range r.Barred {
		args = append(args, name)
	}
	for _, seen := range r.Seen {
		if err := checkNames(seen.Binding); err != nil {
			return nil, err
		}
		if err := checkNumbers(seen.Generation); err != nil {
			return nil, err
		}
		args = append(args, seen.Binding, seen.Generation, script.Flag(seen.Mine))
	}
	return args, nil
}

// turn encodes two conditions in ARGV[9] of assignScript: 1 if it is the request's turn, 2 if the request must
// not wait, 3 for both, 0 for neither.
func turn(r account.Request) int {
	n := 0
	if r.InTurn {
		n = 1
	}
	if r.Now {
		n += 2
	}
	return n
}

// decisionOf decodes the decision that assign or refuse returns.
func decisionOf(r *script.Reply) (account.Decision, error) {
	d := account.Decision{
		Outcome: account.Outcome(r.Text()), Binding: r.Text(), Generation: r.Number(),
		Sequence: r.Number(), Epoch: r.Text(), Confirmed: r.Flag(), Origin: account.Origin(r.Text()),
		Request: r.Text(), Repeated: r.Flag(), Count: int(r.Number()), Position: int(r.Number()), Claiming: r.Flag(),
	}
	if n := r.Left() / 3; n > 0 {
		d.Considered = make([]account.Considered, 0, n)
	}
	for r.More() {
		d.Considered = append(d.Considered, account.Considered{
			Binding: r.Text(), Clusters: int(r.Number()), Verdict: account.Verdict(r.Text()),
		})
	}
	return d, r.Err()
}
