package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

func isNotFound(err error) bool { return errors.Is(err, jetstream.ErrMsgNotFound) }

// fairness has the figures of quiet tenants for each trouble.
type fairness struct {
	Rounds   int            `json:"rounds"`
	Troubles []*fairOutcome `json:"troubles"`
}

// fairOutcome has the rounds of one trouble, each on a new stack.
type fairOutcome struct {
	Name   string      `json:"name"`
	Rounds []fairRound `json:"rounds"`
}

func measureFairness(ctx context.Context, s settings) (*fairness, error) {
	all := &fairness{Rounds: s.rounds}
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

// ratio is the median over the rounds of p99 beside the trouble / p99 alone.
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
	data, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(path, ".json")+".svg", []byte(a.plot()), 0o600)
}

// plot draws a row for each trouble: p99 alone, beside it and once it is stuck, on a logarithmic axis of
// milliseconds, and the CPU cores of all processes.
func (a *fairness) plot() string {
	const (
		name, wide, row = 150.0, 460.0, 44.0
		least, most     = 1.0, 100_000.0
	)
	at := func(ms float64) float64 {
		return wide * math.Log10(min(max(ms, least), most)/least) / math.Log10(most/least)
	}
	height := row*float64(len(a.Troubles)) + 2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12" role="img">`+"\n", name+wide+160, height)
	b.WriteString("<title>p99 of quiet tenants: alone, beside each trouble as it comes, and once it is stuck</title>\n")
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="#fff"/><text x="8" y="20" font-weight="bold">p99 of quiet tenants: alone, beside the trouble as it comes, once it is stuck; cores meanwhile</text>`+"\n", name+wide+160, height)
	for ms := least; ms <= most; ms *= 10 {
		fmt.Fprintf(&b, `<path d="M%.1f %.1fV%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="middle">%.0f ms</text>`+"\n",
			name+at(ms), margin-8, height-margin, name+at(ms), height-margin+18, ms)
	}
	for i, o := range a.Troubles {
		top := margin + row*float64(i)
		cores := o.cores(0) + o.cores(1) + o.cores(2)
		fmt.Fprintf(&b, `<text x="8" y="%.1f">%s</text>`, top+20, o.Name)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="10" fill="#15803d"/>`, name, top+2, at(o.alone()))
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="10" fill="#c2410c"/>`, name, top+14, at(o.beside()))
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="10" fill="#1d4ed8"/>`, name, top+26, at(o.stuck()))
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f">%.1f, %.1f times, %.2f cores</text>`+"\n", name+wide+12, top+20, o.ratio(), o.stuckRatio(), cores)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
