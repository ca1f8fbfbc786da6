// Command system compares the whole of hap-worker with other programs in one run: with a bare and a tuned
// loop over the same parts, and, for claims, with bare patches at the Kubernetes API. With --growth, --fairness or
// --base it makes another measurement instead. NATS, Redis, the Kubernetes API, the publisher and the workers share
// this machine's cores, so only ratios within one run are meaningful.
//
//	go run -C integration ./bench/system [--rounds N] [--events N] [--claims N] [--only steady,claims] [--growth] [--fairness] [--base COMMIT] [--json FILE]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	rounds int
	events int // of a round of the steady state or of --growth
	claims int // of a round of claims
	only   []string
	json   string
	growth bool
	fair   bool
	base   string // the commit that the guard compares with
}

func (s settings) wants(part string) bool { return len(s.only) == 0 || slices.Contains(s.only, part) }

// check returns an error for an unknown part, for sizes that are too small, and for flags that exclude --base.
func (s settings) check() error {
	known := parts
	switch {
	case s.growth:
		known = axisNames()
	case s.fair:
		known = troubleNames()
	}
	for _, part := range s.only {
		if !slices.Contains(known, part) {
			return fmt.Errorf("--only %s: is none of %s", part, strings.Join(known, ", "))
		}
	}
	if s.base != "" && (s.rounds < guardRounds || s.growth || s.fair || len(s.only) > 0) {
		return fmt.Errorf("--base needs --rounds of at least %d, and goes with none of --growth, --fairness and --only", guardRounds)
	}
	if s.rounds < 1 || s.events < 1000 || s.claims < 64 {
		return errors.New("--rounds must be at least 1, --events 1000, --claims 64")
	}
	return nil
}

var parts = []string{"steady", "claims"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-system:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 4 && args[0] == loopCommand {
		a, err := anchorOf(args[1])
		if err != nil {
			return err
		}
		reply, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		return runLoop(a, args[2], args[3], reply, os.Stdout)
	}
	s := settings{}
	flags := flag.NewFlagSet("system", flag.ContinueOnError)
	flags.IntVar(&s.rounds, "rounds", 7, "rounds of each measurement; the report has their medians")
	flags.IntVar(&s.events, "events", 20000, "events of a round on steady state")
	flags.IntVar(&s.claims, "claims", 600, "claims of a round")
	only := flags.String("only", "", "measure only these, of "+strings.Join(parts, ",")+"; with --growth of "+strings.Join(axisNames(), ",")+"; with --fairness of "+strings.Join(troubleNames(), ","))
	flags.StringVar(&s.json, "json", "", "write the figures there as JSON")
	flags.BoolVar(&s.growth, "growth", false, "measure what a decision costs as the landscape grows instead; --json writes a plot beside the figures")
	flags.BoolVar(&s.fair, "fairness", false, "measure what quiet tenants have beside a flood and beside what fails instead; --json writes a plot beside the figures")
	flags.StringVar(&s.base, "base", "", "compare the steady state with that of this commit instead; fails if it is more than 3 % slower")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *only != "" {
		s.only = strings.Split(*only, ",")
	}
	if err := s.check(); err != nil {
		return err
	}
	switch {
	case s.growth:
		_, err := show(ctx, s, measureGrowth)
		return err
	case s.fair:
		_, err := show(ctx, s, measureFairness)
		return err
	case s.base != "":
		g, err := show(ctx, s, measureGuard)
		if err != nil {
			return err
		}
		return g.Rate.judge()
	}
	_, err := show(ctx, s, measureAll)
	return err
}

// shown is a result that is printed, and written with a plot next to it where there is one.
type shown interface {
	print()
	write(path string) error
}

// show measures and prints, and writes the result if a file is named.
func show[T shown](ctx context.Context, s settings, measure func(context.Context, settings) (T, error)) (T, error) {
	result, err := measure(ctx, s)
	if err != nil {
		return result, err
	}
	result.print()
	if s.json == "" {
		return result, nil
	}
	return result, result.write(s.json)
}

// publisherGC is the GC percentage of this process for the comparison with the loops and for --base. The publisher
// and NATS are in this process: with the default percentage, its collections would dominate the tail of latencies.
const publisherGC = 400

// measureAll measures every requested part.
func measureAll(ctx context.Context, s settings) (*report, error) {
	debug.SetGCPercent(publisherGC)
	begin := time.Now()
	b, err := start(ctx, s)
	if err != nil {
		return nil, err
	}
	report, err := b.measure(ctx)
	if err := errors.Join(err, b.stop()); err != nil {
		return nil, err
	}
	report.Seconds = time.Since(begin).Seconds()
	return report, nil
}
