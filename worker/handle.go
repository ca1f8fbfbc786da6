package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// delivery is one message in the hands of this worker.
type delivery struct {
	msg      jetstream.Msg
	event    events.Event
	invalid  error  // why it can never be processed
	subject  string // of the reply, "" where too little could be read
	delivery uint64 // counts from 1
	sequence uint64 // in the stream of events

	until    time.Time // the end of its waiting, once that is known
	expect   uint64    // the last sequence of the reply's subject, as it was read when handling began
	decision int64     // the number of the last decision about it
	pool     string    // that it was decided on
	since    int64     // the number under which it waits, as its stored reply says
	inTurn   bool      // it is its turn among those who wait
	served   bool      // it comes out of the waiting room, not out of the stream
	waited   bool      // it may lie in the waiting room
	trail    trail     // what its decision record will tell

	handler  string          // tells it from others that handle the same event, "" before that matters
	networks *network.Config // by which it was given blocks, nil without any
}

func (d *delivery) kind() string {
	if d.event.Type == "" {
		return "unknown"
	}
	return string(d.event.Type)
}

// tenant is the global account that the event names, "" for none.
func (d *delivery) tenant() string {
	switch {
	case d.event.Provision != nil:
		return d.event.Provision.GlobalAccountID
	case d.event.Deprovision != nil:
		return d.event.Deprovision.GlobalAccountID
	default:
		return ""
	}
}

func (w *Worker) deliver(msg jetstream.Msg) delivery {
	d := delivery{msg: msg, delivery: 1}
	if meta, err := msg.Metadata(); err == nil {
		d.delivery, d.sequence = meta.NumDelivered, meta.Sequence.Stream
		d.trail.times = events.Times{Published: meta.Timestamp, Began: w.now()}
	}
	d.event, d.invalid = events.Decode(msg.Subject(), msg.Headers(), msg.Data())
	d.subject = d.event.ReplySubject(w.opts.Subjects)
	return d
}

// handle brings an event to its outcome: it finds the answer, publishes it, and
// tries again what fails for now, until the budget is spent.
func (w *Worker) handle(ctx context.Context, d *delivery) outcome {
	w.listener.step(ctx, StepReceived)
	if d.subject == "" {
		// Nobody can be answered; the dead letter is all there is.
		return buried(events.Reply{}, d.invalid)
	}
	within, cancel := context.WithTimeoutCause(ctx, w.opts.Budget, errBudget)
	defer cancel()
	out, last := w.answer(within, d)
	if last == nil {
		return out
	}
	again := false
	attempt := func() error {
		if again {
			out, last = w.answer(within, d)
		}
		again = true
		return last
	}
	pause := backoff.WithContext(backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(10*time.Millisecond), backoff.WithMaxInterval(time.Second),
		backoff.WithMaxElapsedTime(w.opts.Budget)), within)
	err := backoff.RetryNotify(attempt, pause, func(err error, after time.Duration) {
		happened(ctx, happenedRetry, err)
		w.listener.retry(ctx, RetryInfo{Type: d.kind(), ID: d.event.ID, After: after, Err: err})
	})
	if err != nil {
		// Not err: once the budget is spent, that says no more than just this, and what
		// spent it decides where the event goes.
		return w.postponed(ctx, d, last)
	}
	return out
}

// notBuilt asks for a rebuild where err says that one is needed.
func (w *Worker) notBuilt(err error, pool string) error {
	if errors.Is(err, account.ErrNotBuilt) {
		w.opts.Rebuild.Wanted(pool)
	}
	return err
}

// since is a duration by the worker's own clock.
func (w *Worker) since(begin time.Time) time.Duration { return w.now().Sub(begin) }

// errBudget is why a handler ends that could not finish in time.
var errBudget = errors.New("the handler's budget is spent")

