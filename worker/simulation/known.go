package simulation

// Failure is a fault that is not cured, and how a history shows it. A cure takes it off
// the list: TestKnownFailures fails once it is not found any more.
type Failure struct {
	Name   string
	Edge   int    // the line of the list of edges
	Seed   uint64 // from which on it is looked for
	Kinds  []Kind // that a plan draws from
	Breaks string // how the violation begins
}

// Failures are the known ones.
var Failures []Failure
