// Package coalesce lets concurrent callers share one expensive or remote read.
package coalesce

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// Reading shares runs of Read among concurrent callers. A caller gets the result of a run that began after
// its call, so that the result is never older than the question; callers that ask during a run share the next
// one. A Reading with Read set is ready to use, and safe for concurrent use.
type Reading[T any] struct {
	// Read never runs twice at a time. Its context has the values of one caller's context but no
	// cancellation: Read must limit its own time.
	Read func(context.Context) (T, error)

	mu      sync.Mutex
	running bool     // a goroutine executes run
	next    *turn[T] // of the read that has not begun yet, nil if no caller waits for one
}

// turn is one run of Read.
type turn[T any] struct {
	ctx  context.Context //nolint:containedctx // of the caller that asked for it first
	done chan struct{}   // closed when the fields below are set
	read T
	err  error
	fell string // the value and stack of a panic in Read, "" for none
}

// Get returns the result of a read that began after the call, or the cause of ctx's end. If Read panics, Get
// panics in every caller that shares the read.
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
	if r.next == nil {
		r.next = &turn[T]{ctx: context.WithoutCancel(ctx), done: make(chan struct{})}
	}
	if !r.running {
		r.running = true
		go r.run()
	}
	return r.next
}

// run executes turns one after the other, until no caller waits for one.
func (r *Reading[T]) run() {
	for t := r.begin(); t != nil; t = r.begin() {
		r.take(t)
	}
}

// begin returns the turn that begins now, nil if no caller waits.
func (r *Reading[T]) begin() *turn[T] {
	runtime.Gosched() // callers that are about to ask share the read
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.next
	r.next, r.running = nil, t != nil
	return t
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
