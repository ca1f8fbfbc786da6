package ranges

import (
	"context"
	"fmt"
	"hash/fnv"
	"regexp"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/storage"
)

// Answers collects from the ledger which runtimes have which blocks.
type Answers struct {
	known *account.Gathering
	all   map[string][]events.Reply // assignments by runtime, in the order of the ledger
	Begun []events.Stored           // sealed extra replies: announced, and not stored
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

// Take adds a stored reply. Replies must be added in the order of the ledger.
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
	a.known.Answer(storage.FactOf(r).Answer())
}

// live returns the answers of the runtimes that are still assigned, and the set of runtimes that are gone. A
// runtime in neither waits, was refused, or is not in the ledger.
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

// extraID matches the ids of extra replies. A publisher may use such an id too: then the first message under
// the id stands.
var extraID = regexp.MustCompile(`-net[1-9][0-9]*$`)

// extraRequest returns the id of the nth extra reply, from 1, to a request. A request id that is too long for
// the suffix is truncated, and a hash of it is added.
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
