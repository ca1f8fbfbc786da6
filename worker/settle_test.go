package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// The settle table: what happens to an event, by the final reply that is stored.
func TestFinalReplySettles(t *testing.T) {
	t.Parallel()
	refusal := func(code engine.Code) events.Reply {
		return events.Reply{Status: events.StatusRejected, Error: &events.ReplyError{Code: code, Message: "why"}}
	}
	for _, c := range []struct {
		name  string
		reply events.Reply
		want  observe.Outcome
	}{
		{"assigned", events.Reply{Status: events.StatusAssigned}, observe.Ack},
		{"released", events.Reply{Status: events.StatusReleased}, observe.Ack},
		{"returned", events.Reply{Status: events.StatusReturned}, observe.Ack},
		{"invalid", refusal(engine.CodeInvalidEvent), observe.DeadLetter},
		{"no rule", refusal(engine.CodeNoMatchingRule), observe.DeadLetter},
		{"unknown provider", refusal(engine.CodeUnknownProvider), observe.DeadLetter},
		{"no implementation", refusal(engine.CodeNoImplementation), observe.DeadLetter},
		{"pool exhausted", refusal(engine.CodePoolExhausted), observe.Ack},
		{"superseded", refusal(engine.CodeSuperseded), observe.Ack},
		{"binding in use", refusal(engine.CodeBindingInUse), observe.Ack},
		{"not dirty", refusal(engine.CodeNotDirty), observe.Ack},
		{"stale release", refusal(engine.CodeStaleRelease), observe.Ack},
		{"unknown binding", refusal(engine.CodeUnknownBinding), observe.Ack},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := finalOutcome(c.reply)
			if o.verdict != c.want {
				t.Errorf("verdict %s, want %s", o.verdict, c.want)
			}
			if c.reply.Error != nil && (o.code != c.reply.Error.Code || o.reason != "why") {
				t.Errorf("code and reason are %s, %q; want those of the reply", o.code, o.reason)
			}
		})
	}
}

// A transient error never ends an event.
func TestErrorsOfTheMomentAreTriedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		err       error
		transient bool
	}{
		{"not built", fmt.Errorf("assign: %w", account.ErrNotBuilt), true},
		{"Gardener unavailable", fmt.Errorf("claim: %w", engine.ErrUnavailable), true},
		{"a lost connection", errors.New("broken pipe"), true},
		{"rebuilt since", fmt.Errorf("assign: %w", account.ErrRebuilt), true},
		{"a conflict at Gardener", engine.ErrConflict, true},
		{"the budget is spent", context.DeadlineExceeded, true},
		{"several, one of them final", errors.Join(errors.New("broken pipe"), &engine.Error{Code: engine.CodeNotDirty}), false},
		{"a fault of ours", &engine.Error{Code: engine.CodeInternal, Err: errors.New("redis: refused")}, true},
		{"an unknown binding", &engine.Error{Code: engine.CodeUnknownBinding}, false},
		{"no rule", &engine.Error{Code: engine.CodeNoMatchingRule}, false},
		{"nothing", nil, false},
	} {
		if got := transient(c.err); got != c.transient {
			t.Errorf("%s: transient is %t, want %t", c.name, got, c.transient)
		}
	}
}

func TestNotNow(t *testing.T) {
	t.Parallel()
	draining, cancel := context.WithCancelCause(t.Context())
	cancel(errDraining)
	for _, c := range []struct {
		name  string
		ctx   context.Context
		err   error
		want  observe.Outcome
		delay time.Duration
	}{
		{"draining", draining, errors.New("half way"), observe.Nak, 0},
		{"draining while Gardener is away", draining, engine.ErrUnavailable, observe.Nak, 0},
		{"not built", t.Context(), fmt.Errorf("assign: aws: %w", account.ErrNotBuilt), observe.NakWithDelay, time.Second},
		{"rebuilt since", t.Context(), fmt.Errorf("assign: aws: %w", account.ErrRebuilt), observe.NakWithDelay, time.Second},
		{"Gardener unavailable", t.Context(), fmt.Errorf("claim: %w", engine.ErrUnavailable), observe.NakWithDelay, 5 * time.Second},
		{"the budget is spent", t.Context(), errBudget, observe.NakWithDelay, 2 * time.Second},
		{"anything else", t.Context(), errors.New("broken pipe"), observe.NakWithDelay, 2 * time.Second},
	} {
		o := notNow(c.ctx, c.err)
		if o.verdict != c.want || o.delay != c.delay || o.code != engine.CodeInternal || o.reason == "" {
			t.Errorf("%s: %+v, want %s after %s, with a reason", c.name, o, c.want, c.delay)
		}
	}
}

