package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/engine/terms"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/bulkhead"
	"github.com/hap-worker/hap-worker/worker/clock"
	"github.com/hap-worker/hap-worker/worker/crash"
	"github.com/hap-worker/hap-worker/worker/dirtying"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/ranges"
	"github.com/hap-worker/hap-worker/worker/serving"
)

// Handler decides and answers events. It is safe for concurrent use. It does not settle messages.
type Handler struct {
	*serving.Wakes
	*dirtying.Marker

	counters Counters
	gardener Gardener
	ledger   Ledger
	room     Room
	copies   copier
	rebuild  account.Rebuilder
	rules    *terms.Live
	policies Policies
	ranges   *ranges.Allotter
	observer *observe.Observer
	tracer   trace.Tracer
	now      Clock
	clock    *clock.Clock // of the stream; deadlines are compared with it

	subjects  events.Subjects
	namespace string        // of the bindings
	kind      string        // of the bindings
	budget    time.Duration // how long one event is retried
	ackWait   time.Duration

	epochs epochs
	parts  *bulkhead.Bulkheads
	shared atomic.Pointer[[]string]
}

// newHandler returns a handler. The options must have their defaults already.
func newHandler(o *Options) *Handler {
	parts := bulkhead.New(bulkhead.Options{Failed: failedPart, Hangs: engine.ErrUnavailable, Changed: func(of bulkhead.Part, open bool, last error) {
		o.Observer.Circuit(context.Background(), observe.Circuit{Dependency: string(of.Dependency), Pool: of.Pool, Open: open, Err: last})
	}})
	counters, gardener, wakes := guardedCounters{o.Counters, parts}, guardedGardener{o.Gardener, parts}, serving.NewWakes()
	return &Handler{
		Wakes: wakes, Marker: dirtying.New(dirtying.Options{
			Bindings: gardener, Shoots: gardener, Records: counters, Rebuild: o.Rebuild, Wakes: wakes, Observer: &o.Observer,
		}),
		counters: counters, gardener: gardener, parts: parts, ledger: o.Ledger, room: o.Room, copies: o.Copies, rebuild: o.Rebuild, rules: o.Rules,
		policies: o.Policies, ranges: o.Ranges, observer: &o.Observer, tracer: o.Tracer, now: o.Now,
		clock: clock.New(o.Now, func(offset time.Duration) {
			o.Observer.Clock(context.Background(), observe.Clock{Store: "nats", Offset: offset})
		}),
		subjects: o.Subjects, namespace: o.Namespace, kind: o.Kind, budget: o.Budget, ackWait: o.AckWait,
	}
}

// Handle handles and settles one message, and reports the outcome to Options.Observer. The handlers of a started
// worker call it; it also works without Start.
func (w *Worker) Handle(ctx context.Context, msg jetstream.Msg) {
	begin := w.now()
	a := w.begin(w.decode(msg))
	ctx, end := w.eventSpan(ctx, &a.delivery, msg.Subject())
	defer end()
	out := w.guarded(ctx, a)
	err := crash.Guard(func() error { return w.settle(ctx, msg, &a.delivery, &out) })
	info := a.told(msg.Subject(), out)
	if err != nil {
		info.Outcome, info.Reason = observe.Unsettled, err.Error()
	}
	if a.stored.possible {
		info.Delivery = max(info.Delivery, 2) // a reply may be stored already, as at a redelivery
	}
	info.Duration = w.since(begin)
	settledAs(ctx, &info)
	w.observer.Event(ctx, info)
}

