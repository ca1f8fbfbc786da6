package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/crash"
	"github.com/hap-worker/hap-worker/worker/observe"
)

const (
	// mostFaults is the number of failures, in one worker, that the event itself causes
	// (ownDoing) before it is rejected. Transient errors of dependencies do not count.
	mostFaults = 5
	// mostRemembered bounds the number of events with a count.
	mostRemembered = 10_000
	// longestFaultPause bounds the delay before such an event is redelivered (rule 11).
	longestFaultPause = time.Minute
)

// ownDoing reports whether the event itself probably causes the error, so that each retry would fail too: a panic, or
// an answer or waiting request that cannot be stored.
func ownDoing(err error) bool {
	_, panicked := errors.AsType[*crash.Panic](err)
	return panicked || errors.Is(err, storage.ErrUnstorable)
}

// faults counts the ownDoing failures by the event's reply subject. A restart of the worker resets them.
type faults struct {
	mu sync.Mutex
	of map[string]int
}

func (f *faults) add(event string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil || len(f.of) >= mostRemembered && f.of[event] == 0 {
		f.of = map[string]int{} // resets all counts, which costs some events a few more attempts
	}
	f.of[event]++
	return f.of[event]
}

func (f *faults) forget(event string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, event)
}

// answerGuarded answers a waiting request and recovers from panics. If the request itself causes the
// failure (ownDoing), it is rejected after mostFaults instead of being tried for ever.
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

// refuse rejects an event that cannot be handled, and takes back its assignment and blocks (rule 11). If a final reply
// is stored already, that reply stands. An event whose reply subject is unknown only becomes a dead letter. refuse
// begins a new attempt, and uses no state of the failed one.
func (h *Handler) refuse(ctx context.Context, d delivery, why error) (out outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.budget)
	defer cancel()
	err = crash.Guard(func() error {
		if d.subject == "" {
			out = deadLettered(events.Reply{}, errors.New(shortly(why)))
			return nil
		}
		a := h.begin(d)
		if out, err = h.readStored(ctx, a); out.ended() || err != nil {
			return err
		}
		reply := rejected(d.event, refusal(why))
		if err = h.publish(ctx, a, reply); err == nil {
			out, err = h.published(ctx, a, reply)
		}
		return err
	})
	return out, err
}

// refusal returns the error for the publisher of an event that cannot be handled. It omits the text of a
// panic, which may contain data of other tenants.
func refusal(why error) error {
	if errors.Is(why, storage.ErrUnstorable) {
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

// shortly returns the text of an error, without the stack of a panic.
func shortly(err error) string {
	if p, is := errors.AsType[*crash.Panic](err); is {
		return p.Short()
	}
	return err.Error()
}
