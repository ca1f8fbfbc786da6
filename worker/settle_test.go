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
		want  verdict
	}{
		{"assigned", events.Reply{Status: events.StatusAssigned}, ack},
		{"released", events.Reply{Status: events.StatusReleased}, ack},
		{"returned", events.Reply{Status: events.StatusReturned}, ack},
		{"invalid", refusal(engine.CodeInvalidEvent), bury},
		{"no rule", refusal(engine.CodeNoMatchingRule), bury},
		{"unknown provider", refusal(engine.CodeUnknownProvider), bury},
		{"no implementation", refusal(engine.CodeNoImplementation), bury},
		{"pool exhausted", refusal(engine.CodePoolExhausted), ack},
		{"superseded", refusal(engine.CodeSuperseded), ack},
		{"binding in use", refusal(engine.CodeBindingInUse), ack},
		{"not dirty", refusal(engine.CodeNotDirty), ack},
		{"stale release", refusal(engine.CodeStaleRelease), ack},
		{"unknown binding", refusal(engine.CodeUnknownBinding), ack},
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

// What cannot be done now never ends an event.
func TestErrorsOfTheMomentAreTriedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		err     error
		passing bool
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
		if got := passing(c.err); got != c.passing {
			t.Errorf("%s: passing is %t, want %t", c.name, got, c.passing)
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
		want  verdict
		delay time.Duration
	}{
		{"draining", draining, errors.New("half way"), handBack, 0},
		{"draining while Gardener is away", draining, engine.ErrUnavailable, handBack, 0},
		{"not built", t.Context(), fmt.Errorf("assign: aws: %w", account.ErrNotBuilt), later, time.Second},
		{"rebuilt since", t.Context(), fmt.Errorf("assign: aws: %w", account.ErrRebuilt), later, time.Second},
		{"Gardener unavailable", t.Context(), fmt.Errorf("claim: %w", engine.ErrUnavailable), later, 5 * time.Second},
		{"the budget is spent", t.Context(), errBudget, later, 2 * time.Second},
		{"anything else", t.Context(), errors.New("broken pipe"), later, 2 * time.Second},
	} {
		o := notNow(c.ctx, c.err)
		if o.verdict != c.want || o.delay != c.delay || o.code != engine.CodeInternal || o.reason == "" {
			t.Errorf("%s: %+v, want %s after %s, with a reason", c.name, o, c.want, c.delay)
		}
	}
}

// An id that was used for another event is not answered with that one's reply.
func TestReplyOfAnotherEventDoesNotStand(t *testing.T) {
	t.Parallel()
	for status, fits := range map[events.Status]events.Type{
		events.StatusAssigned: events.TypeProvision, events.StatusReleased: events.TypeDeprovision,
		events.StatusReturned: events.TypeRelease, events.StatusResolved: events.TypeResolve,
	} {
		for _, event := range []events.Type{events.TypeProvision, events.TypeDeprovision, events.TypeRelease, events.TypeResolve} {
			if got := answers(status, event); got != (event == fits) {
				t.Errorf("%s answers %s: %t", status, event, got)
			}
			if !answers(events.StatusRejected, event) {
				t.Errorf("a rejection answers %s too", event)
			}
		}
	}
}

// A handler that outlives every budget makes the worker unhealthy.
func TestStuckHandlerIsNoticed(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	w := New(Options{Concurrency: 2, Budget: time.Second, AckWait: 2 * time.Second, Now: func() time.Time { return now }})
	w.inWork[1].Store(&inWork{begun: now})
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
