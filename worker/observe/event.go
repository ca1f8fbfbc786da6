package observe

import (
	"log/slog"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
)

// Step names a point in the handling of an event or in a rebuild. A step is reported as soon as the work up to
// this point is complete, so that tests can stop the process exactly there.
type Step string

// The steps of events, in their usual order. Each event has some of them.
const (
	StepReceived  Step = "received"  // decoded, nothing done
	StepLocated   Step = "located"   // the directory has the runtime
	StepAcquired  Step = "acquired"  // the cluster has its network blocks
	StepAssigned  Step = "assigned"  // counted in Redis, perhaps not confirmed
	StepLabelled  Step = "labelled"  // the label is written
	StepConfirmed Step = "confirmed" // Redis knows that the label is written
	StepDeparted  Step = "departed"  // a deprovisioned runtime is no longer counted
	StepDirtying  Step = "dirtying"  // Redis permits to mark the binding dirty
	StepFreed     Step = "freed"     // a binding has lost its labels: it was released, or no request was answered with its claim
	StepEntered   Step = "entered"   // the request lies in the waiting room
	StepPublished Step = "published" // the reply is stored
	StepBuried    Step = "buried"    // the dead letter is stored
	StepSettled   Step = "settled"   // the stream was told the outcome
)

// Steps returns all steps of events, in their usual order.
func Steps() []Step {
	return []Step{
		StepReceived, StepLocated, StepAcquired, StepAssigned, StepLabelled, StepConfirmed, StepDeparted,
		StepDirtying, StepFreed, StepEntered, StepPublished, StepBuried, StepSettled,
	}
}

// The steps of a rebuild, in order. Each is reported after its work is complete.
const (
	StepToken     Step = "token"     // the rebuild's token is written
	StepSealed    Step = "sealed"    // all events without a final reply are sealed
	StepGathered  Step = "gathered"  // ledger, labels and Shoots are read
	StepInstalled Step = "installed" // a pool or bucket is in place
)

// RebuildSteps returns the steps of a rebuild, in order.
func RebuildSteps() []Step { return []Step{StepToken, StepSealed, StepGathered, StepInstalled} }

// Outcome is how the handling of an event ended.
type Outcome string

// The outcomes.
const (
	Ack          Outcome = "ack"       // its reply is stored, by this delivery or before: answered, or it waits
	DeadLetter   Outcome = "bury"      // never valid, or its handling always fails: dead letter, terminated
	Lost         Outcome = "lost"      // as DeadLetter, but without room for the dead letter: terminated
	NakWithDelay Outcome = "later"     // not possible now: redelivered after a delay
	Nak          Outcome = "hand-back" // the worker stops: redelivered at once
	Served       Outcome = "served"    // a request that waited has its final answer
	Unsettled    Outcome = "unsettled" // the outcome or the dead letter could not be sent: redelivered
)

// Event is an event whose handling has ended.
type Event struct {
	Type     string
	ID       string
	Tenant   string // "" if the event names none
	Runtime  string // "" for a release, or if the event names none
	Subject  string
	Outcome  Outcome
	Status   string // of the reply; "" if there is none
	Code     engine.Code
	Reason   string
	Binding  string
	Duration time.Duration // of its handling, until it was settled
	Delivery uint64        // number of the delivery, from 1; at least 2 if a reply may have been stored before
	Waited   time.Duration // time in the waiting room, if it was served from there
}

// LogValue groups what a log line needs.
func (i Event) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("type", i.Type), slog.String("request", i.ID), slog.String("subject", i.Subject),
		slog.String("outcome", string(i.Outcome)), slog.Duration("duration", i.Duration), slog.Uint64("delivery", i.Delivery),
	}
	if i.Waited > 0 {
		attrs = append(attrs, slog.Duration("waited", i.Waited))
	}
	for _, a := range []slog.Attr{
		slog.String("status", i.Status), slog.String("code", string(i.Code)),
		slog.String("binding", i.Binding), slog.String("reason", i.Reason),
	} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	return slog.GroupValue(attrs...)
}

// Decision is a decision of Redis about a runtime.
type Decision struct {
	Pool     string
	Runtime  string
	Tenant   string
	Decision account.Decision
}

// LogValue groups what a log line needs.
func (i Decision) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("pool", i.Pool), slog.String("runtime", i.Runtime),
		slog.String("outcome", string(i.Decision.Outcome)), slog.String("binding", i.Decision.Binding),
		slog.String("origin", string(i.Decision.Origin)), slog.Int64("sequence", i.Decision.Sequence),
		slog.Bool("confirmed", i.Decision.Confirmed), slog.Int("clusters", i.Decision.Count),
	)
}

// ClaimResult is the result of a Claim.
type ClaimResult string

// The results of a claim.
const (
	ClaimWritten     ClaimResult = "ok"
	ClaimConflict    ClaimResult = "conflict"    // another writer wrote the binding meanwhile
	ClaimUnknown     ClaimResult = "unknown"     // the write may have happened
	ClaimUnavailable ClaimResult = "unavailable" // any other failure: Gardener does not answer, or the binding is gone
	ClaimRefused     ClaimResult = "refused"     // Gardener refuses to label this account
	ClaimRevoked     ClaimResult = "revoked"     // by its labels, the binding must not have this claim any more
)

// ClaimResults lists all values of ClaimResult.
func ClaimResults() []ClaimResult {
	return []ClaimResult{ClaimWritten, ClaimConflict, ClaimUnknown, ClaimUnavailable, ClaimRefused, ClaimRevoked}
}

// Claim is one attempt to write a binding's label, or a claim that was revoked.
type Claim struct {
	Binding  string
	Pool     string
	Runtime  string
	Result   ClaimResult
	Duration time.Duration
	Err      error
}

// LogValue groups what a log line needs.
func (i Claim) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("binding", i.Binding), slog.String("pool", i.Pool), slog.String("runtime", i.Runtime),
		slog.String("result", string(i.Result)), slog.Duration("duration", i.Duration),
	}
	if i.Err != nil {
		attrs = append(attrs, slog.String("error", i.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// Skipped is a network rule that was not applied to a cluster, since another rule has already set one of the
// rule's paths for this cluster.
type Skipped struct {
	Runtime string
	Skipped network.Skipped
}

// Assigned is an assignment that was stored as a request's answer.
type Assigned struct {
	Pool string
	Took time.Duration // since the stream stored the request
}

// Waiting is a request that waits.
type Waiting struct {
	Pool   string
	Reason string
	Since  time.Time
}

// Retry is a failed attempt. Most are repeated, but not those of Type copy (of a reply to an inbox) and decode, nor one
// after which the event is rejected because its handling always fails.
type Retry struct {
	Type  string
	ID    string
	After time.Duration // time until the next attempt; 0 if it is unknown
	Err   error
}

// LogValue groups what a log line needs.
func (i Retry) LogValue() slog.Value {
	return slog.GroupValue(slog.String("type", i.Type), slog.String("request", i.ID),
		slog.Duration("after", i.After), slog.String("error", i.Err.Error()))
}
