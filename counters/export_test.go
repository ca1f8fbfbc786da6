package counters

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Ask is a request to a script, as a lane sends it.
type Ask struct {
	script script
	request
}

// AskLocateAndAssign returns the request of LocateAndAssign.
func (s *Store) AskLocateAndAssign(pool string, r account.Request) (Ask, error) {
	args, err := assignArgs(r)
	args = append(args, packPlace(account.Place{Pool: pool}))
	return Ask{locateAndAssignScript, request{keys: s.poolKeys(pool), second: s.directoryKeys(r.Runtime), args: args}}, err
}

// AskAssign returns the request of Assign.
func (s *Store) AskAssign(pool string, r account.Request) (Ask, error) {
	args, err := assignArgs(r)
	return Ask{assignScript, request{keys: s.poolKeys(pool), args: args}}, err
}

// AskConfirm returns the request of Confirm.
func (s *Store) AskConfirm(pool string, c account.Claim) Ask {
	return s.askClaim(confirmScript, pool, c)
}

// AskRevoke returns the request of Revoke.
func (s *Store) AskRevoke(pool string, c account.Claim) Ask { return s.askClaim(revokeScript, pool, c) }

func (s *Store) askClaim(sc script, pool string, c account.Claim) Ask {
	return Ask{sc, request{keys: s.poolKeys(pool), args: []any{c.Runtime, c.Binding, c.Generation, c.Sequence, c.Epoch}}}
}

// AskRelease returns the request of ReleaseRuntime, for no tenant.
func (s *Store) AskRelease(pool, runtime string) Ask {
	return Ask{releaseScript, request{keys: s.poolKeys(pool), args: []any{runtime, "", 0}}}
}

// AskTakeBack returns the request of TakeBack.
func (s *Store) AskTakeBack(pool, runtime, id string) Ask {
	return Ask{takeBackScript, request{keys: s.poolKeys(pool), args: []any{runtime, id}}}
}

// AskDepart returns the request of Depart.
func (s *Store) AskDepart(runtime string) Ask {
	return Ask{locateScript, request{keys: s.directoryKeys(runtime), args: []any{runtime, ""}}}
}

// AskTogether sends all requests in one call of their script, which must be the same, and returns the
// answers as the script returned them.
func (s *Store) AskTogether(ctx context.Context, asks ...Ask) ([]any, error) {
	requests := make([]request, len(asks))
	for i, ask := range asks {
		requests[i] = ask.request
	}
	keys, args := asks[0].script.arguments(asksItself, requests)
	values, err := asks[0].script.Run(ctx, s.client(), keys, args...).Slice()
	if err != nil {
		return nil, err
	}
	answers, _, err := asks[0].script.answers(values, len(asks))
	return answers, err
}

// Lanes are the lanes of a store.
type Lanes struct{ lanes }

// To opens the lane to a server, or uses it again.
func (l *Lanes) To(master *redis.Client) { l.to(master, true) }

// Servers returns the servers that have a lane.
func (l *Lanes) Servers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byServer)
}

// End closes them.
func (l *Lanes) End() { l.close() }
