package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// landscape is how large everything is where a decision is measured.
type landscape struct {
	Bindings  int `json:"bindings"`
	Runtimes  int `json:"runtimes"`
	Processes int `json:"processes"`
	Pools     int `json:"pools"`
}

// smallest is where each axis begins, but for the one that grows.
var smallest = landscape{Bindings: 100, Runtimes: 1000, Processes: 1, Pools: 1}

// axis is one dimension of growth.
type axis struct {
	Name   string  `json:"name"`
	Points []point `json:"points"`

	values []int
	set    func(*landscape, int)
}

// point is what a decision costs in one landscape, in CPU microseconds.
type point struct {
	landscape
	Value  int     `json:"value"`
	Worker float64 `json:"worker"` // all worker processes
	Redis  float64 `json:"redis"`
	Rate   float64 `json:"perSecond"`
}

func (p point) cost() float64 { return p.Worker + p.Redis }

func axes() []*axis {
	return []*axis{
		{Name: "bindings", values: []int{100, 10_000, 100_000}, set: func(l *landscape, n int) { l.Bindings = n }},
		{Name: "runtimes", values: []int{1000, 100_000, 1_000_000}, set: func(l *landscape, n int) { l.Runtimes = n }},
		{Name: "worker processes", values: []int{1, 2, 4, 8}, set: func(l *landscape, n int) { l.Processes = n }},
		{Name: "pools", values: []int{1, 100}, set: func(l *landscape, n int) { l.Pools = n }},
	}
}

// growth is what a decision costs as the landscape grows, one axis at a time.
type growth struct {
	Events int     `json:"events"`
	Rounds int     `json:"rounds"`
	Axes   []*axis `json:"axes"`
}

// measureGrowth takes every point on a stack of its own.
func measureGrowth(ctx context.Context, s settings) (*growth, error) {
	g := &growth{Events: s.events, Rounds: s.rounds, Axes: axes()}
	for _, a := range g.Axes {
		for _, v := range a.values {
			l := smallest
			a.set(&l, v)
			fmt.Fprintf(os.Stderr, "%s: %d\n", a.Name, v)
			p, err := measurePoint(ctx, s, l)
			if err != nil {
				return nil, fmt.Errorf("%s %d: %w", a.Name, v, err)
			}
			p.Value = v
			a.Points = append(a.Points, p)
		}
	}
	return g, nil
}

// rules give a pool per platform region where there are several.
func (l landscape) rules() string {
	if l.Pools == 1 {
		return stack.InitialRules
	}
	return strings.Replace(stack.InitialRules, "- aws\n", "- aws -> PR\n", 1)
}

func (l landscape) kind(n int) string {
	if l.Pools == 1 {
		return "aws"
	}
	return "aws_" + l.region(n)
}

func (l landscape) region(n int) string { return fmt.Sprintf("cf-r%03d", n%l.Pools) }

// account is the one of a tenant; all tenants but the first have clusters on theirs already.
func (l landscape) account(n int) stack.Account {
	a := stack.Account{Name: fmt.Sprintf("aws-%06d", n), HyperscalerType: l.kind(n)}
	if n < l.owners() {
		a.Labels = map[string]string{"tenantName": fmt.Sprintf("ga-%d", n)}
	}
	return a
}

// owners are the tenants with an account: half of the accounts have none.
func (l landscape) owners() int { return max(tenants, l.Bindings/2) }

func measurePoint(ctx context.Context, s settings, l landscape) (p point, err error) {
	l.Bindings = max(l.Bindings, 2*l.Pools)
	accounts := make([]stack.Account, l.Bindings)
	for n := range accounts {
		accounts[n] = l.account(n)
	}
	st, err := stack.Start(ctx, stack.Options{Config: []byte(l.rules()), Accounts: []stack.Account{}, Talk: os.Stderr})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, st.Stop()) }()
	kube, err := st.Kube.Config()
	if err != nil {
		return p, err
	}
	// Not with the start of the stack, which has to be short.
	if err := stack.CreateAccounts(ctx, kube, st.Target, accounts); err != nil {
		return p, err
	}
	nc, err := nats.Connect(st.NATS.URL())
	if err != nil {
		return p, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(publishAhead))
	if err != nil {
		return p, err
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		return p, err
	}
	if _, err := events.Setup(ctx, js, events.Options{Manage: true}); err != nil {
		return p, err
	}
	b := &bench{settings: s, stack: st, publish: &publisher{js: js, subjects: subjects}}
	if err := b.fillLedger(ctx, l); err != nil {
		return p, err
	}
	for range l.Processes {
		if _, err := st.AddWorker(ctx, os.Stderr, "HAP_TELEMETRY_LOGLEVEL=error"); err != nil {
			return p, err
		}
	}
	var points []point
	for b.round = range s.rounds + 1 {
		p, err := b.growthRound(ctx, l)
		if err != nil {
			return p, err
		}
		if b.round > 0 { // the first one builds what it meets, and is not counted
			points = append(points, p)
		}
	}
	slices.SortFunc(points, func(a, b point) int { return int(1000 * (a.cost() - b.cost())) })
	p = points[len(points)/2]
	p.landscape = l
	return p, nil
}

