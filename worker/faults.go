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
	// mostFaults is how often the handling of an event may fail in one worker by the event's
	// own doing before the event is ended. What a dependency refuses for now ends no event.
	mostFaults = 5
	// mostRemembered bounds the events whose faults are counted.
	mostRemembered = 10_000
	// longestFaultPause bounds the pause before such an event comes again.
	longestFaultPause = time.Minute
)

// ownDoing reports whether an error is the event's own doing, and would be the end of each
// handling of it: a panic, or an answer that cannot be stored.
func ownDoing(err error) bool {
	_, panicked := errors.AsType[*crash.Panic](err)
	return panicked || errors.Is(err, events.ErrUnstorable)
}

// faults counts such ends by the event that was handled. A worker that restarts counts anew.
type faults struct {
	mu sync.Mutex
	of map[string]int
}

func (f *faults) add(event string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil || len(f.of) >= mostRemembered && f.of[event] == 0 {
		f.of = map[string]int{} // some events come once more often
	}
	f.of[event]++
	return f.of[event]
}

func (f *faults) forget(event string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, event)
}

// guarded handles an event. One whose handling fails by its own doing comes again after a
// pause, and is refused and buried after mostFaults.
func (w *Worker) guarded(ctx context.Context, a *attempt) outcome {
	var out outcome
	err := crash.Guard(func() error { out = w.handle(ctx, a); return out.failed })
	if err == nil {
		if out.verdict == observe.Ack || out.verdict == observe.DeadLetter {
			w.faults.forget(a.subject)
		} else {
			w.abandon(ctx, a)
		}
		return out
	}
	w.abandon(ctx, a)
	w.observer.Retry(ctx, observe.Retry{Type: a.kind(), ID: a.event.ID, Err: err})
	a.again = true // it may have published
	count := w.faults.add(a.subject)
	if count >= mostFaults {
		ended, failed := w.refuse(ctx, a.delivery, err)
		if failed == nil {
			w.faults.forget(a.subject)
			return ended
		}
		err = failed
	}
	out = notNow(ctx, err)
	out.reason = shortly(err)
	out.delay = min(time.Second<<min(count, 10), longestFaultPause)
	return out
}

// answerGuarded answers a request that waits. One whose handling fails by its own doing is
// refused after mostFaults, so that it does not wait for ever.
func (w *Worker) answerGuarded(ctx context.Context, a *attempt) (outcome, error) {
	var out outcome
	err := crash.Guard(func() (err error) { out, err = w.answer(ctx, a); return err })
	if !ownDoing(err) {
		if err == nil && out.status != events.StatusWaiting {
			w.faults.forget(a.subject)
		}
		return out, err
	}
	if w.faults.add(a.subject) < mostFaults {
		return outcome{}, err
	}
	ended, failed := w.refuse(ctx, a.delivery, err)
	if failed != nil {
		return outcome{}, errors.Join(err, failed)
	}
	w.observer.Retry(ctx, observe.Retry{Type: "waiting", ID: a.event.ID, Err: err})
	w.faults.forget(a.subject)
	return ended, nil
}

// refuse answers an event that cannot be handled, as rule 11 says, and takes back
// what it holds. It relies on nothing that the handling before it has left.
func (h *Handler) refuse(ctx context.Context, d delivery, why error) (out outcome, err error) {
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
		reply := rejected(d.event, refusal(why))
		if err := h.publish(ctx, a, reply); err != nil {
			return err
		}
		out, err = h.published(ctx, a, reply)
		return err
	})
	return out, err
}

// refusal tells the publisher of an event that cannot be handled. What a panic
// says may be of others.
func refusal(why error) error {
	if errors.Is(why, events.ErrUnstorable) {
		return &engine.Error{
			Code: engine.CodeInternal, Err: why,
			Hint: "publish the event again under another id with fewer labels of its cluster, or once NATS takes longer messages (max_payload)",
		}
	}
	return &engine.Error{
		Code: engine.CodeInternal, Err: errors.New("the worker fails each time that it handles the event"),
		Hint: "the workers' log says why; publish the event again under another id once that is cured",
	}
}

// shortly is the text of an error without a stack.
func shortly(err error) string {
	if p, is := errors.AsType[*crash.Panic](err); is {
		return p.Short()
	}
	return err.Error()
}
