// Package notes writes Kubernetes Events about bindings, which 'kubectl describe' shows. It gets the facts of
// the worker and the changes of the watch, blocks neither, and drops notes that it cannot write.
package notes

import (
	"context"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine"
)

const (
	// mostQueued is the length of the queue. If it is full, further notes are dropped.
	mostQueued = 1000
	// mostRecent bounds the number of recent notes, written or queued.
	mostRecent = 10_000
	// every is the pause between two writes of a worker.
	every = 200 * time.Millisecond
	// Within a period of length together, equal notes of an account become one note with a count,
	// and an account gets at most perAccount notes.
	together   = 10 * time.Minute
	perAccount = 20
	// firstPause and longestPause bound the pause after a failed write. If the queue becomes full
	// during the pause, further notes are dropped.
	firstPause, longestPause = time.Second, time.Minute
)

// Writer writes notes; package gardener implements it.
type Writer interface {
	Note(ctx context.Context, n engine.Note) error
}

// Result is the result of a note.
type Result string

// The results of notes.
const (
	Written Result = "written"
	Failed  Result = "failed"
	Dropped Result = "dropped" // the queue was full, or there were too many notes, of the account or in all
)

// Results returns all results.
func Results() []Result { return []Result{Written, Failed, Dropped} }

// Options configure notes.
type Options struct {
	Writer Writer
	// Known reports whether a binding exists. A note about any other name is not written: a request may
	// contain any name.
	Known func(binding string) bool
	// Told is called with the result of each write, with the error if it failed, and for each dropped note.
	Told func(Result, error)
}

// Notes queues and writes the notes of one worker. It is safe for concurrent use. Only Run blocks.
type Notes struct {
	Options

	wake chan struct{} // of capacity one

	mu     sync.Mutex
	queue  []same
	recent map[same]*recent
	of     map[string]int // number of recent notes, by account
	since  time.Time      // start of the current period
	marks  map[string]marks
}

// same is the identity of a note: equal facts become one note.
type same struct {
	binding string
	reason  engine.NoteReason
	message string
	version string // resourceVersion of the binding if the watch showed the change, otherwise ""
}

// recent is a note of the current period, or one that is still queued.
type recent struct {
	engine.Note
	queued bool
}

// New returns notes. Run writes them.
func New(o Options) *Notes {
	return &Notes{
		Options: o, wake: make(chan struct{}, 1), marks: map[string]marks{},
		recent: map[same]*recent{}, of: map[string]int{}, since: time.Now(),
	}
}

// note queues a note about a fact, or counts the fact in an equal note that is queued already. It reports
// the note as Dropped if a bound is reached, and ignores a note about a binding that does not exist.
func (n *Notes) note(what same) {
	if !n.Known(what.binding) {
		return
	}
	if !n.take(what, time.Now()) {
		n.Told(Dropped, nil)
		return
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *Notes) take(what same, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget(now)
	known := n.recent[what]
	if known == nil || !known.queued {
		if len(n.queue) >= mostQueued {
			return false
		}
		if known == nil {
			if n.of[what.binding] >= perAccount || len(n.recent) >= mostRecent {
				return false
			}
			known = &recent{Note: engine.Note{Name: nameOf(what, now), Binding: what.binding, Reason: what.reason, Message: what.message, First: now}}
			n.recent[what] = known
			n.of[what.binding]++
		}
		known.queued = true
		n.queue = append(n.queue, what)
	}
	known.Count, known.Last = known.Count+1, now
	return true
}

// forget begins a new period if the present one is as old as together: it drops notes that are not queued.
func (n *Notes) forget(now time.Time) {
	if now.Sub(n.since) < together {
		return
	}
	n.since = now
	clear(n.of)
	for what, note := range n.recent {
		if note.queued {
			n.of[what.binding]++
		} else {
			delete(n.recent, what)
		}
	}
}

// next removes the oldest note from the queue and returns it; false if the queue is empty.
func (n *Notes) next() (engine.Note, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) == 0 {
		return engine.Note{}, false
	}
	known := n.recent[n.queue[0]]
	n.queue = n.queue[1:]
	note := known.Note
	known.queued, known.Written = false, true
	return note, true
}

// Run writes notes until ctx ends.
func (n *Notes) Run(ctx context.Context) {
	pause := every
	for {
		note, some := n.next()
		if !some {
			select {
			case <-ctx.Done():
				return
			case <-n.wake:
			}
			continue
		}
		err := n.Writer.Note(ctx, note)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			n.Told(Failed, err)
			pause = min(max(2*pause, firstPause), longestPause)
		default:
			n.Told(Written, nil)
			pause = every
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
