package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/integration/bench/origin"
	"github.com/hap-worker/hap-worker/integration/plots"
)

func isNotFound(err error) bool { return errors.Is(err, jetstream.ErrMsgNotFound) }

// fairness has the figures of quiet tenants for each trouble.
type fairness struct {
	origin.Origin

	Rounds   int            `json:"rounds"`
	Troubles []*fairOutcome `json:"troubles"`
}

// fairOutcome has the rounds of one trouble, each on a new stack.
type fairOutcome struct {
	Name   string      `json:"name"`
	Rounds []fairRound `json:"rounds"`
}

func measureFairness(ctx context.Context, s settings) (*fairness, error) {
	all := &fairness{Origin: origin.Of(ctx), Rounds: s.rounds}
	for _, t := range troubles() {
		if !s.wants(t.name) {
			continue
		}
		o := &fairOutcome{Name: t.name}
		all.Troubles = append(all.Troubles, o)
		for n := range s.rounds {
			fmt.Fprintf(os.Stderr, "%s, round %d of %d\n", t.name, n+1, s.rounds)
			round, err := fairRoundOf(ctx, s, t)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			o.Rounds = append(o.Rounds, round)
		}
	}
	return all, nil
}

func fairRoundOf(ctx context.Context, s settings, t trouble) (_ fairRound, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*roundLimit)
	defer cancel()
	f, err := openFair(ctx, s, t)
	if err != nil {
		return fairRound{}, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	return f.measure(ctx)
}

func (o *fairOutcome) middle(of func(fairRound) float64) float64 { return middleOf(o.Rounds, of) }

// ratio is the median over the rounds of p99 while the trouble's events arrive / p99 alone.
func (o *fairOutcome) ratio() float64 {
	return o.middle(func(r fairRound) float64 { return r.Beside.P99 / r.Alone.P99 })
}

func (o *fairOutcome) alone() float64 {
	return o.middle(func(r fairRound) float64 { return r.Alone.P99 })
}
func (o *fairOutcome) beside() float64 {
	return o.middle(func(r fairRound) float64 { return r.Beside.P99 })
}

func (o *fairOutcome) stuck() float64 {
	return o.middle(func(r fairRound) float64 { return r.Stuck.P99 })
}

// stuckRatio is the median over the rounds of p99 while events are stuck / p99 alone.
func (o *fairOutcome) stuckRatio() float64 {
	return o.middle(func(r fairRound) float64 { return r.Stuck.P99 / r.Alone.P99 })
}

func (a *fairness) print() {
	fmt.Printf("%s\n\n", a.Origin)
	fmt.Printf("%-16s %10s %12s %6s %11s %12s %6s %7s %10s %s\n", "quiet tenants", "p99 alone", "as it comes", "ratio", "max", "once stuck", "ratio", "stuck", "unanswered", "cores: workers, Redis, NATS")
	for _, o := range a.Troubles {
		fmt.Printf("%-16s %7.1f ms %9.1f ms %6.1f %8.1f ms %9.1f ms %6.1f %7.0f %10.0f %.2f, %.2f, %.2f\n", o.Name, o.alone(), o.beside(), o.ratio(),
			o.middle(func(r fairRound) float64 { return r.Beside.Max }), o.stuck(), o.stuckRatio(),
			o.middle(func(r fairRound) float64 { return float64(r.Left) }), o.middle(func(r fairRound) float64 { return float64(r.Lost) }),
			o.cores(0), o.cores(1), o.cores(2))
		if o.Name == nameFlood {
			fmt.Printf("%-16s %7.0f /s %9.0f /s %6.2f\n", "  the flood itself", o.middle(func(r fairRound) float64 { return r.FloodAlone }),
				o.middle(func(r fairRound) float64 { return r.FloodBeside }), o.middle(func(r fairRound) float64 { return r.FloodBeside / r.FloodAlone }))
		}
	}
}

func (o *fairOutcome) cores(part int) float64 {
	return o.middle(func(r fairRound) float64 { return r.CPU[part] })
}

// write writes the figures, and a plot next to them.
func (a *fairness) write(path string) error {
	return errors.Join(writeJSON(path, a), a.plot(plotOf(path)))
}

// plot draws a row for each trouble: p99 alone, beside it and once it is stuck, with the ratios of both to the
// first, and the CPU cores of all processes.
func (a *fairness) plot(path string) error {
	var names []string
	all := []plots.Series{{Name: "alone"}, {Name: "as the trouble comes"}, {Name: "once it is stuck"}}
	for _, o := range a.Troubles {
		names = append(names, fmt.Sprintf("%s: %.1f, %.1f times, %.2f cores", o.Name, o.ratio(), o.stuckRatio(), o.cores(0)+o.cores(1)+o.cores(2)))
		for i, p99 := range []float64{o.alone(), o.beside(), o.stuck()} {
			all[i].Values = append(all[i].Values, p99)
		}
	}
	p, err := plots.Dots("p99 of quiet tenants, ms", names, 0, all...)
	if err != nil {
		return err
	}
	return plots.Save(path, 1, p)
}