// answer finds and publishes the final reply, rule 11: the first one stands, and
// a decision is never published under a sequence that was read after it.
func (w *Worker) answer(ctx context.Context, d *delivery) (outcome, error) {
	if d.delivery > 1 {
		if out, done, err := w.readStored(ctx, d); done || err != nil {
			return out, err
		}
	}
	for {
		reply, err := w.decide(ctx, d)
		if err != nil {
			return outcome{}, err
		}
		w.record(d, &reply)
		if reply.Status == events.StatusWaiting && d.served {
			return w.waitsOn(ctx, d, reply)
		}
		err = w.store(ctx, d, reply)
		if err == nil {
			return w.published(ctx, d, reply)
		}
		// It may be stored: what is read next time shows it.
		d.delivery = max(d.delivery, 2)
		if !errors.Is(err, events.ErrWrongLastSequence) {
			return outcome{}, err
		}
		if out, done, err := w.readStored(ctx, d); done || err != nil {
			return out, err
		}
	}
}

// waitsOn leaves a request that found nothing in the waiting room. Where its record
// in Redis is new, somebody has taken the old one back: if that was because the
// request is answered, the new one is taken back as well (rule 12).
func (w *Worker) waitsOn(ctx context.Context, d *delivery, r events.Reply) (outcome, error) {
	if r.Decision.Sequence != d.since {
		if out, done, err := w.readStored(ctx, d); done || err != nil {
			return out, err
		}
	}
	return outcome{status: r.Status}, nil
}

// readStored reads what the ledger has for the event. A final reply stands and is
// acted on; anything else gives the sequence that the next publish expects.
func (w *Worker) readStored(ctx context.Context, d *delivery) (out outcome, done bool, err error) {
	stored, found, err := w.opts.Ledger.Last(ctx, d.subject)
	if err != nil {
		return outcome{}, false, err
	}
	d.expect = stored.Sequence
	if !found {
		return outcome{}, false, nil
	}
	if stored.Reply.Final() {
		out, err = w.stands(ctx, d, stored.Reply)
		return out, err == nil, err
	}
	if waiting := stored.Reply.Waiting; waiting != nil {
		d.waited, d.until = true, waiting.Deadline
		d.trail.waits(stored)
		if stored.Reply.Decision != nil {
			d.since = stored.Reply.Decision.Sequence
		}
	}
	return outcome{}, false, nil
}

// store publishes a reply. One that says waiting is preceded by the record of the
// request, so that it is never in neither place.
func (w *Worker) store(ctx context.Context, d *delivery, r events.Reply) error {
	if r.Status == events.StatusWaiting {
		d.waited = true
		err := w.opts.Room.Enter(ctx, events.WaitingRequest{
			Event: d.event, Pool: r.Decision.Pool, Reason: r.Waiting.Reason, Deadline: r.Waiting.Deadline,
		})
		if err != nil {
			return err
		}
		w.listener.step(ctx, StepEntered)
	}
	return w.publish(ctx, d, r)
}

// published is what follows a reply that is stored. A refusal may be another
// outcome than that of an attempt before it, which held something: rules change.
func (w *Worker) published(ctx context.Context, d *delivery, r events.Reply) (outcome, error) {
	w.listener.step(ctx, StepPublished)
	if published := d.trail.times.Published; r.Status == events.StatusAssigned && !published.IsZero() {
		w.listener.assigned(ctx, AssignedInfo{Pool: r.Decision.Pool, Took: max(w.since(published), 0)})
	}
	w.extendLate(d, r)
	w.note(r)
	if err := w.takeBackRefused(ctx, d, r); err != nil {
		return outcome{}, err
	}
	w.copy(ctx, d, r)
	if r.Final() && d.waited {
		if err := w.leave(ctx, d, r); err != nil {
			return outcome{}, err
		}
	}
	return finalOutcome(r), nil
}

// leave takes the event out of the waiting room, after its final reply.
func (w *Worker) leave(ctx context.Context, d *delivery, r events.Reply) error {
	if d.event.Provision == nil || r.Decision == nil || r.Decision.Pool == "" {
		return nil // whoever looks into the room finds the final reply
	}
	return w.opts.Room.Leave(ctx, w.opts.Room.Subject(r.Decision.Pool, d.event))
}

