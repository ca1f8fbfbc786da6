package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	"gonum.org/v1/plot"

	"github.com/hap-worker/hap-worker/integration/bench/usage"
	"github.com/hap-worker/hap-worker/integration/plots"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// landscapes are those of -idle-plot, with their numbers of runtimes and of accounts.
var landscapes = [...]struct{ runtimes, bindings int }{
	{1_000, 100}, {100_000, 100}, {1_000_000, 100}, {1_000, 100_000}, {100_000, 100_000}, {1_000_000, 100_000},
}

// idleUse is how much an idle worker uses.
type idleUse struct {
	core     float64 // percent of a core
	commands float64 // that Redis executes in a second, with those that scripts run
	resident float64 // MiB at the end
}

// idlers starts a worker in each of the landscapes, watches all of them at the same time while they are idle, and draws
// what they use.
func idlers(ctx context.Context, s settings) error {
	var (
		used     [len(landscapes)]idleUse
		starting sync.Mutex // the first start builds the worker
		unready  sync.WaitGroup
		all, now = errgroup.WithContext(ctx)
	)
	ready := make(chan struct{})
	unready.Add(len(landscapes))
	go func() {
		unready.Wait()
		close(ready)
	}()
	for n, l := range landscapes {
		o := s
		o.runtimes, o.bindings = l.runtimes, l.bindings
		all.Go(func() error {
			return o.inLandscape(now, func(parts *stack.Stack) error {
				starting.Lock()
				w, err := parts.AddWorker(now, io.Discard)
				starting.Unlock()
				unready.Done()
				if err != nil {
					return err
				}
				select {
				case <-ready:
				case <-now.Done():
				}
				if err := pause(now, begun); err != nil {
					return err
				}
				used[n], err = o.idling(now, parts, w)
				return err
			})
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return drawIdle(s.idlePlot, used[:])
}

// idling measures and prints what the worker uses while nothing happens.
func (o settings) idling(ctx context.Context, s *stack.Stack, w *stack.Worker) (idleUse, error) {
	options, err := redis.ParseURL(s.Redis.URL())
	if err != nil {
		return idleUse{}, err
	}
	server := redis.NewClient(options)
	defer func() { _ = server.Close() }()
	used := func() (time.Duration, usage.Commands, error) {
		processor, err := usage.CPU(w.PID())
		commands, failed := usage.CommandsOf(ctx, server)
		return processor, commands, errors.Join(err, failed)
	}
	processor, commands, err := used()
	if err != nil {
		return idleUse{}, err
	}
	watched := time.Now()
	if err := pause(ctx, o.idle); err != nil {
		return idleUse{}, err
	}
	processorThen, commandsThen, err := used()
	took := time.Since(watched).Seconds()
	use := idleUse{
		core:     100 * (processorThen - processor).Seconds() / took,
		commands: float64(commandsThen.Minus(commands).Executed) / took,
		resident: float64(resident(w, "VmRSS")),
	}
	fmt.Printf("%d runtimes, %d accounts, idle for %s: %.2f %% of a core, %.1f commands of Redis a second, %.0f MB resident\n",
		o.runtimes, o.bindings, o.idle, use.core, use.commands, use.resident)
	return use, err
}

func drawIdle(path string, used []idleUse) error {
	var names []string
	for _, l := range landscapes {
		names = append(names, fmt.Sprintf("%d runtimes, %d accounts", l.runtimes, l.bindings))
	}
	var drawn []*plot.Plot
	for _, panel := range []struct {
		name  string
		limit float64
		of    func(idleUse) float64
	}{
		{"Idle worker: % of a core", 1, func(u idleUse) float64 { return u.core }},
		{"Idle worker: Redis commands/s", 10, func(u idleUse) float64 { return u.commands }},
		{"Idle worker: resident, MB", 0, func(u idleUse) float64 { return u.resident }},
	} {
		var values []float64
		for _, u := range used {
			values = append(values, panel.of(u))
		}
		p, err := plots.Dots(panel.name, names, panel.limit, plots.Series{Name: panel.name, Values: values})
		if err != nil {
			return err
		}
		drawn = append(drawn, p)
	}
	return plots.Save(path, 3, drawn...)
}
