package campaign

import "github.com/hap-worker/hap-worker/worker/simulation/plans"

// Failure is a fault that is not cured, and how a history shows it. A cure takes it off
// the list: TestKnownFailures fails once it is not found any more.
type Failure struct {
	Name   string
	Edge   int          // the line of the list of edges
	Seed   uint64       // from which on it is looked for
	Kinds  []plans.Kind // that a plan draws from
	Breaks string       // how the violation begins
}

// Failures are the known ones.
var Failures = []Failure{
	{"answered, and not in Redis", 2, 2949, plans.Faults, "I6 CountsTrue: runtime rt-456 is answered"},
	{"a bucket lacks a runtime of its pool", 2, 13541, plans.Faults, "I6 CountsTrue: runtime rt-293 is on"},
	{"an account drains for ever", 2, 8266, plans.Faults, "I8 NothingLost: b-2 drains"},
	{"an account is idle for ever", 2, 10252, plans.Faults, "I8 NothingLost: b-3 is idle"},
}
