// Package bulkhead keeps a part of the world that fails or hangs from taking all of a
// worker's places. While such a part fails, calls of it fail at once, and one call a second
// tries whether it answers again (a circuit breaker for each part). A part that answers
// slowly is asked by a bounded number of calls at a time.
package bulkhead

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/hap-worker/hap-worker/engine"
)

// Part is a thing that fails by itself.
type Part struct {
	Dependency Dependency
	Pool       string // "" where all pools share the part
}

// Dependency has the parts that belong together.
type Dependency string

// The dependencies.
const (
	Bindings Dependency = "bindings" // reads of a pool's bindings in Gardener
	Labels   Dependency = "labels"   // writes of them
	Shoots   Dependency = "shoots"   // the list of the Shoots
	Records  Dependency = "records"  // a pool's records in Redis
)

// Dependencies lists all dependencies.
func Dependencies() []Dependency { return []Dependency{Bindings, Labels, Shoots, Records} }

// String names a part as messages do.
func (p Part) String() string {
	if p.Pool == "" {
		return string(p.Dependency)
	}
	return string(p.Dependency) + " of pool " + p.Pool
}

const (
	// inARow is how many failures without a success between them open a part's circuit.
	inARow = 10
	// enough is how many calls within window open it where half of them failed.
	enough = 40
	window = 10 * time.Second
	// pause is the time from one attempt at an open circuit to the next.
	pause = time.Second
	// slots is how many calls of a part are made at once, where they are bounded.
	slots = 64
	// patience is how long no call of a part succeeds, while all its slots are taken, before
	// the part hangs. Where its successes are usually further apart, it is slowness times that.
	// A Kubernetes API on a busy machine lets a burst of claims wait for a second; a call that
	// hangs has 5 s (gardener.Options.Timeout).
	patience = 3 * time.Second
	slowness = 10
)

// Error says that a call was not made, since others of the part have failed or hang. It does
// not unwrap to what another call failed with: of a write that was not made the result is known.
type Error struct {
	Part Part
	Last error // what a call of the part failed with last
}

func (e *Error) Error() string {
	return e.Part.String() + ": not asked while calls fail or hang, the last one with: " + e.Last.Error()
}

// Held reports whether err says that a call was not made.
func Held(err error) bool {
	_, held := errors.AsType[*Error](err)
	return held
}

// Options are what bulkheads need.
type Options struct {
	// Failed reports whether an error is the part's doing, and not an answer.
	Failed func(Part, error) bool
	// Hangs is the assumed error of a part that hangs before it has ever failed.
	Hangs error
	// Changed is called when a part's circuit opens or closes; last is its latest failure. It must not block.
	Changed func(of Part, open bool, last error)
}

// Bulkheads are all parts of a worker's world. Any number of goroutines may use them.
type Bulkheads struct {
	options Options
	mu      sync.RWMutex
	parts   map[Part]*part
}

// New returns bulkheads that know of no failure.
func New(o Options) *Bulkheads { return &Bulkheads{options: o, parts: map[Part]*part{}} }

// mostParts bounds the parts that are remembered: pools are named by requests.
const mostParts = 4096

// Ask makes a call of a part, or returns an *Error at once where the part fails.
func Ask[T any](b *Bulkheads, of Part, call func() (T, error)) (answer T, err error) {
	p := b.part(of)
	if p == nil {
		return call()
	}
	end, err := p.begin()
	if err != nil {
		return answer, err
	}
	err = errPanic
	defer func() { end(err) }() // also where call panics
	answer, err = call()
	return answer, err
}

// AskBounded is Ask for a part that may hang, and whose calls repeat themselves: so many calls
// of it are made at a time. Others wait, until ctx ends or the part hangs. Each attempt of a
// call counts, and none is repeated while the part fails.
func AskBounded[T any](ctx context.Context, b *Bulkheads, of Part, call func(context.Context) (T, error)) (answer T, err error) {
	if p := b.part(of); p != nil {
		if err := p.take(ctx); err != nil {
			return answer, err
		}
		defer p.free()
		ctx = engine.WithAttempts(ctx, p.attempt)
	}
	return Ask(b, of, func() (T, error) { return call(ctx) })
}

// Check returns an *Error where a call of a part would not be made now.
func (b *Bulkheads) Check(of Part) error {
	b.mu.RLock()
	p := b.parts[of]
	b.mu.RUnlock()
	if p == nil || !p.held() {
		return nil
	}
	return &Error{of, p.lastFailure()}
}

// part is nil for one that is new beyond the bound.
func (b *Bulkheads) part(of Part) *part {
	b.mu.RLock()
	p := b.parts[of]
	b.mu.RUnlock()
	if p != nil {
		return p
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p = b.parts[of]; p == nil && len(b.parts) < mostParts {
		p = newPart(of, b.options)
		b.parts[of] = p
	}
	return p
}

// State is a part whose circuit is open.
type State struct {
	Part Part
	Last error
}

// Open lists the parts whose circuit is open, in the order of their names.
func (b *Bulkheads) Open() []State {
	b.mu.RLock()
	var open []State
	for of, p := range b.parts {
		if p.breaker.State() != gobreaker.StateClosed {
			open = append(open, State{of, p.lastFailure()})
		}
	}
	b.mu.RUnlock()
	slices.SortFunc(open, func(x, y State) int {
		return cmp.Or(cmp.Compare(x.Part.Dependency, y.Part.Dependency), cmp.Compare(x.Part.Pool, y.Part.Pool))
	})
	return open
}
