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
	"strconv"

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
	ids      compact.IDs
	clusters compact.Alike[*events.Cluster]
	rules    compact.Alike[[]network.Applied]
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
	cluster  *events.Cluster // nil if the event described none
	applied  []network.Applied
	fault    error // why the blocks cannot be parsed; then applied is nil
}

// kept is an answer in memory. Each cluster has at least one, and there may be a million.
type kept struct {
	request    compact.ID
	sequence   int64
	shoot      string
	*described       // nil for the zero value
	earlier    *kept // the assignment of the same runtime before it in the ledger
}

// described is the part of an answer that only one with a cluster or blocks has.
type described struct {
	name    string            // of the cluster
	cluster *events.Cluster   // without its name; nil if the event described none
	rules   []network.Applied // with the CIDRs of any answer
	cidrs   []byte            // those of this answer, each after its length
	fault   error
}

func newAnswers() *Answers { return &Answers{runtimes: map[compact.ID]history{}} }

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
		h.last = a.kept(answerOf(r), h.last)
	}
	h.Fate = h.With(storage.FactOf(r).Answer())
	a.runtimes[id] = h
}

// answerOf returns the part of an assignment that network blocks need.
func answerOf(r events.Reply) answer {
	part := answer{request: r.RequestID, sequence: cmp.Or(r.Decision, &events.Decision{}).Sequence, shoot: r.ShootName, cluster: r.Cluster}
	part.applied, part.fault = appliedOf(r.Network)
	return part
}

func (a *Answers) kept(part answer, earlier *kept) *kept {
	k := &kept{request: a.ids.Of(part.request), sequence: part.sequence, shoot: part.shoot, earlier: earlier}
	if part.cluster == nil && part.applied == nil && part.fault == nil {
		return k
	}
	k.described = &described{fault: part.fault}
	if c := part.cluster; c != nil {
		if k.name = c.Name; c.Name == k.shoot {
			k.name = k.shoot
		}
		k.cluster = a.cluster(*c)
	}
	k.rules = a.withoutCIDRs(part.applied)
	for _, b := range blocksOf(part.applied) {
		cidr, _ := b.MarshalBinary() // never fails
		k.cidrs = append(append(k.cidrs, byte(len(cidr))), cidr...)
	}
	k.cidrs = slices.Clip(k.cidrs)
	return k
}

// cluster returns what a cluster may have in common with others.
func (a *Answers) cluster(c events.Cluster) *events.Cluster {
	c.Name = ""
	texts := append([]string{c.Namespace, strconv.Itoa(len(c.Purposes))}, c.Purposes...)
	for _, label := range slices.Sorted(maps.Keys(c.Labels)) {
		texts = append(texts, label, c.Labels[label])
	}
	return a.clusters.Once(&c, texts...)
}

// withoutCIDRs returns what blocks of several clusters have in common.
func (a *Answers) withoutCIDRs(applied []network.Applied) []network.Applied {
	var texts []string
	for _, rule := range applied {
		texts = append(texts, rule.Rule, strconv.Itoa(len(rule.Blocks)))
		for _, b := range rule.Blocks {
			texts = append(append(texts, b.ID, strconv.Itoa(len(b.Paths))), b.Paths...)
		}
	}
	return a.rules.Once(applied, texts...)
}

// of returns the answers of a runtime, in the order of the ledger.
func (a *Answers) of(runtime string) []answer { return a.all(a.runtimes[a.ids.Of(runtime)]) }

func (a *Answers) all(of history) []answer {
	var all []answer
	for k := of.last; k != nil; k = k.earlier {
		part := answer{request: a.ids.Text(k.request), sequence: k.sequence, shoot: k.shoot}
		if d := k.described; d != nil {
			part.applied, part.fault = d.applied(), d.fault
			if d.cluster != nil {
				c := *d.cluster
				c.Name, part.cluster = d.name, &c
			}
		}
		all = append(all, part)
	}
	slices.Reverse(all)
	return all
}

// applied returns the rules with the CIDRs of their blocks.
func (d *described) applied() []network.Applied {
	all, left := slices.Clone(d.rules), d.cidrs
	for i := range all {
		all[i].Blocks = slices.Clone(all[i].Blocks)
		for j := range all[i].Blocks {
			end := 1 + int(left[0])
			_ = all[i].Blocks[j].CIDR.UnmarshalBinary(left[1:end]) // kept has written it
			left = left[end:]
		}
	}
	return all
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

// applies reports whether an answer of a live runtime has the rule, or any rule if that is "".
func (a *Answers) applies(runtime, rule string) bool {
	h := a.runtimes[a.ids.Of(runtime)]
	for k := h.last; k != nil && h.Assigned(); k = k.earlier {
		if k.described != nil && applies(k.rules, rule) {
			return true
		}
	}
	return false
}

// applies reports whether the rule is one of those that were applied, or any was if it is "".
func applies(applied []network.Applied, rule string) bool {
	return slices.ContainsFunc(applied, func(a network.Applied) bool { return rule == "" || a.Rule == rule })
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
