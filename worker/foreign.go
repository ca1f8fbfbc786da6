package worker

import (
	"context"
	"fmt"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
)

// answers reports whether a stored reply can be the answer to this event: it has the event's type and,
// where both name one, its tenant. An invalid event has neither: the only final reply that it accepts is a rejection
// with InvalidEvent, and the only other one a seal that no event has taken. It never waits, and takes no id.
func answers(d *delivery, r events.Reply) bool {
	if d.invalid != nil {
		return r.Status == events.StatusSealed && r.For == "" || r.Error != nil && r.Error.Code == engine.CodeInvalidEvent
	}
	return r.Answers(d.event)
}

// foreign returns the outcome of an event whose request id already has the reply to another event. That
// reply stays and is not disclosed. The rejection cannot be stored under the same id, so it goes only to
// the event's inbox.
func (h *Handler) foreign(ctx context.Context, a *attempt) outcome {
	reply := rejected(a.event, &engine.Error{
		Code: engine.CodeInvalidEvent,
		Err:  fmt.Errorf("request id %s is that of another event", a.event.ID),
		Hint: "publish the event again under another id",
	})
	h.copy(ctx, a, reply)
	return finalOutcome(reply)
}

// foreignRuntime returns the error for the provision of another tenant's runtime (rule 3).
func foreignRuntime(e events.Event) error {
	return notOf(e.RuntimeID, e.Provision.GlobalAccountID, "provision a runtime with another runtimeID")
}

// foreignDeparture returns the error for the deprovision of another tenant's runtime (rule 7).
func foreignDeparture(e events.Event) error {
	return notOf(e.RuntimeID, e.Deprovision.GlobalAccountID,
		"publish the deprovision with the runtime's own global account, or have an operator run 'hapctl deprovision --runtime "+e.RuntimeID+"'")
}

// notOf returns an error that does not disclose the runtime's owner or account.
func notOf(runtime, tenant, hint string) error {
	return &engine.Error{
		Code: engine.CodeInvalidEvent, Err: fmt.Errorf("runtime %s is not one of global account %s", runtime, tenant), Hint: hint,
	}
}
