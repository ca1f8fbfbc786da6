package worker

import (
	"context"
	"fmt"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
)

// answers reports whether a stored reply can be one to the event: in kind, and of the
// same tenant where both say whose they are. An event that is not valid says neither,
// so only the rejection of just such an event is its own.
func answers(d *delivery, r events.Reply) bool {
	if d.invalid != nil {
		return !r.Final() || r.Error != nil && r.Error.Code == engine.CodeInvalidEvent
	}
	return r.Answers(d.event)
}

// foreign is the outcome of an event under whose id another one is answered. That reply
// stays and is not shown; the event's own cannot be stored beside it, so its inbox alone
// is told.
func (h *Handler) foreign(ctx context.Context, a *attempt) outcome {
	reply := rejected(a.event, &engine.Error{
		Code: engine.CodeInvalidEvent,
		Err:  fmt.Errorf("request id %s is that of another event", a.event.ID),
		Hint: "publish the event again under an id of its own",
	})
	h.copy(ctx, a, reply)
	return finalOutcome(reply)
}

// foreignRuntime is why a runtime cannot be provisioned: rule 3.
func foreignRuntime(e events.Event) error {
	return notOf(e.RuntimeID, e.Provision.GlobalAccountID, "provision a runtime with another runtimeID")
}

// foreignDeparture refuses to deprovision another tenant's runtime (rule 7).
func foreignDeparture(e events.Event) error {
	return notOf(e.RuntimeID, e.Deprovision.GlobalAccountID,
		"publish the deprovision with the runtime's own global account, or have an operator run 'hapctl deprovision --runtime "+e.RuntimeID+"'")
}

// notOf says of a runtime that it is not the tenant's, and nothing of whose it is or of what it has.
func notOf(runtime, tenant, hint string) error {
	return &engine.Error{
		Code: engine.CodeInvalidEvent, Err: fmt.Errorf("runtime %s is not one of global account %s", runtime, tenant), Hint: hint,
	}
}
