// Package build returns the version and commit of the running program.
package build

import (
	"runtime"
	"runtime/debug"
)

// Info is the build information that the Go tool writes into a program. A field is "" if it is unknown.
type Info struct {
	Version  string // of the main module; "" if the Go tool wrote "(devel)"
	Revision string // commit
	Go       string // version of Go
}

// Read returns the Info of the running program.
func Read() Info {
	told, _ := debug.ReadBuildInfo()
	return of(told)
}

// of returns the Info of a build. told is nil for a program that was built without modules.
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
