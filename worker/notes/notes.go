// Package notes tells Kubernetes what happens to accounts: Events about their bindings,
// which 'kubectl describe' shows. It subscribes to what workers do and to the watch of the
// bindings, never holds either up, and drops what it cannot write.
package notes

import (
	"context"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine"
)

const (
	// mostQueued is how many notes wait to be written. Beyond it they are dropped.
	mostQueued = 1000
	// mostRecent bounds what is remembered of those that were written.
	mostRecent = 10_000
	// every is the time between two writes of a worker.
	every = 200 * time.Millisecond
	// together is for how long the same thing of the same account is one note, with a count,
	// and for how long an account's notes are counted for perAccount.
	together = 10 * time.Minute
	// perAccount is how many notes of one account are made in that time.
	perAccount = 20
	// firstPause and longestPause bound the pause after a failed write. During a pause notes are
	// dropped once the queue is full.
	firstPause, longestPause = time.Second, time.Minute
)

// Writer writes notes: package gardener.
type Writer interface {
	Note(ctx context.Context, n engine.Note) error
}

// Result says how a note ended.
type Result string

// The results of notes.
const (
	Written Result = "written"
	Failed  Result = "failed"
	Dropped Result = "dropped" // the queue was full, or the account had too many
)

// Results lists the results.
func Results() []Result { return []Result{Written, Failed, Dropped} }

// Options say where notes go.
type Options struct {
	Writer Writer
	// Known reports whether there is such a binding. Of others nothing is noted: their names
	// come from outside.
	Known func(binding string) bool
	// Told is called with what became of each note, and with the error of a failure.
	Told func(Result, error)
}

// Notes are those of one worker. Its methods may be called by many, and do not block.
type Notes struct {
	Options

	wake chan struct{} // has room for one

	mu     sync.Mutex
	queue  []same
	recent map[same]*recent
	of     map[string]int // how many of recent, by account
	since  time.Time      // of recent and of
	marks  map[string]marks
}

// same tells which notes are one.
type same struct {
	binding string
	reason  engine.NoteReason
	message string
	version string // of the binding, where it was seen to change
}

// recent is a note of the last while.
type recent struct {
	engine.Note
	queued bool
}

// New returns notes that Run writes.
func New(o Options) *Notes {
	return &Notes{
		Options: o, wake: make(chan struct{}, 1), marks: map[string]marks{},
		recent: map[same]*recent{}, of: map[string]int{}, since: time.Now(),
	}
}

// note takes in what happened.
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

// forget forgets what is written, once in a while.
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

// next takes the oldest note that waits.
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
