package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind sorts faults by what is wrong.
type Kind string

// The kinds of faults, and that of the warnings that are no fault.
const (
	Syntax    Kind = "syntax"    // no YAML, or a value of another form than is expected there
	Missing   Kind = "missing"   // something that must be there is not
	Unknown   Kind = "unknown"   // a field that does not exist
	Duplicate Kind = "duplicate" // something is there twice
	Version   Kind = "version"   // a version of the document that is not understood
	Redundant Kind = "redundant" // warning: the document means the same without it
)

// Fault is one thing that is wrong with a policy, a manifest or a TypeInstance,
// or worth a warning.
type Fault struct {
	File    string `json:"file,omitempty"` // of a catalog; empty where there is one file only
	Line    int    `json:"line,omitempty"` // counted from 1; 0 where no line is at fault
	Path    string `json:"path"`           // of the field, such as rules[cap.*].oneOf[0]; empty for the document
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
}

// Error names file, line and field, then what is wrong.
func (f Fault) Error() string {
	var b strings.Builder
	switch {
	case f.File != "" && f.Line > 0:
		fmt.Fprintf(&b, "%s:%d: ", f.File, f.Line)
	case f.File != "":
		fmt.Fprintf(&b, "%s: ", f.File)
	case f.Line > 0:
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults is everything that is wrong, by file and line.
type Faults []Fault

// Error gives one fault a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].Error()
	}
	return strings.Join(lines, "\n")
}

// sorted orders the faults by place; those of one line keep their order.
func (f Faults) sorted() Faults {
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return f
}

// orNil keeps an empty list from becoming an error that is not nil.
func (f Faults) orNil() error {
	if len(f) == 0 {
		return nil
	}
	return f.sorted()
}