// fillLedger stores the answers of as many provisions as there are runtimes, on the
// accounts that have an owner. The workers rebuild Redis from them.
func (b *bench) fillLedger(ctx context.Context, l landscape) error {
	for n := range l.Runtimes {
		owner := n % l.owners()
		count := n/l.owners() + 1
		r := events.Reply{
			RequestID: fmt.Sprintf("old-%d", n), RuntimeID: fmt.Sprintf("old-%d", n), Status: events.StatusAssigned,
			GlobalAccountID: fmt.Sprintf("ga-%d", owner), Plan: "aws", Provider: "aws",
			Binding: &events.Binding{
				Name: l.account(owner).Name, Namespace: b.stack.Target.Namespace, Kind: "CredentialsBinding", HyperscalerType: l.kind(owner),
			},
			Clusters: &count,
			Decision: &events.Decision{Sequence: int64(n + 1), Rule: "aws", RuleNumber: 1, Pool: l.kind(owner)},
		}
		data, err := events.EncodeReply(r, "/bench")
		if err != nil {
			return err
		}
		if _, err := b.publish.js.PublishAsync(b.publish.subjects.Reply(r.RuntimeID, r.RequestID), data, jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	select {
	case <-b.publish.js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// busy are the tenants with clusters, whose accounts no deprovision of a round empties.
func (l landscape) busy() int { return min(l.owners(), l.Runtimes) }

// growthRound provisions for tenants that have clusters, and releases again, so that
// the landscape keeps its size and every round is steady state. Every point is measured at
// full load: how many events a worker handles together would otherwise depend on how much
// faster all workers are than the publisher.
func (b *bench) growthRound(ctx context.Context, l landscape) (point, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*roundLimit)
	defer cancel()
	provisions, deprovisions := make([]event, b.events), make([]event, b.events)
	for i := range b.events {
		runtime, owner := fmt.Sprintf("g-%d-%d", b.round, i), i%l.busy()
		tenant := fmt.Sprintf("ga-%d", owner)
		var errs [2]error
		provisions[i], errs[0] = b.publish.provisionIn(runtime, tenant, l.region(owner))
		deprovisions[i], errs[1] = b.publish.deprovision(runtime, tenant)
		if err := errors.Join(errs[:]...); err != nil {
			return point{}, err
		}
	}
	before, err := b.workersCPU(ctx)
	if err != nil {
		return point{}, err
	}
	took, err := b.publish.answeredTogether(ctx, b.stack.Workers, provisions)
	if err != nil {
		return point{}, err
	}
	after, err := b.workersCPU(ctx)
	if err != nil {
		return point{}, err
	}
	per := func(i int) float64 {
		return float64((after[i] - before[i]).Microseconds()) / float64(b.events)
	}
	_, err = b.publish.answered(ctx, events.StreamReplies, deprovisions)
	return point{Worker: per(0), Redis: per(1), Rate: float64(b.events) / took.Seconds()}, err
}

// workersCPU is the CPU time of all workers, and of Redis.
func (b *bench) workersCPU(ctx context.Context) (used [2]time.Duration, err error) {
	for _, w := range b.stack.Workers {
		one, err := cpu(w.PID())
		if err != nil {
			return used, err
		}
		used[0] += one
	}
	used[1], err = b.redisCPU(ctx)
	return used, err
}

// print shows each axis with the ratio of its last point to its first.
func (g *growth) print() {
	for _, a := range g.Axes {
		fmt.Printf("\n%s\n", a.Name)
		for _, p := range a.Points {
			fmt.Printf("  %9d  %6.1f us of CPU per decision (worker %.1f, Redis %.1f), %.0f/s\n", p.Value, p.cost(), p.Worker, p.Redis, p.Rate)
		}
		fmt.Printf("  largest / smallest: %.2f\n", a.ratio())
	}
}

func (a *axis) ratio() float64 { return a.Points[len(a.Points)-1].cost() / a.Points[0].cost() }

// write stores the figures and, beside them, their plot.
func (g *growth) write(path string) error {
	data, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(path, ".json")+".svg", []byte(g.plot()), 0o600)
}
