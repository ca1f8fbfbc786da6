// Package bulkhead keeps a dependency that fails or hangs from blocking all handlers of a worker. Each part
// of a dependency has a circuit breaker: while its circuit is open, calls fail at once, except one call a
// second that tries the part again. The number of concurrent calls of a part can be bounded too.
package bulkhead

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine"
)

// Part is the unit that has a circuit: a dependency, or one pool's share of it.
type Part struct {
	Dependency Dependency
	Pool       string // "" if all pools share the part
}

// Dependency names what a worker depends on.
type Dependency string

// The dependencies.
const (
	Bindings Dependency = "bindings" // reads of a pool's bindings in Gardener
	Labels   Dependency = "labels"   // writes of the labels of a pool's bindings
	Shoots   Dependency = "shoots"   // the list of the Shoots, for all pools
	Records  Dependency = "records"  // a pool's records in Redis
)

// Dependencies lists all dependencies.
func Dependencies() []Dependency { return []Dependency{Bindings, Labels, Shoots, Records} }

// String returns the name of the part in messages.
func (p Part) String() string {
	if p.Pool == "" {
		return string(p.Dependency)
	}
	return string(p.Dependency) + " of pool " + p.Pool
}

const (
	// inARow is the number of consecutive failures that open a part's circuit.
	inARow = 10
	// With at least this many calls in the current window, a circuit also opens if half of them or
	// more failed.
	enough = 40
	window = 10 * time.Second
	// pause is the time between two attempts at an open circuit.
	pause = time.Second
	// quiet is the time after its last failure at which a circuit that is not tried again no longer counts as open.
	quiet = time.Minute
	// slots is the maximum number of concurrent calls of a part by AskBounded.
	slots = 64
	// A part hangs if all its slots are taken and no call has succeeded for patience, or for
	// slowness times what a call usually takes, if that is longer. A Kubernetes API
	// on a busy machine may delay a burst of claims by a second; a hanging call times out after
	// 5 s (gardener.Options.Timeout).
	patience = 3 * time.Second
	slowness = 3
)

// Error means that a call was not made, or was not repeated after a failed attempt (AskBounded), because
// calls of the part fail or hang. It does not unwrap to their error, which might be
// engine.ErrUnknownResult: a write that was not made has a known result.
type Error struct {
	Part Part
	Last error // the last failure of the part
}

func (e *Error) Error() string {
	return e.Part.String() + ": not asked, or not again, while calls fail or hang; the last failure: " + e.Last.Error()
}

// Held reports whether err is an *Error: a call was not made or not repeated.
func Held(err error) bool {
	_, held := errors.AsType[*Error](err)
	return held
}

// Options configure bulkheads.
type Options struct {
	// Failed reports whether an error counts as a failure of the part. Other errors count as answers, that is as
	// success. context.Canceled does not count at all.
	Failed func(Part, error) bool
	// Hangs is Error.Last of a part that hangs and has never failed.
	Hangs error
	// Changed is called when a part's circuit opens or closes; last is its latest failure. It must not block.
	Changed func(of Part, open bool, last error)
}

// Bulkheads store the circuits of all parts. They are safe for concurrent use.
type Bulkheads struct {
	options Options
	mu      sync.RWMutex
	parts   map[Part]*part
	cleared time.Time // when idle parts were last removed
}

// New returns bulkheads with all circuits closed.
func New(o Options) *Bulkheads { return &Bulkheads{options: o, parts: map[Part]*part{}} }

// mostParts bounds the number of parts with a circuit, since requests may name any pool.
const mostParts = 4096

// Ask calls call and returns its result. While the circuit of the part is open, it returns an *Error instead, except
// for one call a second. If there are mostParts other parts and none is idle, the part has no circuit: Ask always
// makes its calls.
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
	defer func() { end(err) }() // also if call panics
	answer, err = call()
	return answer, err
}

// AskBounded is Ask with at most slots concurrent calls of the part. Further calls block until a slot is free,
// ctx ends (its cause is returned), or the part hangs (an *Error is returned). If call retries, its context
// counts each failed attempt but the last (engine.AttemptFailed), and stops the retries while the circuit is open.
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

// Check returns an *Error if a call of the part would not be made now, otherwise nil.
func (b *Bulkheads) Check(of Part) error {
	b.mu.RLock()
	p := b.parts[of]
	b.mu.RUnlock()
	if p == nil || !p.held() {
		return nil
	}
	return &Error{of, p.lastFailure()}
}

// part returns the state of a part, and creates it if there is none. If there are mostParts already, it first removes
// the idle ones, at most once per pause. It returns nil if there is no room.
func (b *Bulkheads) part(of Part) *part {
	b.mu.RLock()
	p := b.parts[of]
	b.mu.RUnlock()
	if p != nil {
		return p
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p = b.parts[of]; p != nil {
		return p
	}
	if now := time.Now(); len(b.parts) >= mostParts && now.Sub(b.cleared) >= pause {
		b.cleared = now
		maps.DeleteFunc(b.parts, func(_ Part, p *part) bool { return p.idle() })
	}
	if len(b.parts) < mostParts {
		p = newPart(of, b.options)
		b.parts[of] = p
	}
	return p
}

// State describes a part whose circuit is open.
type State struct {
	Part  Part
	Last  error
	Since time.Time // when the circuit opened; attempts that failed since then do not change it
}

// Open returns the parts whose circuit is open, sorted by dependency and pool. A circuit that no call has tried to
// close for a minute (quiet) does not count.
func (b *Bulkheads) Open() []State {
	b.mu.RLock()
	var open []State
	for of, p := range b.parts {
		if p.open() {
			p.mu.Lock()
			open = append(open, State{of, p.last, p.opened})
			p.mu.Unlock()
		}
	}
	b.mu.RUnlock()
	slices.SortFunc(open, func(x, y State) int {
		return cmp.Or(cmp.Compare(x.Part.Dependency, y.Part.Dependency), cmp.Compare(x.Part.Pool, y.Part.Pool))
	})
	return open
}
