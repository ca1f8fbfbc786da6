package config

import (
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine/document"
)

// faults collects what is wrong.
type faults struct {
	list   document.Faults
	broken map[string]bool // the keys whose value could not be read
}

func (f *faults) add(path, format string, args ...any) {
	if !f.broken[path] {
		var r document.Reader
		r.Whole(document.Value, format, args...)
		r.Faults[0].Path = path
		f.list = append(f.list, r.Faults[0])
	}
}

// take adds what a reader found. That is the only fault of its key: what stands
// there instead of the value means nothing.
func (f *faults) take(found document.Faults) {
	f.list = append(f.list, found...)
	f.broken = map[string]bool{}
	for i := range found {
		f.broken[found[i].Path] = found[i].Kind != document.Duplicate
	}
}

// sources says where each key's value is from.
type sources struct {
	lines     map[string]int
	variables map[string]string
}

// place fills in where the key of a fault was set, or the section that it is missing from.
func (s sources) place(file string, f *document.Fault) {
	if f.File != "" {
		return // a variable
	}
	f.File = file
	for path := f.Path; path != "" && f.Line == 0; path = path[:max(0, strings.LastIndexAny(path, ".["))] {
		if name, found := s.variables[path]; found {
			f.File = name
			return
		}
		f.Line = s.lines[path]
	}
}

// err is all faults in the order of the file, those of variables first, or nil.
func (f *faults) err(file string, from sources) error {
	for i := range f.list {
		from.place(file, &f.list[i])
	}
	slices.SortStableFunc(f.list, func(a, b document.Fault) int { return a.Line - b.Line })
	return f.list.OrNil()
}

// unread is a file that cannot be read: faults, and the error of the file system.
type unread struct {
	document.Faults

	cause error
}

func (u unread) Unwrap() []error { return []error{u.Faults, u.cause} }
