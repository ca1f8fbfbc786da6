// Package build says what the running program was built from.
package build

import (
	"runtime"
	"runtime/debug"
)

// Info has what the Go tool has written into a program. A field that is "" is not known.
type Info struct {
	Version  string // of the main module; "" for a build of a working tree that has none
	Revision string // the commit
	Go       string // the version of Go
}

// Read returns the Info of the running program.
func Read() Info {
	told, _ := debug.ReadBuildInfo()
	return of(told)
}

// of takes nil for a program that was built without modules.
func of(told *debug.BuildInfo) Info {
	info := Info{Go: runtime.Version()}
	if told == nil {
		return info
	}
	if told.Main.Version != "(devel)" {
		info.Version = told.Main.Version
	}
	for _, setting := range told.Settings {
		if setting.Key == "vcs.revision" {
			info.Revision = setting.Value
		}
	}
	return info
}