// guarded handles an event and recovers from panics. If the event itself causes the failure (ownDoing), it is
// redelivered after a pause that grows. The failure number mostFaults ends it (refuse).
func (w *Worker) guarded(ctx context.Context, a *attempt) outcome {
	var out outcome
	err := crash.Guard(func() error { out = w.handle(ctx, a); return out.failed })
	if err == nil {
		if out.verdict == observe.Ack || out.verdict == observe.DeadLetter {
			w.faults.forget(a.subject)
		} else {
			w.abandon(ctx, a)
			out.delay = longer(out.delay, a.number)
		}
		return out
	}
	w.abandon(ctx, a)
	w.observer.Retry(ctx, observe.Retry{Type: a.kind(), ID: a.event.ID, Err: err})
	a.markUnsure() // the failed handling may have published a reply
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

// handle answers an event and returns its outcome. After an error that is not futile it retries, with backoff, until
// the budget is spent.
func (h *Handler) handle(ctx context.Context, a *attempt) outcome {
	h.observer.Step(ctx, observe.StepReceived)
	if a.subject == "" {
		// There is no subject for an answer: store only a dead letter.
		return deadLettered(events.Reply{}, a.invalid)
	}
	within, cancel := context.WithTimeoutCause(ctx, h.budget, errBudget)
	defer cancel()
	out, err := h.answer(within, a)
	if err != nil && !futile(err) {
		out, err = h.retry(within, a, err)
	}
	if err == nil {
		return out
	}
	if bulkhead.Held(err) && !awaitTurn(ctx, h.ackWait) {
		return notNow(ctx, err) // those whose turn it is wait for NATS
	}
	return h.postponed(ctx, a, err)
}

// futile reports whether a retry now would fail too, and only keep a handler busy.
func futile(err error) bool {
	return errors.Is(err, policy.ErrLate) || ownDoing(err) || bulkhead.Held(err) || errors.Is(err, engine.ErrRefused)
}

// retry calls answer again, after a first error, until it succeeds, its error is futile or the budget is spent. It
// returns answer's last error: the last one decides how the event continues.
func (h *Handler) retry(within context.Context, a *attempt, last error) (out outcome, _ error) {
	again := false
	attempt := func() error {
		if again {
			out, last = h.answer(within, a)
		}
		again = true
		if last != nil && futile(last) {
			return backoff.Permanent(last)
		}
		return last
	}
	pause := backoff.WithContext(backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(10*time.Millisecond), backoff.WithMaxInterval(time.Second),
		backoff.WithMaxElapsedTime(h.budget)), within)
	_ = backoff.RetryNotify(attempt, pause, func(err error, after time.Duration) {
		happened(within, happenedRetry, err)
		h.observer.Retry(within, observe.Retry{Type: a.kind(), ID: a.event.ID, After: after, Err: err})
	}) // its error may say no more than that the budget is spent
	return out, last
}

// answer takes an event through its phases until a reply stands or an error ends it; docs/architecture.md and
// docs/life.md number the phases in the same way. The first final reply stands: NATS refuses a reply if another was
// stored after the last one that this attempt knows (rule 11).
func (h *Handler) answer(ctx context.Context, a *attempt) (outcome, error) {
	for {
		// 0 read: a reply that is stored already may stand.
		if a.stored.possible {
			if out, err := h.readStored(ctx, a); out.ended() || err != nil {
				return out, err
			}
		}
		// 1 take: the id of a deprovision, before it has effects.
		if out, err := h.take(ctx, a); out.ended() || err != nil {
			return out, err
		}
		// 2 decide: rule, pool, network blocks, account, label.
		reply, err := h.decide(ctx, a)
		if err != nil {
			return outcome{}, err
		}
		// 3 record: why it was decided so.
		h.record(a, &reply)
		// 4 publish: the waiting room first, then the reply, unless the request waits there as before.
		if a.waitsOn(reply) {
			return h.waitsOn(ctx, a, reply)
		}
		if err = h.publish(ctx, a, reply); err == nil {
			// 5 follow up: what the stored reply entails.
			return h.published(ctx, a, reply)
		}
		a.markUnsure() // a reply may be stored now: the next turn of the loop, or the next call, reads it first
		if !errors.Is(err, storage.ErrWrongLastSequence) {
			return outcome{}, err
		}
	}
}

// decide returns the reply to an event. It returns transient errors; any other error becomes a rejection.
func (h *Handler) decide(ctx context.Context, a *attempt) (events.Reply, error) {
	ctx, end := h.span(ctx, "decide")
	defer end()
	reply, err := h.dispatch(ctx, a)
	if err == nil || transient(err) {
		return reply, err
	}
	return rejected(a.event, err), nil
}

