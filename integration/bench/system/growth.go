package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/hap-worker/hap-worker/integration/bench/origin"
)

// landscape is the size of a landscape.
type landscape struct {
	Bindings  int `json:"bindings"`
	Runtimes  int `json:"runtimes"`
	Processes int `json:"processes"`
	Pools     int `json:"pools"`
	// Bare runs bare loops instead of workers.
	Bare bool `json:"bare,omitempty"`
}

// smallest is the first landscape of each axis. The axis of the bare loop runs bare loops in it.
var smallest = landscape{Bindings: 100, Runtimes: 1000, Processes: 1, Pools: 1}

// axis is one dimension of growth.
type axis struct {
	Name string `json:"name"`
	// Points are the measured values, the smallest first. The figures of the smallest are the medians of all
	// its measurements.
	Points []point `json:"points"`

	values []int
	set    func(*landscape, int)
}

// point has the cost of a decision in one landscape.
type point struct {
	landscape
	Value int  `json:"value"`
	Cost  cost `json:"cost"`
	// Smallest is the cost in the smallest landscape of the axis in the same rounds. Ratio is the median of
	// the rounds' ratios, WithoutNATS the same without the cost of NATS.
	Smallest    cost    `json:"smallest"`
	Ratio       float64 `json:"ratio"`
	WithoutNATS float64 `json:"ratioWithoutNATS"`
}

// cost is the cost of a decision in CPU microseconds, and the rate of decisions.
type cost struct {
	Worker float64 `json:"worker"` // all workers, or all bare loops
	Redis  float64 `json:"redis"`
	NATS   float64 `json:"nats"` // this process, with the publisher
	Rate   float64 `json:"perSecond"`
}

func (c cost) all() float64 { return c.Worker + c.Redis + c.NATS }

func (c cost) withoutNATS() float64 { return c.Worker + c.Redis }

// medianCost is the median of each figure.
func medianCost(rounds []cost) cost {
	return cost{
		Worker: middleOf(rounds, func(c cost) float64 { return c.Worker }),
		Redis:  middleOf(rounds, func(c cost) float64 { return c.Redis }),
		NATS:   middleOf(rounds, func(c cost) float64 { return c.NATS }),
		Rate:   middleOf(rounds, func(c cost) float64 { return c.Rate }),
	}
}

func axes() []*axis {
	return []*axis{
		{Name: "bindings", values: []int{100, 10_000, 100_000}, set: func(l *landscape, n int) { l.Bindings = n }},
		{Name: "runtimes", values: []int{1000, 100_000, 1_000_000}, set: func(l *landscape, n int) { l.Runtimes = n }},
		{Name: "processes", values: []int{1, 2, 4, 8}, set: func(l *landscape, n int) { l.Processes = n }},
		{Name: "pools", values: []int{1, 100}, set: func(l *landscape, n int) { l.Pools = n }},
		{Name: "processes of the bare loop", values: []int{1, 8}, set: func(l *landscape, n int) { l.Processes, l.Bare = n, true }},
	}
}

func axisNames() (names []string) {
	for _, a := range axes() {
		names = append(names, a.Name)
	}
	return names
}

// growth has the costs of a decision as the landscape grows, one axis at a time.
type growth struct {
	origin.Origin

	Events int     `json:"events"`
	Rounds int     `json:"rounds"`
	Axes   []*axis `json:"axes"`
}

// measureGrowth measures each value of every requested axis, alternately with the smallest.
func measureGrowth(ctx context.Context, s settings) (*growth, error) {
	g := &growth{Origin: origin.Of(ctx), Events: s.events, Rounds: s.rounds}
	for _, a := range axes() {
		if !s.wants(a.Name) {
			continue
		}
		g.Axes = append(g.Axes, a)
		if err := a.measure(ctx, s); err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
	}
	return g, nil
}

func (a *axis) measure(ctx context.Context, s settings) error {
	first := point{landscape: a.at(a.values[0]), Value: a.values[0], Ratio: 1, WithoutNATS: 1}
	a.Points = []point{first}
	var begin []cost
	for _, v := range a.values[1:] {
		fmt.Fprintf(os.Stderr, "%s: %d\n", a.Name, v)
		p := point{landscape: a.at(v), Value: v}
		small, large, err := alternate(ctx, s, first.landscape, p.landscape)
		if err != nil {
			return fmt.Errorf("%d: %w", v, err)
		}
		p.Cost, p.Smallest = medianCost(large), medianCost(small)
		p.Ratio, p.WithoutNATS = grown(small, large, cost.all), grown(small, large, cost.withoutNATS)
		a.Points, begin = append(a.Points, p), append(begin, small...)
	}
	first.Cost = medianCost(begin)
	first.Smallest = first.Cost
	a.Points[0] = first
	return nil
}

// grown is the median of the rounds' ratios.
func grown(small, large []cost, of func(cost) float64) float64 {
	return middle(ratiosOf(large, small, of))
}

// at returns the landscape at a value of the axis.
func (a *axis) at(value int) landscape {
	l := smallest
	a.set(&l, value)
	return l
}

// alternate measures two landscapes in turn, each on its stack, so that other load of the machine affects
// both. The first round warms up, and is not counted.
func alternate(ctx context.Context, s settings, small, large landscape) (ofSmall, ofLarge []cost, err error) {
	one, err := openSite(ctx, s, small)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, one.stop()) }()
	other, err := openSite(ctx, s, large)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, other.stop()) }()
	for round := range s.rounds + 1 {
		a, err := one.measure(ctx, round)
		if err != nil {
			return nil, nil, err
		}
		b, err := other.measure(ctx, round)
		if err != nil {
			return nil, nil, err
		}
		if round > 0 {
			ofSmall, ofLarge = append(ofSmall, a), append(ofLarge, b)
		}
	}
	return ofSmall, ofLarge, nil
}

// print prints each point next to the smallest one of the same rounds.
func (g *growth) print() {
	fmt.Printf("\n%s\n", g.Origin)
	for _, a := range g.Axes {
		fmt.Printf("\n%s\n", a.Name)
		for i, p := range a.Points {
			fmt.Printf("  %9d  %6.1f us of CPU per decision (workers %.1f, Redis %.1f, NATS %.1f), %.0f/s",
				p.Value, p.Cost.all(), p.Cost.Worker, p.Cost.Redis, p.Cost.NATS, p.Cost.Rate)
			if i > 0 {
				fmt.Printf("; the smallest meanwhile %.1f us: %.2f times, without NATS %.2f", p.Smallest.all(), p.Ratio, p.WithoutNATS)
			}
			fmt.Println()
		}
	}
}

// ratio is the cost at the largest value divided by the cost at the smallest.
func (a *axis) ratio() float64 { return a.Points[len(a.Points)-1].Ratio }

// write writes the figures, and a plot next to them.
func (g *growth) write(path string) error {
	return errors.Join(writeJSON(path, g), g.plot(plotOf(path)))
}
