package worker

import (
	"context"
	"fmt"
	"hash/fnv"
	"regexp"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// assignments are what the ledger says of who has blocks.
type assignments struct {
	known  *account.Gathering
	all    map[string][]events.Reply // assignments by runtime, as they were stored
	intent []events.Stored           // extra replies that were begun and not ended
}

func newAssignments() *assignments {
	return &assignments{known: account.NewGathering(), all: map[string][]events.Reply{}}
}

// readAssignments reads the ledger to its end.
func readAssignments(ctx context.Context, archive Archive) (*assignments, error) {
	a := newAssignments()
	err := archive.Each(ctx, func(stored events.Stored) error {
		a.take(stored)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	return a, nil
}

func (a *assignments) take(stored events.Stored) {
	r := stored.Reply
	switch {
	case r.RuntimeID == "":
		return
	case r.Status == events.StatusSealed:
		if extraID.MatchString(r.RequestID) {
			a.intent = append(a.intent, stored)
		}
		return
	case r.Status == events.StatusAssigned:
		a.all[r.RuntimeID] = append(a.all[r.RuntimeID], r)
	}
	a.known.Answer(answerOf(r.Fact()))
}

// live gives the assignments of the runtimes that are assigned still, and says which
// runtimes are gone; of others nothing is known yet.
func (a *assignments) live() (live map[string][]events.Reply, gone map[string]bool) {
	live, gone = map[string][]events.Reply{}, map[string]bool{}
	for _, pool := range a.known.Snapshots() {
		for runtime, rt := range pool.Runtimes {
			switch rt.State {
			case account.RuntimeAssigned:
				live[runtime] = a.all[runtime]
			case account.RuntimeGone:
				gone[runtime] = true
			default:
			}
		}
	}
	return live, gone
}

// extraID is the form of the ids of extra replies. A publisher may use one as well:
// whoever comes first has it.
var extraID = regexp.MustCompile(`-net[1-9][0-9]*$`)

// extraRequest is the id of the nth extra reply, from 1, beside the answer to a
// request. A request id that leaves no room is shortened, with a hash.
func extraRequest(request string, n int) string {
	suffix := fmt.Sprintf("-net%d", n)
	if len(request)+len(suffix) <= engine.MaxID {
		return request + suffix
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(request)) // never fails
	suffix = fmt.Sprintf("-%08x%s", sum.Sum32(), suffix)
	return request[:engine.MaxID-len(suffix)] + suffix
}
