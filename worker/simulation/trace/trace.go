// Package trace records the steps of a history, and prints them.
package trace

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
)

// Operations that the trace mostly leaves out when it is printed.
const (
	Time  = "time passes"
	Ask   = "ask for an event"
	Info  = "look at the consumer"
	Built = "built"
	Pools = "pools"
)

// Trace is the steps of a history, in their order.
type Trace struct {
	Steps []Step
	Hash  uint64 // of the steps; comparable only within one process
}

// hashSeed seeds the hashes of all traces.
var hashSeed = maphash.MakeSeed()

// Step is one line of a trace.
type Step struct {
	At                  time.Duration // since the beginning of the history
	Actor, Op, Arg, How string
}

func (s Step) String() string {
	text := fmt.Sprintf("%8s  ", s.At.Truncate(100*time.Millisecond))
	if s.Actor != "" {
		text += s.Actor + ": "
	}
	text += s.Op
	if s.Arg != "" {
		text += " " + s.Arg
	}
	if s.How != "" {
		text += " (" + s.How + ")"
	}
	return text
}

// dull reports whether a reader can do without the step.
func (s Step) dull() bool {
	nothing := strings.Contains(s.How, "message not found")
	return s.How == "the answer arrives" || s.Op == Built && s.How == "" || strings.HasPrefix(s.Op, "state of") ||
		nothing && strings.Contains(s.Arg, ".waiting.") || nothing && strings.HasPrefix(s.Arg, ">") ||
		s.Op == Ask || s.Op == Info || s.Op == "looks at all labels" || strings.Contains(s.Actor, " sweep ") && (s.Op == Pools || s.Op == "bindings")
}

// Note adds a step.
func (t *Trace) Note(s Step) {
	t.Steps = append(t.Steps, s)
	t.Hash = t.Hash*1099511628211 ^ maphash.Comparable(hashSeed, [...]string{s.Actor, s.Op, s.Arg, s.How})
}

// Prose prints the steps that are not dull, one a line. Of consecutive steps of time, it prints the last.
func (t *Trace) Prose() string {
	var text strings.Builder
	steps := slices.DeleteFunc(slices.Clone(t.Steps), Step.dull)
	for i, s := range steps {
		if s.Op != Time || i+1 == len(steps) || steps[i+1].Op != Time {
			fmt.Fprintf(&text, "%s\n", s)
		}
	}
	return text.String()
}

// Label describes the labels of a binding.
func Label(b engine.Binding) string {
	text := "unclaimed"
	if b.Tenant != "" {
		text = "of " + b.Tenant
	}
	if b.Dirty {
		text += ", dirty"
	}
	if b.Cordoned {
		text += ", cordoned"
	}
	if b.Deleting {
		text += ", being deleted"
	}
	return fmt.Sprintf("%s, generation %d, in pool %s", text, b.Generation, b.Pool().Name())
}

// Parting returns the first steps in which two traces differ, and the few before them.
func (t *Trace) Parting(other *Trace) string {
	at := 0
	for at < min(len(t.Steps), len(other.Steps)) && t.Steps[at] == other.Steps[at] {
		at++
	}
	var text strings.Builder
	for i := max(0, at-8); i < at; i++ {
		fmt.Fprintf(&text, "\n  %s", t.Steps[i])
	}
	for _, side := range [][]Step{t.Steps, other.Steps} {
		text.WriteString("\nthen")
		for i := at; i < min(at+4, len(side)); i++ {
			fmt.Fprintf(&text, "\n  %s", side[i])
		}
	}
	return text.String()
}

// Reply describes a reply.
func Reply(r events.Reply) string {
	var said []string
	if r.Binding != nil {
		said = append(said, fmt.Sprintf("%s, claim %d", r.Binding.Name, r.Binding.Generation))
	}
	if r.Decision != nil {
		said = append(said, fmt.Sprintf("decision %d of pool %s", r.Decision.Sequence, r.Decision.Pool))
	}
	for _, n := range r.Network {
		said = append(said, n.CIDR)
	}
	if r.Error != nil {
		said = append(said, string(r.Error.Code))
	}
	return strings.Join(said, ", ")
}
