package ranges

import (
	"context"
	"fmt"
	"hash/fnv"
	"regexp"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// Answers are what the ledger says of who has blocks.
type Answers struct {
	known *account.Gathering
	all   map[string][]events.Reply // assignments by runtime, as they were stored
	Begun []events.Stored           // extra replies that were begun and not ended
}

func newAnswers() *Answers {
	return &Answers{known: account.NewGathering(), all: map[string][]events.Reply{}}
}

// ReadAnswers reads the ledger to its end.
func ReadAnswers(ctx context.Context, ledger Ledger) (*Answers, error) {
	a := newAnswers()
	err := ledger.Each(ctx, func(stored events.Stored) error {
		a.Take(stored)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	return a, nil
}

// Take adds a stored reply, in the order of the ledger.
func (a *Answers) Take(stored events.Stored) {
	r := stored.Reply
	switch {
	case r.RuntimeID == "":
		return
	case r.Status == events.StatusSealed:
		if extraID.MatchString(r.RequestID) {
			a.Begun = append(a.Begun, stored)
		}
		return
	case r.Status == events.StatusAssigned:
		a.all[r.RuntimeID] = append(a.all[r.RuntimeID], r)
	}
	a.known.Answer(r.Fact().Answer())
}

// live returns the answers of the runtimes that are assigned still, and says which
// runtimes are gone; of others nothing is known yet.
func (a *Answers) live() (live map[string][]events.Reply, gone map[string]bool) {
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
// the first has it.
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
