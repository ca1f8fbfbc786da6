// Package origin finds the commit and the machine of a measurement, for programs that print them with their figures.
package origin

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// unknown stands for what cannot be found out, such as the commit of sources without git.
const unknown = "unknown"

// Origin is the commit and the machine of a measurement.
type Origin struct {
	Commit  string `json:"commit"`  // "unknown" without git; ends in -dirty if tracked files differ from it
	Machine string `json:"machine"` // cores, processor, system and Go's version
}

// Of returns the origin of what this process measures.
func Of(ctx context.Context) Origin {
	o := Origin{Commit: unknown, Machine: fmt.Sprintf("%d x %s, %s/%s, %s", runtime.NumCPU(), processor(), runtime.GOOS, runtime.GOARCH, runtime.Version())}
	root, err := stack.Root()
	if err != nil {
		return o
	}
	// The hash without a tag: in a clone that lacks the tag, make bench-guard could not find the commit by its name.
	out, err := exec.CommandContext(ctx, "git", "-C", root, "describe", "--always", "--dirty", "--exclude=*").Output()
	if err == nil {
		o.Commit = strings.TrimSpace(string(out))
	}
	return o
}

func (o Origin) String() string { return fmt.Sprintf("commit %s, %s", o.Commit, o.Machine) }

// processor returns the processor's name in /proc/cpuinfo, or unknown.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return unknown
	}
	for line := range strings.Lines(string(info)) {
		if name, is := strings.CutPrefix(line, "model name"); is {
			return strings.TrimLeft(strings.TrimSpace(name), ": ")
		}
	}
	return unknown
}
