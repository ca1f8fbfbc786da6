package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/integration/bench/origin"
	"github.com/hap-worker/hap-worker/integration/stack"
)

const (
	// guardRounds is the least number of rounds that are judged.
	guardRounds = 5
	// slack is the share by which the checkout may be slower than the base.
	slack = 0.03
)

// guard compares the steady state of this checkout's worker with that of another commit.
type guard struct {
	origin.Origin

	Base string `json:"base"`
	// Same says that both workers are the same program: the ratios are then only the machine's noise.
	Same   bool       `json:"same"`
	Events int        `json:"events"`
	Ours   []sample   `json:"ours"` // a sample for each round
	Theirs []sample   `json:"theirs"`
	Rate   comparison `json:"rate"`
	CPU    comparison `json:"cpu"` // of the worker, Redis and this process; not judged
}

// comparison is a figure of this checkout divided by that of the base.
type comparison struct {
	Ratio float64 `json:"ratio"` // the median of the rounds' ratios
	// Low and High are the quartiles of the rounds' ratios: about half of the rounds lie between them.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

func compare(ours, theirs []sample, figure func(sample) float64) comparison {
	all := ratiosOf(ours, theirs, figure)
	slices.Sort(all)
	half := (len(all) + 1) / 2
	return comparison{Ratio: middle(all), Low: middle(slices.Clone(all[:half])), High: middle(slices.Clone(all[len(all)-half:]))}
}

// judge returns an error if c, a comparison of rates, says that the checkout is slower than the base by more than the
// slack.
func (c comparison) judge() error {
	if c.Ratio < 1-slack {
		return fmt.Errorf("the steady state is %.1f %% slower than the base, more than the %.0f %% that are allowed", 100*(1-c.Ratio), 100*slack)
	}
	return nil
}

// unclear reports whether the rounds differ too much to tell which side of the slack the ratio is on.
func (c comparison) unclear() bool { return c.Low < 1-slack && c.High >= 1-slack }

// measureGuard measures both workers in alternating order, so that neither is always the first.
func measureGuard(ctx context.Context, s settings) (*guard, error) {
	debug.SetGCPercent(publisherGC)
	s.only = []string{"steady"}
	g := &guard{Origin: origin.Of(ctx), Events: s.events}
	root, err := stack.Root()
	if err != nil {
		return nil, err
	}
	ours, err := stack.BuildWorker(ctx, root, os.Stderr)
	if err != nil {
		return nil, err
	}
	theirs, err := g.buildBase(ctx, root, s.base)
	if err != nil {
		return nil, fmt.Errorf("base %s: %w", s.base, err)
	}
	g.Same = ours == theirs // the path of a build has a hash of its sources
	for round := range s.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, s.rounds)
		legs := []struct {
			binary string
			to     *[]sample
		}{{ours, &g.Ours}, {theirs, &g.Theirs}}
		if round%2 == 1 {
			slices.Reverse(legs)
		}
		for _, leg := range legs {
			one, err := steadyOf(ctx, s, leg.binary)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", leg.binary, err)
			}
			*leg.to = append(*leg.to, one)
		}
	}
	g.Rate = compare(g.Ours, g.Theirs, func(s sample) float64 { return s.Rate })
	g.CPU = compare(g.Ours, g.Theirs, sample.all)
	return g, nil
}

// buildBase builds the worker of a commit from its archive, and notes the commit's hash.
func (g *guard) buildBase(ctx context.Context, root, base string) (binary string, err error) {
	hash, err := output(ctx, "git", "-C", root, "rev-parse", "--verify", "--short", "--end-of-options", base+"^{commit}")
	if err != nil {
		return "", err
	}
	g.Base = hash
	dir, err := os.MkdirTemp("", "hap-base-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	archive := filepath.Join(dir, "base.tar")
	if _, err := output(ctx, "git", "-C", root, "archive", "--output", archive, hash); err != nil {
		return "", err
	}
	if _, err := output(ctx, "tar", "-xf", archive, "-C", dir); err != nil {
		return "", err
	}
	return stack.BuildWorker(ctx, dir, os.Stderr)
}

// output runs a command, and returns its standard output without the blanks around it. The error has its standard
// error.
func output(ctx context.Context, name string, args ...string) (string, error) {
	var complaint strings.Builder
	command := exec.CommandContext(ctx, name, args...)
	command.Stderr = &complaint
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// steadyOf measures the steady state of a worker in a new process on a new stack: the speed of a process and of a
// Redis depends on where their memory lies, by more than the slack. It returns the second of two rounds; the first
// warms up.
func steadyOf(ctx context.Context, s settings, binary string) (one sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	b, err := open(ctx, s, stack.Options{Gardener: stack.LightGardener, WorkerCommand: []string{binary}})
	if err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	for b.round = range 2 {
		batch, err := b.steadyEvents()
		if err != nil {
			return one, err
		}
		runtime.GC() // so that garbage of what was before is not collected in this round
		if one, err = b.ofWorker(ctx, batch); err != nil {
			return one, err
		}
	}
	return one, nil
}

func (g *guard) print() {
	fmt.Printf("\n%s, beside commit %s: %d alternating rounds of %d events, each on a new stack\n", g.Origin, g.Base, len(g.Ours), g.Events)
	for _, side := range []struct {
		name string
		of   []sample
	}{{"this checkout", g.Ours}, {"base", g.Theirs}} {
		fmt.Printf("%s: %.0f events per second, %.3f s of CPU per 1,000 events (medians)\n", side.name,
			middleOf(side.of, func(s sample) float64 { return s.Rate }), middleOf(side.of, sample.all))
	}
	fmt.Printf("rate, this checkout / base: %.3f, half of the rounds between %.3f and %.3f\n", g.Rate.Ratio, g.Rate.Low, g.Rate.High)
	fmt.Printf("CPU, this checkout / base: %.3f, half of the rounds between %.3f and %.3f\n", g.CPU.Ratio, g.CPU.Low, g.CPU.High)
	if g.Same {
		fmt.Println("both are the same program: the ratios are only noise")
	}
	if g.Rate.unclear() {
		fmt.Printf("the rounds differ by more than their distance from %.2f: more rounds, or a quieter machine, would tell better\n", 1-slack)
	}
}

func (g *guard) write(path string) error { return writeJSON(path, g) }
