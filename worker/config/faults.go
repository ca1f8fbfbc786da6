package config

import (
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine/document"
)

// faults collects faults of the configuration.
type faults struct {
	list   document.Faults
	broken map[string]bool // keys whose value could not be read; add ignores them
}

func (f *faults) add(path, format string, args ...any) {
	if !f.broken[path] {
		var r document.Reader
		r.Whole(document.Value, format, args...)
		r.Faults[0].Path = path
		f.list = append(f.list, r.Faults[0])
	}
}

// take adds the faults of a reader. The keys of these faults, except duplicates, get no further faults, since
// further ones would be about the default that stays in place.
func (f *faults) take(found document.Faults) {
	f.list = append(f.list, found...)
	f.broken = map[string]bool{}
	for i := range found {
		f.broken[found[i].Path] = found[i].Kind != document.Duplicate
	}
}

// sources records where the value of each key was set: a line of the file, or a variable.
type sources struct {
	lines     map[string]int
	variables map[string]string
}

// place sets where the key of a fault was set: file and line, or the variable in place of the file. For a key
// that was not set, it takes the nearest list or section above that was.
func (s sources) place(file string, f *document.Fault) {
	if f.File != "" {
		return // it has its variable already
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

// err returns all faults in the order of the file; nil if there are none. Faults without a line, such as
// those of variables, come first.
func (f *faults) err(file string, from sources) error {
	for i := range f.list {
		from.place(file, &f.list[i])
	}
	slices.SortStableFunc(f.list, func(a, b document.Fault) int { return a.Line - b.Line })
	return f.list.OrNil()
}

// unread is the error for a file that cannot be read. It unwraps to faults and to the error of the file system.
type unread struct {
	document.Faults

	cause error
}

func (u unread) Unwrap() []error { return []error{u.Faults, u.cause} }
