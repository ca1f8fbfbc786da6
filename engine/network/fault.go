package network

import "strings"

// Kind sorts faults by what has to be done about them.
type Kind string

// The kinds of faults and warnings.
const (
	Syntax    Kind = "syntax"    // not readable, an unknown field, a value of another type, or one missing
	Value     Kind = "value"     // a value that is not possible here
	Duplicate Kind = "duplicate" // an id, a path or a field that is there already
	Overlap   Kind = "overlap"   // two parents have addresses in common
	Reference Kind = "reference" // a parent that does not exist
	Size      Kind = "size"      // a subnet that its parent has no room for
	Conflict  Kind = "conflict"  // one path in two rules that one cluster can match
	Unused    Kind = "unused"    // warning: it has no effect
)

// Fault is one thing that is wrong with a configuration, or worth a warning.
type Fault struct {
	Path    string `json:"path,omitempty"` // such as spec.injectionRules[0].id, "" for the file as a whole
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
}

// Error gives path, kind and message.
func (f Fault) Error() string {
	if f.Path == "" {
		return string(f.Kind) + ": " + f.Message
	}
	return f.Path + ": " + string(f.Kind) + ": " + f.Message
}

// Faults is everything that is wrong with a configuration, in the order of the
// fields of IPAMConfig; what is between rules comes last.
type Faults []Fault

// Error gives one fault a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].Error()
	}
	return strings.Join(lines, "\n")
}
