package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// outcome is the result of the handling of an event. Handlers return it, and settle tells it to the stream.
// The zero outcome means that the handling goes on.
type outcome struct {
	verdict observe.Outcome
	status  events.Status
	code    engine.Code
	reason  string
	binding string
	delay   time.Duration
	failed  error // set if the event itself causes the failure (ownDoing)
}

func (o *outcome) ended() bool { return o.verdict != "" }

// finalOutcome returns the outcome of an event from its reply, which may also be a waiting reply: DeadLetter if
// the reply is a rejection that every delivery would repeat (permanent) or Internal, otherwise Ack.
func finalOutcome(r events.Reply) outcome {
	o := outcome{verdict: observe.Ack, status: r.Status}
	if r.Binding != nil {
		o.binding = r.Binding.Name
	}
	if r.Error == nil {
		return o
	}
	o.code, o.reason = r.Error.Code, r.Error.Message
	if permanent(r.Error.Code) || r.Error.Code == engine.CodeInternal { // Internal: its handling always failed
		o.verdict = observe.DeadLetter
	}
	return o
}

// deadLettered returns the outcome of an event that can never be processed.
func deadLettered(r events.Reply, err error) outcome {
	return outcome{verdict: observe.DeadLetter, status: r.Status, code: engine.CodeOf(err), reason: err.Error()}
}

// permanent reports whether an event that is rejected with this code would be rejected at each delivery, so
// that an operator has to look at it.
func permanent(c engine.Code) bool {
	return c.Info().Fate == contract.FateDeadLettered
}

// transient reports whether the event is retried after this error, and never rejected because of it.
func transient(err error) bool {
	return err != nil && engine.CodeOf(err).Info().Fate == contract.FateRedelivered
}

// notNow returns the outcome of an event that is to be redelivered: at once if the drain is over, otherwise after
// a delay that depends on err.
func notNow(ctx context.Context, err error) outcome {
	o := outcome{verdict: observe.NakWithDelay, code: engine.CodeInternal, reason: err.Error()}
	if ownDoing(err) {
		o.failed = err
	}
	switch {
	case errors.Is(context.Cause(ctx), errDraining):
		o.verdict, o.reason = observe.Nak, errDraining.Error()
	case rebuilding(err):
		o.delay = time.Second // a rebuild is running, or has just ended
	case unavailable(err), streams.NoRoom(err):
		o.delay = 5 * time.Second
	default:
		o.delay = 2 * time.Second
	}
	return o
}

// settle acks, naks or terminates the message. If there is no room for a dead letter, it may change the
// outcome to observe.Lost. After an error the message may be redelivered, which is safe.
func (w *Worker) settle(ctx context.Context, msg jetstream.Msg, d *delivery, o *outcome) error {
	var err error
	switch o.verdict {
	case observe.Ack:
		err = msg.Ack()
	case observe.DeadLetter:
		err = w.deadLetter(ctx, msg, d, o)
	case observe.NakWithDelay:
		err = msg.NakWithDelay(o.delay)
	case observe.Nak:
		err = msg.Nak()
	}
	if err != nil {
		return fmt.Errorf("settle as %s: %w", o.verdict, err)
	}
	w.observer.Step(ctx, observe.StepSettled)
	return nil
}

// deadLetter stores the dead letter, then terminates the message, so that the event is never lost in
// between. While HAP_DEAD is full, a bounded number of events is redelivered. Any further event is
// terminated without a dead letter (observe.Lost), so that the pending ones do not block the consumer.
func (w *Worker) deadLetter(ctx context.Context, msg jetstream.Msg, d *delivery, o *outcome) error {
	letter := dead.Event{
		Type: d.event.Type, Subject: msg.Subject(), Sequence: d.sequence, Published: d.published,
		Header: msg.Headers(), Data: msg.Data(),
	}
	err := w.opts.Dead.Put(ctx, letter, o.code, o.reason)
	switch {
	case streams.NoRoom(err):
		pause := untilRoom(d.number)
		if now := w.now(); w.unburied.hold(d.sequence, now, now.Add(pause+w.opts.AckWait)) {
			return errors.Join(err, msg.NakWithDelay(pause))
		}
		o.verdict, o.reason = observe.Lost, o.reason+"; "+err.Error()
		return msg.TermWithReason(string(o.code))
	case err != nil:
		return errors.Join(err, msg.NakWithDelay(longer(time.Second, d.number)))
	}
	w.unburied.forget(d.sequence)
	w.observer.Step(ctx, observe.StepBuried)
	return msg.TermWithReason(string(o.code))
}
