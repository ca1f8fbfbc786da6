package counters

import (
	"context"

	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine/account"
)

// Ask is a request to a script, as a lane sends it.
type Ask struct {
	script script.Script
	script.Request
}

// AskLocateAndAssign returns the request of LocateAndAssign.
func (s *Store) AskLocateAndAssign(pool string, r account.Request) (Ask, error) {
	args, err := assignArgs(r)
	args = append(args, packPlace(account.Place{Pool: pool}))
	return Ask{locateAndAssignScript, script.Request{Keys: s.poolKeys(pool), Second: s.directoryKeys(r.Runtime), Args: args}}, err
}

// AskAssign returns the request of Assign.
func (s *Store) AskAssign(pool string, r account.Request) (Ask, error) {
	args, err := assignArgs(r)
	return Ask{assignScript, script.Request{Keys: s.poolKeys(pool), Args: args}}, err
}

// AskConfirm returns the request of Confirm.
func (s *Store) AskConfirm(pool string, c account.Claim) Ask {
	return s.askClaim(confirmScript, pool, c)
}

// AskRevoke returns the request of Revoke.
func (s *Store) AskRevoke(pool string, c account.Claim) Ask { return s.askClaim(revokeScript, pool, c) }

func (s *Store) askClaim(sc script.Script, pool string, c account.Claim) Ask {
	return Ask{sc, script.Request{Keys: s.poolKeys(pool), Args: []any{c.Runtime, c.Binding, c.Generation, c.Sequence, c.Epoch}}}
}

// AskRelease returns the request of ReleaseRuntime, for no tenant.
func (s *Store) AskRelease(pool, runtime string) Ask {
	return Ask{releaseScript, script.Request{Keys: s.poolKeys(pool), Args: []any{runtime, "", 0, "1"}}}
}

// AskTakeBack returns the request of TakeBack.
func (s *Store) AskTakeBack(pool, runtime, id, tenant string) Ask {
	return Ask{takeBackScript, script.Request{Keys: s.poolKeys(pool), Args: []any{runtime, id, tenant}}}
}

// AskDepart returns the request of Depart.
func (s *Store) AskDepart(runtime string) Ask {
	return Ask{locateScript, script.Request{Keys: s.directoryKeys(runtime), Args: []any{runtime, ""}}}
}

// AskTogether sends all requests in one call of their script, which must be the same, and returns the
// answers as the script returned them.
func (s *Store) AskTogether(ctx context.Context, asks ...Ask) ([]any, error) {
	requests := make([]script.Request, len(asks))
	for i, ask := range asks {
		requests[i] = ask.Request
	}
	answers, _, err := asks[0].script.Together(ctx, s.client(), requests...)
	return answers, err
}
