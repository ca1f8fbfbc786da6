// Package coalesce lets callers share a reading of something that is dear to read, or far away.
package coalesce

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// Reading reads a T for all that ask for one. A caller gets a reading that began after it asked,
// so that what it sees is no older than its question; those that ask while one runs share the next.
// The zero value with a Read is ready, and safe for concurrent use.
type Reading[T any] struct {
	// Read is never called twice at a time. Its context has the values of one of the callers that wait
	// for it, and does not end with any of them: Read bounds itself.
	Read func(context.Context) (T, error)

	mu      sync.Mutex
	running *turn[T] // reads now
	next    *turn[T] // is for those who came since
}

// turn is one reading.
type turn[T any] struct {
	ctx  context.Context //nolint:containedctx // of the caller that asked for it first
	done chan struct{}   // closed when the rest is set
	read T
	err  error
	fell string // what Read panicked with, and where
}

// Get returns what a reading found that began after the call, or why ctx ended. Where Read panics,
// all who share the reading do: each of them may bear it in its own way.
func (r *Reading[T]) Get(ctx context.Context) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	t := r.join(ctx)
	select {
	case <-t.done:
		if t.fell != "" {
			panic(t.fell)
		}
		return t.read, t.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// join returns a turn that begins after now.
func (r *Reading[T]) join(ctx context.Context) *turn[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == nil {
		r.running = newTurn[T](ctx)
		go r.run(r.running)
		return r.running
	}
	if r.next == nil {
		r.next = newTurn[T](ctx)
	}
	return r.next
}

func newTurn[T any](ctx context.Context) *turn[T] {
	return &turn[T]{ctx: context.WithoutCancel(ctx), done: make(chan struct{})}
}

// run reads, and again for those who have come meanwhile.
func (r *Reading[T]) run(t *turn[T]) {
	for t != nil {
		r.take(t)
		r.mu.Lock()
		t, r.next = r.next, nil
		r.running = t
		r.mu.Unlock()
	}
}

func (r *Reading[T]) take(t *turn[T]) {
	defer close(t.done)
	defer func() {
		if fell := recover(); fell != nil {
			t.fell = fmt.Sprintf("%v\n%s", fell, debug.Stack())
		}
	}()
	t.read, t.err = r.Read(t.ctx)
}
