// Package loop repeats work: after an interval that may change, with jitter, and when it is woken. A failed
// turn is retried with backoff.
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

// Start determines when the first turn of a loop begins.
type Start int

// The values of Start.
const (
	// AfterPause is the zero value: the first turn begins after the interval.
	AfterPause Start = iota
	// AtOnce begins the first turn at once.
	AtOnce
	// Spread begins the first turn after a random part of the interval, so that processes that
	// start together do not work at the same time.
	Spread
)

// Options determine when the turns of a loop begin.
type Options struct {
	// Every is the pause between the end of a turn and the next one. With 0, only a wake begins a turn, except the
	// first one with AtOnce, and those after a failed one with Backoff.
	Every time.Duration
	// Changing, if set, replaces Every. It is called again each minute of a pause, and its latest
	// result determines the end of the pause.
	Changing func() time.Duration
	// Jitter is the maximum share of the interval that is added to a pause, such as 0.1, so that
	// processes do not run in step.
	Jitter float64
	Start  Start

	// Wake begins a turn before its time. It should have a buffer of one: a turn also consumes
	// a wake that was sent before it. It must not be closed.
	Wake <-chan struct{}
	// OnWake, if set, is called for each wake instead of a turn, and does not begin the pause anew.
	OnWake func(context.Context) error

	// Backoff determines the pause after a failed turn. A wake does not shorten that pause. With
	// the zero Backoff, the usual pause follows.
	Backoff Backoff
	// Failed is called with the error of a turn, or of OnWake, and the time until the next turn;
	// 0 if only a wake begins it. It is not called after ctx has ended.
	Failed func(err error, after time.Duration)

	// Stop, once closed, ends the loop between two turns. The end of ctx also reaches the
	// current turn.
	Stop <-chan struct{}
}

// askAgain is how often Options.Changing is called during a pause.
const askAgain = time.Minute

// Run calls do, one turn after another, until ctx or o.Stop ends. It recovers from panics: the error of such
// a turn is a *crash.Panic.
func Run(ctx context.Context, o Options, do func(context.Context) error) {
	l := &looping{Options: o, do: do, retries: o.Backoff.pauses()}
	l.begin()
	for l.wait(ctx) {
		l.turn(ctx)
	}
}

// looping is the state of a loop.
type looping struct {
	Options

	do      func(context.Context) error
	retries *backoff.ExponentialBackOff // nil without a Backoff

	since time.Time     // when the current pause began
	share float64       // length of the pause as a multiple of the interval
	fixed time.Duration // length of the pause if timed
	timed bool          // use fixed instead of share
	retry bool          // the previous turn failed: this is the pause before its retry
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
		case <-l.Wake: // this turn serves that wake too
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
		slog.ErrorContext(ctx, "a turn of a loop panicked", "error", err) // not reported otherwise
	}
	if err != nil && ctx.Err() == nil && l.Failed != nil {
		after, _ := l.left()
		l.Failed(err, after)
	}
}

// left returns the rest of the pause, and false if only a wake ends it.
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

// wait waits for the end of the pause, or for a wake. It returns false if the loop has to end.
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
		case <-over: // the pause is over, or Changing is due
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

// timer returns a channel that fires after the rest of the pause, left, and a function that stops it. If Changing may
// change the interval, it fires after askAgain at the latest, so that the interval is asked for again. Otherwise the
// channel is nil if no time ends the pause.
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

// wakes returns Wake, or nil during the pause before a retry, if a wake would shorten that pause.
func (l *looping) wakes() <-chan struct{} {
	if l.retry && l.OnWake == nil {
		return nil
	}
	return l.Wake
}
