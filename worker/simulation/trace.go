package simulation

import (
	"fmt"
	"hash/maphash"
	"time"
)

// hashSeed is that of the hashes of traces: two are compared in one process alone.
var hashSeed = maphash.MakeSeed()

// Step is one line of a trace.
type Step struct {
	Moment              int
	Actor, Op, Arg, How string
}

func (s Step) String() string {
	text := fmt.Sprintf("%8s  ", (time.Duration(s.Moment) * moment).Truncate(100*time.Millisecond))
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

// note adds a line to the trace.
func (w *world) note(actor, op, arg, how string) {
	w.trace = append(w.trace, Step{w.moments, actor, op, arg, how})
	w.hash = w.hash*1099511628211 ^ maphash.Comparable(hashSeed, [...]string{actor, op, arg, how})
}
