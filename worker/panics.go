package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/crash"
	"github.com/hap-worker/hap-worker/worker/observe"
)

const (
	// mostPanics is how often the handling of an event may panic in one worker before the
	// event is ended. Only panics count: what a dependency refuses ends no event.
	mostPanics = 5
	// mostRemembered bounds the events whose panics are counted.
	mostRemembered = 10_000
	// longestPanicPause bounds the pause before an event comes again whose handling panicked.
	longestPanicPause = time.Minute
)

// panics counts panics by the event that was handled. A worker that restarts counts anew.
type panics struct {
	mu sync.Mutex
	of map[string]int
}

func (p *panics) add(event string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil || len(p.of) >= mostRemembered && p.of[event] == 0 {
		p.of = map[string]int{} // some events come once more often
	}
	p.of[event]++
	return p.of[event]
}

func (p *panics) forget(event string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, event)
}

// guarded handles an event. One whose handling panics comes again after a pause, and is
// refused and buried after mostPanics.
func (w *Worker) guarded(ctx context.Context, a *attempt) outcome {
	var out outcome
	err := crash.Guard(func() error { out = w.handle(ctx, a); return nil })
	if err == nil {
		if out.verdict == observe.Ack || out.verdict == observe.DeadLetter {
			w.panics.forget(a.subject)
		}
		return out
	}
	w.observer.Retry(ctx, observe.Retry{Type: a.kind(), ID: a.event.ID, Err: err})
	a.again = true // it may have published
	count := w.panics.add(a.subject)
	if count >= mostPanics {
		ended, failed := w.refusePanicking(ctx, a.delivery, err)
		if failed == nil {
			w.panics.forget(a.subject)
			return ended
		}
		err = failed
	}
	out = notNow(ctx, err)
	out.reason = shortly(err)
	out.delay = min(time.Second<<min(count, 10), longestPanicPause)
	return out
}

// answerGuarded answers a request that waits. One whose handling panics is refused after
// mostPanics, so that it does not wait for ever.
func (w *Worker) answerGuarded(ctx context.Context, a *attempt) (outcome, error) {
	var out outcome
	err := crash.Guard(func() (err error) { out, err = w.answer(ctx, a); return err })
	if _, panicked := errors.AsType[*crash.Panic](err); !panicked {
		if err == nil && out.status != events.StatusWaiting {
			w.panics.forget(a.subject)
		}
		return out, err
	}
	if w.panics.add(a.subject) < mostPanics {
		return outcome{}, err
	}
	ended, failed := w.refusePanicking(ctx, a.delivery, err)
	if failed != nil {
		return outcome{}, errors.Join(err, failed)
	}
	w.observer.Retry(ctx, observe.Retry{Type: "waiting", ID: a.event.ID, Err: err})
	w.panics.forget(a.subject)
	return ended, nil
}

// refusePanicking answers an event that cannot be handled, as rule 11 says, and takes back
// what it holds. It relies on nothing that the handling before it has left.
func (h *Handler) refusePanicking(ctx context.Context, d delivery, why error) (out outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.budget)
	defer cancel()
	err = crash.Guard(func() error {
		if d.subject == "" {
			out = deadLettered(events.Reply{}, errors.New(shortly(why)))
			return nil
		}
		a := h.begin(d)
		stands, done, err := h.readStored(ctx, a)
		if err != nil {
			return err
		}
		if out = stands; done {
			return nil
		}
		reply := rejected(d.event, &engine.Error{
			Code: engine.CodeInternal, Err: errors.New("the worker fails each time that it handles the event"), // not why: that may be of others
			Hint: "the workers' log says why; publish the event again under another id once that is cured",
		})
		if err := h.publish(ctx, a, reply); err != nil {
			return err
		}
		out, err = h.published(ctx, a, reply)
		return err
	})
	return out, err
}

// shortly is the text of an error without a stack.
func shortly(err error) string {
	if p, is := errors.AsType[*crash.Panic](err); is {
		return p.Short()
	}
	return err.Error()
}
