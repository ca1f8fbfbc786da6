package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/bench/usage"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// percentiles are percentiles of times in milliseconds.
type percentiles struct {
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
}

func (p percentiles) String() string { return fmt.Sprintf("%.1f / %.1f", p.Median, p.P99) }

func of(times []time.Duration) percentiles {
	slices.Sort(times)
	at := func(share float64) float64 {
		return float64(times[min(int(share*float64(len(times))), len(times)-1)].Microseconds()) / 1000
	}
	return percentiles{Median: at(0.5), P99: at(0.99)}
}

func (b *bench) measure(ctx context.Context, size int) (f figures, err error) {
	if err := b.fill(ctx, size); err != nil {
		return f, err
	}
	f.Waiting = size
	if err := b.idling(ctx, &f); err != nil {
		return f, err
	}
	if f.Enter, f.Leave, err = b.comeAndGo(ctx); err != nil {
		return f, err
	}
	if f.Deadline, err = b.deadlines(ctx); err != nil {
		return f, err
	}
	if f.HandOn, err = b.handOn(ctx); err != nil {
		return f, err
	}
	f.Restart, err = b.restart(ctx)
	return f, err
}

// settled is the time before idling measures: until then the workers still read the requests that have entered.
const settled = 75 * time.Second

// idling measures the load of the workers while nothing happens.
func (b *bench) idling(ctx context.Context, f *figures) error {
	if err := wait(ctx, settled); err != nil {
		return err
	}
	before, asked, err := b.used(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := wait(ctx, b.idle); err != nil {
		return err
	}
	after, askedThen, err := b.used(ctx)
	took, commands := time.Since(begin).Seconds()*float64(b.workers), askedThen.Minus(asked)
	f.CPU, f.Sent, f.Executed = (after-before).Seconds()/took, float64(commands.Sent)/took, float64(commands.Executed)/took
	return err
}

// used returns the CPU time of all workers, and the commands of Redis, both since their start.
func (b *bench) used(ctx context.Context) (used time.Duration, commands usage.Commands, err error) {
	for _, w := range b.stack.Workers {
		one, err := usage.CPU(w.PID())
		if err != nil {
			return 0, commands, err
		}
		used += one
	}
	commands, err = usage.CommandsOf(ctx, b.redis)
	return used, commands, err
}

// comeAndGo measures requests that enter and leave, one after the other.
func (b *bench) comeAndGo(ctx context.Context) (enter, leave percentiles, err error) {
	var entered, left []time.Duration
	for range b.tries {
		r := b.next()
		begin := time.Now()
		if err := b.provision(r, time.Time{}); err != nil {
			return enter, leave, err
		}
		if _, err := b.answer(ctx, r.provisionReply(b.subjects), events.StatusWaiting); err != nil {
			return enter, leave, err
		}
		entered = append(entered, time.Since(begin))
		begin = time.Now()
		if err := b.deprovision(r); err != nil {
			return enter, leave, err
		}
		if _, err := b.answer(ctx, r.deprovisionReply(b.subjects), events.StatusReleased); err != nil {
			return enter, leave, err
		}
		left = append(left, time.Since(begin))
	}
	return of(entered), of(left), nil
}

// apart is the time between two deadlines, and longest the time limit of until.
const (
	apart   = 50 * time.Millisecond
	longest = 5 * time.Minute
)

// deadlines measures how long after their deadlines requests are refused, one after the other.
func (b *bench) deadlines(ctx context.Context) (percentiles, error) {
	first := time.Now().Add(5 * time.Second)
	var requests []request
	for i := range b.tries {
		r := b.next()
		if err := b.provision(r, first.Add(time.Duration(i)*apart)); err != nil {
			return percentiles{}, err
		}
		requests = append(requests, r)
	}
	if err := b.js.Published(ctx); err != nil {
		return percentiles{}, err
	}
	var late []time.Duration
	for i, r := range requests {
		at, err := b.answer(ctx, r.provisionReply(b.subjects), events.StatusRejected)
		if err != nil {
			return percentiles{}, err
		}
		late = append(late, max(at.Sub(first.Add(time.Duration(i)*apart)), 0))
	}
	return of(late), nil
}

// handOn creates accounts one after the other, and waits until each is assigned to a waiting request.
func (b *bench) handOn(ctx context.Context) (percentiles, error) {
	var took []time.Duration
	for i := range min(b.tries, b.filled/2) { // requests must be left for the restart
		one, err := b.handOnOne(ctx, i%b.pools)
		if err != nil {
			return percentiles{}, err
		}
		took = append(took, one)
	}
	return of(took), nil
}

func (b *bench) handOnOne(ctx context.Context, pool int) (time.Duration, error) {
	b.accounts++
	name := fmt.Sprintf("made-%06d", b.accounts)
	begin := time.Now()
	if err := stack.CreateAccounts(ctx, b.kube, b.stack.Target, []stack.Account{{Name: name, HyperscalerType: b.pool(pool)}}); err != nil {
		return 0, err
	}
	at, err := b.answer(ctx, name, events.StatusAssigned)
	return at.Sub(begin), err
}

// restart stops all workers, measures the time from the start of one to its answer with a new account, and starts
// the others.
func (b *bench) restart(ctx context.Context) (float64, error) {
	for _, w := range b.stack.Workers {
		if err := w.Stop(); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	if err := b.stack.Workers[0].Start(ctx); err != nil {
		return 0, err
	}
	_, err := b.handOnOne(ctx, 0)
	took := time.Since(begin).Seconds()
	for _, w := range b.stack.Workers[1:] {
		err = errors.Join(err, w.Start(ctx))
	}
	return took, err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