func (w *Worker) publish(ctx context.Context, d *delivery, r events.Reply) error {
	ctx, end := w.span(ctx, "publish reply")
	defer end()
	_, err := w.opts.Ledger.Publish(ctx, d.subject, r, d.expect)
	if errors.Is(err, events.ErrWrongLastSequence) {
		happened(ctx, happenedAnother, nil)
	}
	return err
}

// decide gives the final reply of an event. Errors are those that may pass; what
// can never succeed is a rejection.
func (w *Worker) decide(ctx context.Context, d *delivery) (events.Reply, error) {
	ctx, end := w.span(ctx, "decide")
	defer end()
	var reply events.Reply
	err := d.invalid
	if err == nil {
		reply, err = w.dispatch(ctx, d)
	}
	if err == nil || passing(err) {
		return reply, err
	}
	return rejected(d.event, err), nil
}

func (w *Worker) dispatch(ctx context.Context, d *delivery) (events.Reply, error) {
	e := d.event
	switch e.Type {
	case events.TypeProvision:
		return w.provision(ctx, d)
	case events.TypeDeprovision:
		return w.deprovision(ctx, d)
	case events.TypeRelease:
		return w.release(ctx, e)
	case events.TypeResolve:
		return w.resolve(e)
	default:
		return events.Reply{}, &engine.Error{Code: engine.CodeInvalidEvent, Err: fmt.Errorf("unknown type %q", e.Type)}
	}
}

// stands acts on a final reply that is stored already: whatever this request
// holds in Redis, against that answer, is taken back.
func (w *Worker) stands(ctx context.Context, d *delivery, r events.Reply) (outcome, error) {
	if !answers(r.Status, d.event.Type) {
		// The id was another request's: nobody can be told under it.
		return buried(events.Reply{}, &engine.Error{
			Code: engine.CodeInvalidEvent,
			Err:  fmt.Errorf("request id %s is that of another event, which was answered %s", d.event.ID, r.Status),
			Hint: "publish the event again under an id of its own",
		}), nil
	}
	if err := w.takeBackRefused(ctx, d, r); err != nil {
		return outcome{}, err
	}
	w.note(r)
	w.copy(ctx, d, r)
	if d.waited {
		if err := w.leave(ctx, d, r); err != nil {
			return outcome{}, err
		}
	}
	return finalOutcome(r), nil
}

// answers reports whether a final reply can be one to an event of the type.
func answers(status events.Status, t events.Type) bool {
	switch status {
	case events.StatusAssigned:
		return t == events.TypeProvision
	case events.StatusReleased:
		return t == events.TypeDeprovision
	case events.StatusReturned:
		return t == events.TypeRelease
	case events.StatusResolved:
		return t == events.TypeResolve
	default:
		return true // a rejection
	}
}

// takeBackRefused is rule 11: a provision whose final answer is not an assignment
// holds nothing. One that is not valid never did.
func (w *Worker) takeBackRefused(ctx context.Context, d *delivery, r events.Reply) error {
	refused := d.event.Provision != nil && r.Final() && r.Status != events.StatusAssigned
	if refused && d.invalid == nil {
		return w.takeBack(ctx, d)
	}
	return nil
}

// takeBack undoes what the request holds in Redis, in whatever pool: the stored
// refusal may be older than the rules that this worker decided by.
func (w *Worker) takeBack(ctx context.Context, d *delivery) error {
	if err := w.giveBackAll(ctx, d.event); err != nil {
		return err
	}
	pool := d.pool
	if pool == "" {
		place, err := w.counters.Place(ctx, d.event.RuntimeID)
		if err != nil {
			return w.notBuilt(err, "")
		}
		if pool = place.Pool; pool == "" {
			return nil
		}
	}
	return w.notBuilt(w.counters.TakeBack(ctx, pool, d.event.RuntimeID, d.event.ID), pool)
}

// copy sends a second, plain copy of a stored reply to the inbox that asked for it.
func (w *Worker) copy(ctx context.Context, d *delivery, r events.Reply) {
	if d.event.ReplyTo == "" {
		return
	}
	if err := w.opts.Copies.Copy(ctx, d.event.ReplyTo, r); err != nil {
		w.listener.retry(ctx, RetryInfo{Type: "copy", ID: d.event.ID, Err: err})
	}
}
