package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/events/streams"
)

// DrawEvery is the shortest time between two changes of a number on a terminal.
const DrawEvery = 100 * time.Millisecond

// readingAfter is how long a stream is read before its progress is shown: most reads end earlier.
const readingAfter = 500 * time.Millisecond

// reading shows how much of a stream was read and how long the rest will take, in one line of standard error.
// It clears the line at the end. It is safe for concurrent use. If several streams are read at once, it shows
// one of them.
type reading struct {
	shell *Shell
	after time.Duration
	now   func() time.Time

	mu     sync.Mutex
	stream string // the stream that is shown, "" for none
	begun  time.Time
	drawn  time.Time // zero while the line is empty
}

// Watched returns a context under which reads of streams show their progress. Without a terminal it returns
// ctx.
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
