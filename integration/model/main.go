// Command model explores the account protocol: all interleavings of the workers' steps, with a limited number
// of crashes, second deliveries, losses of Redis and other faults. docs/model.md describes the model.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

func main() {
	err := run(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errBroken):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(2)
	}
}

var errBroken = errors.New("an invariant is broken")

func run(args []string, out io.Writer) error {
	fs := flag.NewFlagSet("model", flag.ContinueOnError)
	name := fs.String("config", "base", "the world to explore")
	set := fs.String("set", "", "what to change of it: dup=1,loss=1,workers=3")
	off := fs.String("off", "", "rules that workers do not keep: seal,rvFirst")
	states := fs.Int("states", 5_000_000, "give up beyond so many states (about 250 bytes each)")
	limit := fs.Duration("time", 5*time.Minute, "give up after this time")
	stop := fs.Bool("stop", false, "stop at the first violation")
	fs.Usage = func() { usage(fs) }
	fs.SetOutput(out)
	if err := fs.Parse(args); err != nil {
		return err
	}
	c, known := configs[*name]
	if !known {
		return fmt.Errorf("no configuration is called %q; -h lists them", *name)
	}
	if err := c.set(*set); err != nil {
		return err
	}
	without, err := parseRules(*off)
	if err != nil {
		return err
	}
	debug.SetGCPercent(25) // almost everything is kept, so there is little garbage
	x := newExplorer(newModel(c, without))
	r := x.explore(bounds{states: *states, time: *limit, first: *stop})
	fmt.Fprintln(out, c)
	fmt.Fprintln(out, r)
	for _, v := range r.violations {
		fmt.Fprint(out, "\n", x.story(v))
	}
	if len(r.violations) > 0 {
		return errBroken
	}
	return nil
}

// story is a violation and the trace to it, as prose.
func (x *explorer) story(v violation) string {
	lines, steps := x.trace(v)
	return fmt.Sprintf("%s\n%s\n=> %s, after %d steps\n", x.head(), strings.Join(lines, "\n"), v.name, steps)
}

// head names the rules that are switched off, and describes the configuration.
func (x *explorer) head() string {
	var lines []string
	for r := range rules {
		if x.off[r] {
			lines = append(lines, fmt.Sprintf("Without rule %s (%s): %s.", ruleTexts[r].number, r, ruleTexts[r].without))
		}
	}
	return strings.Join(append(lines, x.String()), "\n")
}

func (c config) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s. %d workers, %d bindings", c.name, c.says, c.workers, c.bindings)
	if c.limit > 0 {
		fmt.Fprintf(&text, ", limit %d", c.limit)
	}
	knobs := c.knobs()
	for _, name := range slices.Sorted(maps.Keys(knobs)) {
		if n := *knobs[name]; n > 0 && name != "limit" {
			fmt.Fprintf(&text, ", %s %d", name, n)
		}
	}
	return text.String()
}

func (r report) String() string {
	how := "complete"
	if !r.complete {
		how = "not complete"
	}
	return fmt.Sprintf("%s: %d states, %d steps, depth %d, %d quiet, %d violations, %s",
		how, r.states, r.steps, r.depth, r.quiet, len(r.violations), r.took.Round(time.Millisecond))
}

func usage(fs *flag.FlagSet) {
	out := fs.Output()
	fmt.Fprintf(out, "Explores the account protocol, see docs/model.md.\n\n  go run -C integration ./model -config loss -set dup=1 -off seal -stop\n\n")
	fs.PrintDefaults()
	fmt.Fprintf(out, "\nConfigurations:\n")
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		fmt.Fprintf(out, "  %-10s %s\n", name, configs[name].says)
	}
	c := config{}
	fmt.Fprintf(out, "\nTo set: %s, workers, and as 0 or 1 %s\n", strings.Join(slices.Sorted(maps.Keys(c.knobs())), ", "),
		strings.Join(slices.Sorted(maps.Keys(c.switches())), ", "))
	fmt.Fprintf(out, "\nRules:\n")
	for r := range rules {
		t := ruleTexts[r]
		fmt.Fprintf(out, "  %-14s %-9s without it %s\n", t.name, t.number, t.without)
	}
}