func (h *Handler) dispatch(ctx context.Context, a *attempt) (events.Reply, error) {
	if a.invalid != nil {
		return events.Reply{}, a.invalid
	}
	switch e := a.event; e.Type {
	case events.TypeProvision:
		return h.provision(ctx, a)
	case events.TypeDeprovision:
		return h.deprovision(ctx, a)
	case events.TypeRelease:
		return h.release(ctx, a)
	case events.TypeResolve:
		return h.resolve(e)
	default:
		return events.Reply{}, &engine.Error{Code: engine.CodeInvalidEvent, Err: fmt.Errorf("unknown type %q", e.Type)}
	}
}

// publish stores a reply. Before a waiting reply, it stores the request in the waiting room, unless the request is
// served from there for the same pool: so a request is in the room before its waiting reply is stored. It shortens a
// reply that cannot be stored as it is, for example because it is too large for NATS.
func (h *Handler) publish(ctx context.Context, a *attempt, r events.Reply) error {
	if a.enters(r) {
		a.markEntering()
		deadline, err := h.room.Enter(ctx, storage.WaitingRequest{
			Event: a.event, Pool: r.Decision.Pool, Reason: r.Waiting.Reason, Deadline: r.Waiting.Deadline, Since: a.waits.begun,
		})
		if err != nil {
			return err
		}
		r.Waiting.Deadline = deadline
		a.markEntered(deadline)
		h.observer.Step(ctx, observe.StepEntered)
	}
	ctx, end := h.span(ctx, "publish reply")
	defer end()
	before := a.stored.sent
	a.markSent(true)
	_, err := h.ledger.Publish(ctx, a.subject, r, a.stored.expect)
	if errors.Is(err, storage.ErrUnstorable) {
		_, err = h.ledger.Publish(ctx, a.subject, brief(r), a.stored.expect)
	}
	if errors.Is(err, storage.ErrWrongLastSequence) {
		happened(ctx, happenedAnother, nil)
	}
	if errors.Is(err, storage.ErrWrongLastSequence) || errors.Is(err, storage.ErrUnstorable) {
		a.markSent(before)
	}
	return err
}

// published does what has to follow the storage of a reply (phase 5 in docs/architecture.md): it takes back what an
// earlier attempt has taken and this reply does not name (giveUp, outlive), sends the copy to the inbox, and removes
// the request from the waiting room if the reply is final.
func (h *Handler) published(ctx context.Context, a *attempt, r events.Reply) (outcome, error) {
	h.observer.Step(ctx, observe.StepPublished)
	if published := a.trace.times.Published; r.Status == events.StatusAssigned && !published.IsZero() {
		h.observer.Assigned(ctx, observe.Assigned{Pool: r.Decision.Pool, Took: max(h.since(published), 0)})
	}
	h.ranges.Stored(r, a.blocks.held)
	if err := h.giveUp(ctx, a, r); err != nil {
		return outcome{}, err
	}
	if r.Status == events.StatusWaiting {
		if err := h.outlive(ctx, a); err != nil {
			return outcome{}, err
		}
		if a.enters(r) {
			h.WakeTenant(r.Decision.Pool, r.GlobalAccountID) // an account may have been freed just before the request entered
		}
	}
	h.copy(ctx, a, r)
	if r.Final() && a.waits.possible {
		if err := h.leave(ctx, a); err != nil {
			return outcome{}, err
		}
	}
	return finalOutcome(r), nil
}

// copy sends a copy of a reply to the event's inbox, if it has one. A failure is only reported to the
// observer.
func (h *Handler) copy(ctx context.Context, a *attempt, r events.Reply) {
	if a.event.ReplyTo == "" {
		return
	}
	err := h.copies.Copy(ctx, a.event.ReplyTo, r)
	if errors.Is(err, storage.ErrUnstorable) {
		err = h.copies.Copy(ctx, a.event.ReplyTo, brief(r))
	}
	if err != nil {
		h.observer.Retry(ctx, observe.Retry{Type: "copy", ID: a.event.ID, Err: err})
	}
}

// notBuilt returns err. If it is account.ErrNotBuilt, notBuilt first requests a rebuild.
func (h *Handler) notBuilt(err error, pool string) error {
	return account.AskForRebuild(err, h.rebuild, pool)
}

// since returns the time since begin by the worker's own clock.
func (h *Handler) since(begin time.Time) time.Duration { return h.now().Sub(begin) }

// errBudget is the cancellation cause of a handler whose budget is spent.
var errBudget = errors.New("the handler's budget is spent")
