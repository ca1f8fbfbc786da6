package simulation

// Fault is a fault of the production code that a run passes over until it is cured.
type Fault string

// WaitingBlocks breaks "a request that waits for either holds neither": until it ends, it
// keeps network blocks that a handling of it could not return.
const WaitingBlocks Fault = "a request that waits keeps the blocks of a handling whose return was lost"

// tolerated reports whether a violation is passed over, since it is one of a known fault.
func (w *world) tolerated(f Fault, is bool) bool { return is && w.plan.Strict != f }

// Failure is a fault that is not cured, and how a history shows it. A cure takes it off
// the list: TestKnownFailures fails once it is not found any more.
type Failure struct {
	Name   string
	Edge   int    // the line of the list of edges, 0 for one that the simulation found
	Seed   uint64 // from which on it is looked for
	Kinds  []Kind // that a plan draws from
	Strict Fault
	Breaks string // how the violation begins
}

// Failures are the known ones.
var Failures = []Failure{
	{Name: "two masters decide", Seed: 14, Edge: 2, Kinds: []Kind{TwoMasters}, Breaks: "I"},
	{Name: "a fail-over and back loses writes", Edge: 3, Kinds: []Kind{FailBack}, Breaks: "I"},
	{Name: "a deprovision under the id of its provision is executed", Edge: 7, Kinds: []Kind{TypeTwice}, Breaks: "I"},
	{Name: "a binding in use moves to another pool", Seed: 149, Edge: 12, Kinds: []Kind{MovedUsed}, Breaks: "I"},
	{Name: string(WaitingBlocks), Seed: 105, Kinds: Faults, Strict: WaitingBlocks, Breaks: "I9"},
}
