package config

import (
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with a configuration.
type Fault struct {
	Path     string // of the key, as in hap.waiting.timeout; elements of lists count from 1. "" is the file as a whole
	Line     int    // in the file; 0 where the value is not from a file
	Variable string // of the environment, where the value is from there
	Message  string
}

// String is the fault on one line.
func (f Fault) String() string {
	var place string
	switch {
	case f.Variable != "":
		place = fmt.Sprintf("%s (%s)", f.Path, f.Variable)
	case f.Line > 0 && f.Path == "":
		place = fmt.Sprintf("line %d", f.Line)
	case f.Line > 0:
		place = fmt.Sprintf("%s (line %d)", f.Path, f.Line)
	default:
		place = f.Path
	}
	if place == "" {
		return f.Message
	}
	return place + ": " + f.Message
}

// Invalid is a configuration that cannot be used, with everything that is wrong
// with it. A program that is started with one ends with exit code 3.
type Invalid struct {
	File   string // "" where there is none
	Faults []Fault
	cause  error
}

// Error has one fault per line.
func (e *Invalid) Error() string {
	lines := make([]string, 0, len(e.Faults))
	for _, fault := range e.Faults {
		line := fault.String()
		if e.File != "" && fault.Variable == "" {
			line = e.File + ": " + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the error of the file system where the file could not be read.
func (e *Invalid) Unwrap() error { return e.cause }

// faults collects what is wrong.
type faults struct {
	list   []Fault
	broken map[string]bool // the keys whose value could not be read
}

func (f *faults) add(path, format string, args ...any) {
	if !f.broken[path] {
		f.list = append(f.list, Fault{Path: path, Message: fmt.Sprintf(format, args...)})
	}
}

// unreadable is the only fault of its key: what stands there instead of the value means nothing.
func (f *faults) unreadable(path, format string, args ...any) {
	f.add(path, format, args...)
	if f.broken == nil {
		f.broken = map[string]bool{}
	}
	f.broken[path] = true
}

// sources says where each key's value is from.
type sources struct {
	lines     map[string]int
	variables map[string]string
}

// place fills in where the key of a fault was set, or the section that it is missing from.
func (s sources) place(f Fault) Fault {
	if f.Line > 0 {
		return f
	}
	for path := f.Path; path != ""; path = parent(path) {
		if name, found := s.variables[path]; found {
			f.Variable = name
			return f
		}
		if line, found := s.lines[path]; found {
			f.Line = line
			return f
		}
	}
	return f
}

func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// err is an Invalid with all faults in the order of the file, or nil.
func (f *faults) err(file string, from sources) error {
	if len(f.list) == 0 {
		return nil
	}
	for i := range f.list {
		f.list[i] = from.place(f.list[i])
	}
	slices.SortStableFunc(f.list, func(a, b Fault) int { return a.Line - b.Line })
	return &Invalid{File: file, Faults: f.list}
}
