package bulkhead

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"
)

// part is one part with its circuit breaker.
type part struct {
	of      Part
	options Options
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	slots   *semaphore.Weighted

	mu        sync.Mutex
	last      error         // the latest failure
	failing   time.Time     // when it came
	opened    time.Time     // when the circuit last opened
	taken     int           // slots that are taken
	succeeded time.Time     // the latest success, or when a slot was taken while none was
	usual     time.Duration // smoothed time that a call takes if it succeeds and slots are taken
}

func newPart(of Part, o Options) *part {
	p := &part{of: of, options: o, slots: semaphore.NewWeighted(slots), last: o.Hangs}
	p.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Interval: window, Timeout: pause,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= inARow || c.Requests >= enough && 2*c.TotalFailures >= c.Requests
		},
		IsSuccessful: func(err error) bool { return !p.failed(err) },
		IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) }, // the caller has given up
		OnStateChange: func(_ string, from, to gobreaker.State) {
			// Half-open circuits are not reported.
			open := to == gobreaker.StateOpen && from == gobreaker.StateClosed
			if open {
				p.mu.Lock()
				p.opened = time.Now()
				p.mu.Unlock()
			}
			if o.Changed != nil && (open || to == gobreaker.StateClosed) {
				o.Changed(of, open, p.lastFailure())
			}
		},
	})
	return p
}

func (p *part) failed(err error) bool {
	return err != nil && (Held(err) || p.options.Failed(p.of, err))
}

func (p *part) lastFailure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// begin returns an *Error if a call may not be made. Otherwise the caller makes it and passes its error to end.
func (p *part) begin() (end func(error), err error) {
	done, err := p.breaker.Allow()
	if err != nil {
		return nil, &Error{p.of, p.lastFailure()}
	}
	begun := time.Now()
	return func(err error) {
		if !errors.Is(err, errPanic) && p.returned(err) {
			p.took(time.Since(begun))
		}
		done(err)
	}, nil
}

// held reports whether the circuit is open, another call is trying it, or the part hangs.
func (p *part) held() bool {
	switch p.breaker.State() {
	case gobreaker.StateOpen:
		return true
	case gobreaker.StateHalfOpen:
		c := p.breaker.Counts()
		return c.Requests > c.TotalExclusions
	}
	if !p.slots.TryAcquire(1) {
		hangs, _ := p.hangs()
		return hangs
	}
	p.slots.Release(1)
	return false
}

// open reports whether the circuit is open, or half open and a call has failed within quiet. A part that no call has
// tried since then may be well: only a call can close its circuit, and there may be none for days.
func (p *part) open() bool {
	state := p.breaker.State()
	p.mu.Lock()
	defer p.mu.Unlock()
	return state == gobreaker.StateOpen || state == gobreaker.StateHalfOpen && time.Since(p.failing) < quiet
}

// idle reports whether the circuit is not open, and no call was made within window or is being made in a slot.
func (p *part) idle() bool {
	if p.open() || p.breaker.State() == gobreaker.StateClosed && p.breaker.Counts().Requests > 0 { // State ends the window
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken == 0
}

// attempt counts a failed attempt of a call that may retry. It returns an *Error if the call should not: the
// circuit is open or half open.
func (p *part) attempt(err error) error {
	if done, refused := p.breaker.Allow(); refused == nil {
		p.returned(err)
		done(err)
		if p.breaker.State() == gobreaker.StateClosed {
			return nil
		}
	}
	return &Error{p.of, err}
}

// errPanic is the error of a call that panicked.
var errPanic = errors.New("the call panicked")

// returned records the result of a call or of an attempt, and reports whether it is a success while slots are
// taken.
func (p *part) returned(err error) bool {
	failed := p.failed(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if failed {
		if !Held(err) { // otherwise attempt has recorded the failures
			p.last, p.failing = err, time.Now()
		}
		return false
	}
	if p.taken == 0 || errors.Is(err, context.Canceled) {
		return false
	}
	p.succeeded = time.Now()
	return true
}

// took records how long a call took that succeeded. The time between two successes would not do: callers that
// share an answer succeed at the same moment.
func (p *part) took(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.usual += (d - p.usual) / 8
}

// take acquires a slot, which free releases. It blocks until there is one, ctx ends, or the part hangs.
func (p *part) take(ctx context.Context) error {
	for !p.slots.TryAcquire(1) {
		hangs, wait := p.hangs()
		if hangs {
			return &Error{p.of, p.lastFailure()}
		}
		within, cancel := context.WithTimeout(ctx, wait)
		err := p.slots.Acquire(within, 1)
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken == 0 {
		p.succeeded = time.Now()
	}
	p.taken++
	return nil
}

func (p *part) free() {
	p.mu.Lock()
	p.taken--
	p.mu.Unlock()
	p.slots.Release(1)
}

// hangs reports whether no call has succeeded for longer than patience, or slowness times what a call usually
// takes if that is longer. If not, again is the time after which to ask again. The caller has found all slots taken.
func (p *part) hangs() (hangs bool, again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := max(patience, slowness*p.usual)
	since := time.Since(p.succeeded)
	return since > limit, limit - since + time.Millisecond
}