// An event whose id has the reply to another type of event does not get that reply.
func TestReplyOfAnotherEventDoesNotStand(t *testing.T) {
	t.Parallel()
	for status, fits := range map[events.Status]events.Type{
		events.StatusAssigned: events.TypeProvision, events.StatusReleased: events.TypeDeprovision,
		events.StatusReturned: events.TypeRelease, events.StatusResolved: events.TypeResolve,
	} {
		for _, event := range []events.Type{events.TypeProvision, events.TypeDeprovision, events.TypeRelease, events.TypeResolve} {
			d := &delivery{event: events.Event{Type: event}}
			if got := answers(d, events.Reply{Status: status}); got != (event == fits) {
				t.Errorf("%s answers %s: %t", status, event, got)
			}
			if !answers(d, events.Reply{Status: events.StatusRejected}) {
				t.Errorf("a rejection answers %s too", event)
			}
		}
	}
}

// Nor does it get the reply to another tenant's event.
func TestReplyOfAnotherTenantDoesNotStand(t *testing.T) {
	t.Parallel()
	provision := func(tenant string) events.Event {
		return events.Event{Type: events.TypeProvision, Provision: &events.Provision{GlobalAccountID: tenant}}
	}
	invalid := &engine.Error{Code: engine.CodeInvalidEvent}
	refusal := func(code engine.Code) events.Reply {
		return events.Reply{Status: events.StatusRejected, GlobalAccountID: "ga-1", Error: &events.ReplyError{Code: code}}
	}
	for _, c := range []struct {
		name  string
		event delivery
		reply events.Reply
		want  bool
	}{
		{"its own", delivery{event: provision("ga-1")}, events.Reply{Status: events.StatusAssigned, GlobalAccountID: "ga-1"}, true},
		{"another's", delivery{event: provision("ga-2")}, events.Reply{Status: events.StatusAssigned, GlobalAccountID: "ga-1"}, false},
		{"another's that waits", delivery{event: provision("ga-2")}, events.Reply{Status: events.StatusWaiting, GlobalAccountID: "ga-1"}, false},
		{"another's that is refused", delivery{event: provision("ga-2")}, refusal(engine.CodePoolExhausted), false},
		{"of an older version", delivery{event: provision("ga-2")}, events.Reply{Status: events.StatusAssigned}, true},
		{"sealed", delivery{event: provision("ga-2")}, events.Reply{Status: events.StatusSealed}, true},
		{"sealed for another's deprovision", delivery{event: events.Event{Type: events.TypeDeprovision, Deprovision: &events.Deprovision{GlobalAccountID: "ga-2"}}}, events.Reply{Status: events.StatusSealed, For: events.TypeDeprovision, GlobalAccountID: "ga-1"}, false},
		{"of a deprovision", delivery{event: events.Event{Type: events.TypeDeprovision, Deprovision: &events.Deprovision{GlobalAccountID: "ga-2"}}}, events.Reply{Status: events.StatusReleased, GlobalAccountID: "ga-1"}, false},
		{"of a deprovision without a tenant", delivery{event: events.Event{Type: events.TypeDeprovision, Deprovision: &events.Deprovision{}}}, events.Reply{Status: events.StatusReleased, GlobalAccountID: "ga-1"}, true},
		{"to an event that is not valid", delivery{invalid: invalid}, events.Reply{Status: events.StatusAssigned, GlobalAccountID: "ga-1"}, false},
		{"a refusal, to an event that is not valid", delivery{invalid: invalid}, refusal(engine.CodePoolExhausted), false},
		{"its own, of an event that is not valid", delivery{invalid: invalid}, refusal(engine.CodeInvalidEvent), true},
	} {
		if got := answers(&c.event, c.reply); got != c.want {
			t.Errorf("%s: it stands: %t, want %t", c.name, got, c.want)
		}
	}
}

// A handler that outlives every budget makes the worker unhealthy.
func TestStuckHandlerIsNoticed(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	w := New(Options{Concurrency: 2, Budget: time.Second, AckWait: 2 * time.Second, Now: func() time.Time { return now }})
	w.places[1].Store(&inWork{begun: now})
	if w.InFlight() != 1 {
		t.Errorf("%d in flight, want 1", w.InFlight())
	}
	now = now.Add(9 * time.Second)
	if err := w.Stuck(); err != nil {
		t.Errorf("after 9 s: %v", err)
	}
	now = now.Add(time.Second)
	if err := w.Stuck(); err == nil {
		t.Error("after 10 s nothing is noticed")
	}
}
