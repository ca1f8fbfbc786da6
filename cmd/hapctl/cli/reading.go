package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/events/streams"
)

// DrawEvery is how often a number on a terminal changes at most.
const DrawEvery = 100 * time.Millisecond

// readingAfter is how long a stream is read before a person is told how far it is: most
// readings are over by then.
const readingAfter = 500 * time.Millisecond

// reading tells a person, in one line of standard error that is gone when the reading is,
// how much of a stream was read and in how long the rest will be. It is safe for
// concurrent use; of several readings that go on at once it shows one.
type reading struct {
	shell *Shell
	after time.Duration
	now   func() time.Time

	mu     sync.Mutex
	stream string // that is shown, "" for none
	begun  time.Time
	drawn  time.Time // zero while the line is empty
}

// Watched returns a context whose readings of streams a person can follow. Without a
// terminal it is the same context.
func (s *Shell) Watched(ctx context.Context) context.Context {
	if !s.Stderr.Moves() {
		return ctx
	}
	return watchedBy(ctx, &reading{shell: s, after: readingAfter, now: time.Now})
}

func watchedBy(ctx context.Context, r *reading) context.Context { return streams.Watched(ctx, r.told) }

func (r *reading) told(stream string, read, all uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if r.stream == "" {
		r.stream, r.begun = stream, now
	}
	switch {
	case r.stream != stream:
	case read >= all:
		if !r.drawn.IsZero() {
			_ = r.shell.Stderr.Control(LineStart)
		}
		r.stream, r.drawn = "", time.Time{}
	case now.Sub(r.begun) >= r.after && now.Sub(r.drawn) >= DrawEvery:
		r.drawn = now
		left := time.Duration(float64(now.Sub(r.begun)) / float64(max(read, 1)) * float64(all-read))
		_ = r.shell.Stderr.Control(LineStart)
		fmt.Fprintf(r.shell.Stderr, "hapctl: reading %s: %d of %d, %s left", stream, read, all, left.Round(time.Second))
	}
}
