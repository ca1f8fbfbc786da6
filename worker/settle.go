package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// verdict is what happens to the message of an event.
type verdict string

const (
	ack      verdict = "ack"       // answered; or a repeat of what was
	bury     verdict = "bury"      // never valid: dead letter, then terminated
	later    verdict = "later"     // cannot now: delivered again after a delay
	handBack verdict = "hand-back" // this worker stops: delivered again at once
)

// outcome is how the handling of an event ended. Handlers return it, settle
// alone speaks to the stream.
type outcome struct {
	verdict verdict
	status  events.Status
	code    engine.Code
	reason  string
	binding string
	delay   time.Duration
}

// finalOutcome is the outcome of an event whose final reply is stored.
func finalOutcome(r events.Reply) outcome {
	o := outcome{verdict: ack, status: r.Status}
	if r.Binding != nil {
		o.binding = r.Binding.Name
	}
	if r.Error == nil {
		return o
	}
	o.code, o.reason = r.Error.Code, r.Error.Message
	if neverValid(r.Error.Code) {
		o.verdict = bury
	}
	return o
}

// buried is the outcome of an event that can never be processed.
func buried(r events.Reply, err error) outcome {
	return outcome{verdict: bury, status: r.Status, code: engine.CodeOf(err), reason: err.Error()}
}

// neverValid reports whether an event with this error would be rejected however
// often and whenever it came: somebody has to look at it.
func neverValid(c engine.Code) bool {
	switch c {
	case engine.CodeInvalidEvent, engine.CodeNoMatchingRule, engine.CodeUnknownProvider, engine.CodeNoImplementation:
		return true
	default:
		return false
	}
}

// passing reports whether an error is one of the moment: the event is tried
// again and never rejected because of it.
func passing(err error) bool {
	if err == nil {
		return false
	}
	var e *engine.Error
	return !errors.As(err, &e) || e.Code == engine.CodeInternal
}

// notNow is the outcome of an event that could not be brought to an end.
func notNow(ctx context.Context, err error) outcome {
	o := outcome{verdict: later, code: engine.CodeInternal, reason: err.Error()}
	switch {
	case errors.Is(context.Cause(ctx), errDraining):
		o.verdict, o.reason = handBack, errDraining.Error()
	case errors.Is(err, account.ErrNotBuilt), errors.Is(err, account.ErrRebuilt):
		o.delay = time.Second // a rebuild is on its way
	case errors.Is(err, engine.ErrUnavailable):
		o.delay = 5 * time.Second
	default:
		o.delay = 2 * time.Second
	}
	return o
}

// settle tells the stream what became of the message. An error means that the
// message comes again, which every handler can bear.
func (w *Worker) settle(ctx context.Context, d delivery, o outcome) error {
	var err error
	switch o.verdict {
	case ack:
		err = d.msg.Ack()
	case bury:
		err = w.bury(ctx, d, o)
	case later:
		err = d.msg.NakWithDelay(o.delay)
	case handBack:
		err = d.msg.Nak()
	}
	if err != nil {
		return fmt.Errorf("settle as %s: %w", o.verdict, err)
	}
	w.listener.step(ctx, StepSettled)
	return nil
}

// bury stores the dead letter before it ends the message, so that it is never in
// neither place.
func (w *Worker) bury(ctx context.Context, d delivery, o outcome) error {
	letter := events.Letter{
		Type: d.event.Type, Subject: d.msg.Subject(), Sequence: d.sequence,
		Header: d.msg.Headers(), Data: d.msg.Data(),
	}
	if err := w.opts.Dead.Bury(ctx, letter, o.code, o.reason); err != nil {
		return errors.Join(err, d.msg.NakWithDelay(time.Second))
	}
	w.listener.step(ctx, StepBuried)
	return d.msg.TermWithReason(string(o.code))
}
