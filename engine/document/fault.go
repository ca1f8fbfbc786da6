package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind classifies faults. Packages that read documents define further kinds.
type Kind string

// The kinds of faults that every document can have.
const (
	Syntax    Kind = "syntax"    // no YAML, or a value of another form than is expected there
	Value     Kind = "value"     // a value that is not possible here
	Missing   Kind = "missing"   // something that must be there is not
	Unknown   Kind = "unknown"   // a field that does not exist
	Duplicate Kind = "duplicate" // something is there twice
)

// Fault is one thing that is wrong with a document, or worth a warning.
type Fault struct {
	File    string `json:"file,omitempty"`   // or the environment variable; empty if the reader was given no name
	Line    int    `json:"line,omitempty"`   // counted from 1; 0 where no line is at fault
	Column  int    `json:"column,omitempty"` // in Line, counted from 1; 0 where only the line is known
	Path    string `json:"path"`             // of the field, such as rules[cap.*].oneOf[0]; empty for the document
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
}

// Error names file, line and field, then the fault.
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

// Faults are faults of one or several documents, or warnings about them.
type Faults []Fault

// Error returns one fault per line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Sorted sorts the faults in place by file and line, and returns them. Faults of one line keep their order.
func (f Faults) Sorted() Faults {
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return f
}

// OrNil returns f as an error, nil if it is empty.
func (f Faults) OrNil() error {
	if len(f) == 0 {
		return nil
	}
	return f
}
