package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine/network"
)

const (
	// extendAtOnce is how many clusters are served side by side.
	extendAtOnce = 16
	// extendAgain is the longest pause after a pass that failed.
	extendAgain = 10 * time.Second
	// extendFreed is how long blocks that come free are collected before a rule that
	// found no room is tried again.
	extendFreed = 2 * time.Second
)

func (x *Extend) init() {
	x.once.Do(func() { x.signal, x.freed = make(chan struct{}, 1), make(chan struct{}, 1) })
}

// Freed says that blocks came free: a rule that found no room may find some now. It
// does not wait.
func (x *Extend) Freed() {
	x.init()
	if x.exhausted.Load() {
		select {
		case x.freed <- struct{}{}:
		default:
		}
	}
}

// Extender serves clusters beside the events: Extend.
type Extender interface {
	Wanted()
	Freed()
}

// Wanted asks for a pass over all clusters. It does not wait.
func (x *Extend) Wanted() {
	x.init()
	select {
	case x.signal <- struct{}{}:
	default: // one is to begin, which sees what this one would
	}
}

// Run passes over all clusters at once, whenever that is wanted and as often as the
// configuration says, until ctx ends.
func (x *Extend) Run(ctx context.Context) {
	x.init()
	for ctx.Err() == nil {
		pause := backoff.WithContext(backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(extendAgain), backoff.WithMaxElapsedTime(0)), ctx)
		_ = backoff.RetryNotify(func() error { return x.pass(ctx) }, pause, func(err error, after time.Duration) {
			x.Listener.retry(ctx, RetryInfo{Type: "network ranges", After: after, Err: err})
		}) // ends with ctx only
		next, stop := x.next()
		select {
		case <-ctx.Done():
		case <-x.signal:
		case <-next:
		case <-x.freed:
			select {
			case <-ctx.Done():
			case <-time.After(extendFreed):
			}
		}
		stop()
	}
}

// next fires when the next pass is due, a little later in each worker than in the
// others. Without a time in the configuration it never does.
func (x *Extend) next() (<-chan time.Time, func()) {
	config := x.Networks.Config()
	if config == nil || config.Refresh <= 0 {
		return nil, func() {}
	}
	timer := time.NewTimer(config.Refresh + time.Duration(rand.Float64()*float64(config.Refresh)/10))
	return timer.C, func() { timer.Stop() }
}

// pass serves every cluster that lacks a rule of the configuration of now.
func (x *Extend) pass(ctx context.Context) error {
	config := x.Networks.Config()
	if config == nil {
		return nil
	}
	g, err := x.gather(ctx)
	if err != nil {
		return err
	}
	if err := x.refresh(ctx, g); err != nil {
		return err
	}
	if g.notes != nil {
		x.Configs.compare(*g.notes, g.live, g.gone)
	}
	x.exhausted.Store(false)
	return x.extendAll(ctx, config, g)
}

// gather reads what is remembered. That the cluster with the ClusterConfigs does not
// answer keeps nobody from being served: they are compared the next time.
func (x *Extend) gather(ctx context.Context) (*gathered, error) {
	var notes *network.Notes
	if x.Configs != nil {
		var err error
		if notes, err = readNotes(ctx, x.Configs.Notes); err != nil {
			x.Listener.retry(ctx, RetryInfo{Type: "ClusterConfigs", After: noteLook, Err: err})
			notes = nil
			x.Configs.missed.Store(true)
		}
	}
	read, err := readAssignments(ctx, x.Archive)
	if err != nil {
		return nil, err
	}
	return gather(read, notes)
}

// extendAll serves every cluster that lacks a rule.
func (x *Extend) extendAll(ctx context.Context, config *network.Config, g *gathered) error {
	read, live, gone := g.read, g.live, g.gone
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(extendAtOnce)
	for _, begun := range read.intent {
		if runtime := begun.Reply.RuntimeID; gone[runtime] {
			// Whoever began may have ended between Acquire and the look at the runtime.
			group.Go(func() error { return x.giveBack(ctx, runtime, begun.Reply.RequestID) })
		}
	}
	for runtime, answers := range live {
		if len(answers) > 0 {
			group.Go(func() error { return x.extend(ctx, config, runtime, answers) })
		}
	}
	return group.Wait()
}
