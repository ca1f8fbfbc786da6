package account

// Fate says where a runtime is by its replies. The zero value is that of a runtime without replies.
type Fate struct {
	sequence int64
	weight   weight
	pooled   bool // the reply names a pool
}

// weight orders replies that have one sequence: a release and the Superseded of the waiting request do, and a waiting
// reply to one request and the assignment by another request of the runtime may. Of these, one that makes the runtime
// gone counts more than an assignment, and an assignment more than the rest.
type weight uint8

const (
	other weight = 1 + iota
	assigned
	gone
	goneFrom // and it names the binding
)

func weightOf(s RuntimeState, binding string) weight {
	switch {
	case s == RuntimeGone && binding != "":
		return goneFrom
	case s == RuntimeGone:
		return gone
	case s == RuntimeAssigned:
		return assigned
	default:
		return other
	}
}

// With returns the fate by one reply more.
func (f Fate) With(a Answer) Fate {
	if !a.tells() || !a.replaces(f) {
		return f
	}
	return a.fate()
}

// replaces reports whether the answer counts instead of those before it. Of the replies about a runtime, the one with
// the highest sequence counts, not the newest one: a worker that paused may have published late. A runtime that was
// gone before it had a pool stays gone: the sequence of that reply is one of the directory, and no assignment follows
// it, except one from before a loss.
func (a Answer) replaces(f Fate) bool {
	by := a.fate()
	switch {
	case f.Gone() && !f.pooled && by.pooled:
		return false
	case by.Gone() && !by.pooled && f.pooled:
		return true
	case by.sequence == f.sequence:
		return by.weight > f.weight
	default:
		return by.sequence > f.sequence
	}
}

func (a Answer) fate() Fate { return Fate{a.Sequence, weightOf(a.State, a.Binding), a.Pool != ""} }

// Assigned reports whether the runtime has a binding.
func (f Fate) Assigned() bool { return f.weight == assigned }

// Gone reports whether the runtime is gone. One that is neither assigned nor gone waits, was refused, or has no reply.
func (f Fate) Gone() bool { return f.weight >= gone }

// tells reports whether the answer says where a runtime is.
func (a Answer) tells() bool {
	return a.Runtime != "" && a.Sequence != 0 && a.State != "" && (a.State != RuntimeAssigned || a.Binding != "")
}

// fate returns the fate by the replies so far.
func (r resident) fate() Fate {
	return Fate{r.sequence, weightOf(r.state, r.at.binding), r.at.pool != ""}
}
