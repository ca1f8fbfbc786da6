package ranges

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/compact"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// Answers collects from the ledger which runtimes have which blocks.
type Answers struct {
	runtimes map[compact.ID]history
	Begun    []events.Stored // sealed extra replies: announced, and not stored
	last     uint64          // sequence of the last reply that ReadAnswers has read

	// What many answers have in common is kept once.
	ids    compact.IDs
	names  compact.Texts
	lists  compact.Lists
	labels map[string]map[string]string
}

// history has a runtime's replies.
type history struct {
	account.Fate
	last *kept // its last assignment; nil for none
}

// answer is the part of a stored assignment that network blocks need.
type answer struct {
	request  string
	sequence int64 // of the decision
	shoot    string
	described
}

// described is the part of an answer that only one with a cluster or blocks has.
type described struct {
	cluster *events.Cluster // nil if the event described none
	applied []network.Applied
	fault   error // why the blocks cannot be parsed; then applied is nil
}

// kept is an answer in memory. Each cluster has at least one, and there may be a million.
type kept struct {
	request    compact.ID
	sequence   int64
	shoot      string
	*described       // nil for the zero value
	earlier    *kept // the assignment of the same runtime before it in the ledger
}

func newAnswers() *Answers {
	return &Answers{runtimes: map[compact.ID]history{}, labels: map[string]map[string]string{}}
}

// ReadAnswers reads the ledger to its end.
func ReadAnswers(ctx context.Context, ledger Ledger) (*Answers, error) {
	a := newAnswers()
	err := ledger.EachAfter(ctx, 0, func(stored events.Stored) error {
		a.Take(stored)
		a.last = stored.Sequence
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	return a, nil
}

// readAnswersOf reads the answers of one runtime.
func readAnswersOf(ctx context.Context, ledger Ledger, runtime string) (*Answers, error) {
	a := newAnswers()
	err := ledger.OfRuntime(ctx, runtime, func(stored events.Stored) error {
		a.Take(stored)
		return nil
	})
	return a, err
}

// Take adds a stored reply. Replies must be added in the order of the ledger.
func (a *Answers) Take(stored events.Stored) {
	r := stored.Reply
	switch {
	case r.RuntimeID == "":
		return
	case r.Status == events.StatusSealed:
		if extraID.MatchString(r.RequestID) && r.For == "" {
			a.Begun = append(a.Begun, stored)
		}
		return
	}
	id := a.ids.Of(r.RuntimeID)
	h := a.runtimes[id]
	if r.Status == events.StatusAssigned {
		h.last = a.kept(a.answer(r), h.last)
	}
	h.Fate = h.With(storage.FactOf(r).Answer())
	a.runtimes[id] = h
}

// answer returns the part of an assignment that is kept.
func (a *Answers) answer(r events.Reply) answer {
	part := answer{request: r.RequestID, sequence: cmp.Or(r.Decision, &events.Decision{}).Sequence, shoot: r.ShootName}
	if c := r.Cluster; c != nil {
		part.cluster = &events.Cluster{Name: c.Name, Namespace: a.names.Once(c.Namespace), Purposes: a.lists.Once(c.Purposes), Labels: a.label(c.Labels)}
		if c.Name == r.ShootName {
			part.shoot = c.Name
		}
	}
	part.applied, part.fault = appliedOf(r.Network)
	for i := range part.applied {
		rule := &part.applied[i]
		rule.Rule = a.names.Once(rule.Rule)
		for j := range rule.Blocks {
			rule.Blocks[j].ID, rule.Blocks[j].Paths = a.names.Once(rule.Blocks[j].ID), a.lists.Once(rule.Blocks[j].Paths)
		}
	}
	return part
}

func (a *Answers) kept(part answer, earlier *kept) *kept {
	k := &kept{request: a.ids.Of(part.request), sequence: part.sequence, shoot: part.shoot, earlier: earlier}
	if d := part.described; d.cluster != nil || d.applied != nil || d.fault != nil {
		k.described = &d
	}
	return k
}

// of returns the answers of a runtime, in the order of the ledger.
func (a *Answers) of(runtime string) []answer { return a.all(a.runtimes[a.ids.Of(runtime)]) }

func (a *Answers) all(of history) []answer {
	var all []answer
	for k := of.last; k != nil; k = k.earlier {
		part := answer{request: a.ids.Text(k.request), sequence: k.sequence, shoot: k.shoot}
		if k.described != nil {
			part.described = *k.described
		}
		all = append(all, part)
	}
	slices.Reverse(all)
	return all
}

func (a *Answers) label(set map[string]string) map[string]string {
	key := make([]string, 0, 2*len(set))
	for _, name := range slices.Sorted(maps.Keys(set)) {
		key = append(key, name, set[name])
	}
	joined := strings.Join(key, "\x00")
	if known, there := a.labels[joined]; there {
		return known
	}
	a.labels[joined] = set
	return set
}

// live returns the answers of a runtime, and whether it is still assigned.
func (a *Answers) live(runtime string) ([]answer, bool) {
	if h := a.runtimes[a.ids.Of(runtime)]; h.Assigned() {
		return a.all(h), true
	}
	return nil, false
}

// eachLive visits the runtimes that are still assigned.
func (a *Answers) eachLive() iter.Seq2[string, []answer] {
	return func(yield func(string, []answer) bool) {
		for id, h := range a.runtimes {
			if h.Assigned() && !yield(a.ids.Text(id), a.all(h)) {
				return
			}
		}
	}
}

// gone reports whether a runtime is gone.
func (a *Answers) gone(runtime string) bool { return a.runtimes[a.ids.Of(runtime)].Gone() }

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
