// Package loop repeats work: after an interval that may change, with jitter, when it
// is woken, and sooner with growing pauses while it fails.
package loop

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/hap-worker/hap-worker/worker/crash"
)

// Start says when the first turn of a loop comes.
type Start int

// The starts of loops.
const (
	// AfterPause is the zero value: the first turn comes after the interval.
	AfterPause Start = iota
	// AtOnce does not wait.
	AtOnce
	// Spread waits for any part of the interval, so that processes that start
	// together do not work together.
	Spread
)

// Options say when the turns of a loop come.
type Options struct {
	// Every is the pause between the end of a turn and the next one. 0 is for ever:
	// only a wake begins a turn.
	Every time.Duration
	// Changing replaces Every where it is given. It is called again every minute of a
	// pause, and the pause ends by its latest answer.
	Changing func() time.Duration
	// Jitter is the share of the interval by which a pause is longer at most, such as
	// 0.1: processes drift apart.
	Jitter float64
	Start  Start

	// Wake begins a turn before its time. It should be buffered, with room for one:
	// a turn takes over the wakes that came before it. It is never closed.
	Wake <-chan struct{}
	// OnWake replaces the turn that a wake begins. It does not put the next turn off.
	OnWake func(context.Context) error

	// Backoff is for a turn that failed: the next one comes after its pause, which no
	// wake shortens. Without one, a failed turn is followed by the usual pause.
	Backoff Backoff
	// Failed is called with the error of a turn and the pause that follows it, 0 where
	// only a wake ends it; not once ctx has ended.
	Failed func(err error, after time.Duration)

	// Stop, once closed, ends the loop between two turns. ctx ends it within one.
	Stop <-chan struct{}
}

// askAgain is how often Options.Changing is asked during a pause.
const askAgain = time.Minute

// Run calls do, one turn after another, until ctx or o.Stop ends. A turn that panics has
// failed with a *crash.Panic.
func Run(ctx context.Context, o Options, do func(context.Context) error) {
	l := &looping{Options: o, do: do, retries: o.Backoff.pauses()}
	l.begin()
	for l.wait(ctx) {
		l.turn(ctx)
	}
}

// looping is a loop and the pause that it is in.
type looping struct {
	Options

	do      func(context.Context) error
	retries *backoff.ExponentialBackOff // nil without a Backoff

	since time.Time     // when the pause began
	share float64       // of the interval, how long the pause is
	fixed time.Duration // how long the pause is, where it does not depend on the interval
	timed bool          // fixed counts
	retry bool          // the turn before failed, and is repeated
}

// begin begins the pause before the first turn.
func (l *looping) begin() {
	l.pause()
	switch l.Start {
	case AtOnce:
		l.timed = true
	case Spread:
		l.share = rand.Float64()
	case AfterPause:
	}
}

// pause begins the pause after a turn that succeeded.
func (l *looping) pause() {
	l.since, l.share = time.Now(), 1+rand.Float64()*l.Jitter
	l.timed, l.retry, l.fixed = false, false, 0
}

// turn does the work, and begins the pause after it.
func (l *looping) turn(ctx context.Context) {
	if l.OnWake == nil {
		select {
		case <-l.Wake: // this turn sees what that one would
		default:
		}
	}
	err := crash.Guard(func() error { return l.do(ctx) })
	l.pause()
	if l.retries == nil {
		l.failed(ctx, err)
		return
	}
	if err == nil {
		l.retries.Reset()
		return
	}
	l.timed, l.retry, l.fixed = true, true, l.retries.NextBackOff()
	l.failed(ctx, err)
}

func (l *looping) failed(ctx context.Context, err error) {
	if _, panicked := errors.AsType[*crash.Panic](err); panicked && l.Failed == nil {
		slog.ErrorContext(ctx, "a turn of a loop panicked", "error", err) // nothing else would tell of it
	}
	if err != nil && ctx.Err() == nil && l.Failed != nil {
		after, _ := l.left()
		l.Failed(err, after)
	}
}

// left is how long the pause lasts from now on, false for one that only a wake ends.
func (l *looping) left() (time.Duration, bool) {
	length := l.fixed
	if !l.timed {
		every := l.Every
		if l.Changing != nil {
			every = l.Changing()
		}
		if every <= 0 {
			return 0, false
		}
		length = time.Duration(l.share * float64(every))
	}
	return max(0, length-time.Since(l.since)), true
}

// wait returns when the pause is over, false where the loop is.
func (l *looping) wait(ctx context.Context) bool {
	for ctx.Err() == nil {
		left, ends := l.left()
		if ends && left == 0 && !l.stopped() {
			return true
		}
		over, cancel := l.timer(left, ends)
		select {
		case <-ctx.Done():
		case <-l.Stop:
			cancel()
			return false
		case <-over: // or it is time to ask for the interval again
		case <-l.wakes():
			if l.OnWake == nil {
				cancel()
				return ctx.Err() == nil
			}
			l.failed(ctx, crash.Guard(func() error { return l.OnWake(ctx) }))
		}
		cancel()
	}
	return false
}

func (l *looping) stopped() bool {
	select {
	case <-l.Stop:
		return true
	default:
		return false
	}
}

// timer fires when the pause may be over.
func (l *looping) timer(left time.Duration, ends bool) (<-chan time.Time, func()) {
	if l.Changing != nil && !l.timed {
		if left = min(left, askAgain); !ends {
			left = askAgain
		}
	} else if !ends {
		return nil, func() {}
	}
	t := time.NewTimer(left)
	return t.C, func() { t.Stop() }
}

// wakes is nil while a turn that failed is to be repeated: a wake would undo the pause.
func (l *looping) wakes() <-chan struct{} {
	if l.retry && l.OnWake == nil {
		return nil
	}
	return l.Wake
}
