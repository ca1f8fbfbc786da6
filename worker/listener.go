package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
)

// Step names a point on the path of an event. What is done before a step is
// done when it is announced: tests stop the process there.
type Step string

// The steps of a provision event, in order; others pass a part of them.
const (
	StepReceived  Step = "received"  // decoded, nothing done
	StepLocated   Step = "located"   // the runtime stands in the directory
	StepAcquired  Step = "acquired"  // the cluster has its network blocks
	StepAssigned  Step = "assigned"  // counted in Redis, perhaps not confirmed
	StepLabelled  Step = "labelled"  // the label is written
	StepConfirmed Step = "confirmed" // Redis knows that the label is written
	StepDeparted  Step = "departed"  // a deprovisioned runtime is counted down
	StepDirtying  Step = "dirtying"  // Redis permits to mark the binding dirty
	StepFreed     Step = "freed"     // a binding that was released, or never answered with, has lost its labels
	StepEntered   Step = "entered"   // the request lies in the waiting room
	StepPublished Step = "published" // the reply is stored
	StepBuried    Step = "buried"    // the dead letter is stored
	StepSettled   Step = "settled"   // acknowledged
)

// Steps lists all steps, in the order in which events meet them.
func Steps() []Step {
	return []Step{
		StepReceived, StepLocated, StepAcquired, StepAssigned, StepLabelled, StepConfirmed, StepDeparted,
		StepDirtying, StepFreed, StepEntered, StepPublished, StepBuried, StepSettled,
	}
}

// Listener is told what the worker does. Every callback is optional, is called
// on the handler's goroutine and must not block.
type Listener struct {
	OnStep     func(context.Context, Step)
	OnEvent    func(context.Context, EventInfo)
	OnDecision func(context.Context, DecisionInfo)
	OnClaim    func(context.Context, ClaimInfo)
	OnRetry    func(context.Context, RetryInfo)
	OnRebuild  func(context.Context, RebuildInfo)
	OnFollowed func(context.Context, FollowedInfo)
	OnDrift    func(context.Context, DriftInfo)
	OnSkipped  func(context.Context, SkippedInfo)
	OnExtended func(context.Context, ExtendedInfo)
	OnNoted    func(context.Context, NotedInfo)
	OnRefresh  func(context.Context, RefreshInfo)
	OnAssigned func(context.Context, AssignedInfo)
	OnWaiting  func([]WaitsInfo) // all that wait, whenever they are looked at

	OnRetention func(context.Context, RetentionInfo)
}

// How an event was settled.
const (
	OutcomeAck       = string(ack)      // answered, or a repeat of what was
	OutcomeBury      = string(bury)     // never valid: dead letter, then terminated
	OutcomeLater     = string(later)    // cannot now: comes again after a delay
	OutcomeHandBack  = string(handBack) // the worker stops: comes again at once
	OutcomeServed    = "served"         // a request that waited has its final answer
	OutcomeUnsettled = "unsettled"      // the stream could not be told: comes again
)

// EventInfo is an event that was settled.
type EventInfo struct {
	Type     string
	ID       string
	Tenant   string // "" where the event does not say
	Runtime  string // "" for a release, and where the event does not say
	Subject  string
	Outcome  string // one of the Outcome… constants
	Status   string // of the reply, "" where there is none
	Code     engine.Code
	Reason   string
	Binding  string
	Duration time.Duration // from the hand-over to the worker until it was settled
	Delivery uint64        // counts from 1
	Waited   time.Duration // in the waiting room, where it was served from there
}

// LogValue groups what a log line needs.
func (i EventInfo) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("type", i.Type), slog.String("request", i.ID), slog.String("subject", i.Subject),
		slog.String("outcome", i.Outcome), slog.Duration("duration", i.Duration), slog.Uint64("delivery", i.Delivery),
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

// DecisionInfo is a decision of Redis about a runtime.
type DecisionInfo struct {
	Pool     string
	Runtime  string
	Tenant   string
	Decision account.Decision
}

// LogValue groups what a log line needs.
func (i DecisionInfo) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("pool", i.Pool), slog.String("runtime", i.Runtime),
		slog.String("outcome", string(i.Decision.Outcome)), slog.String("binding", i.Decision.Binding),
		slog.String("origin", string(i.Decision.Origin)), slog.Int64("sequence", i.Decision.Sequence),
		slog.Bool("confirmed", i.Decision.Confirmed), slog.Int("clusters", i.Decision.Count),
	)
}

// ClaimResult is what came of making sure of a binding's label.
type ClaimResult string

// The results of a claim.
const (
	ClaimWritten     ClaimResult = "ok"
	ClaimConflict    ClaimResult = "conflict"    // somebody wrote the binding meanwhile
	ClaimUnknown     ClaimResult = "unknown"     // the write may have happened
	ClaimUnavailable ClaimResult = "unavailable" // Gardener does not answer
	ClaimRevoked     ClaimResult = "revoked"     // another tenant's or dirty by now
)

// ClaimInfo is one attempt to write a binding's label.
type ClaimInfo struct {
	Binding  string
	Pool     string
	Runtime  string
	Result   ClaimResult
	Duration time.Duration
	Err      error
}

// LogValue groups what a log line needs.
func (i ClaimInfo) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("binding", i.Binding), slog.String("pool", i.Pool), slog.String("runtime", i.Runtime),
		slog.String("result", string(i.Result)), slog.Duration("duration", i.Duration),
	}
	if i.Err != nil {
		attrs = append(attrs, slog.String("error", i.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// SkippedInfo is a network rule that was not applied to a cluster, since another one
// has a path of it there.
type SkippedInfo struct {
	Runtime string
	Skipped network.Skipped
}

// AssignedInfo is an assignment that was stored as a request's answer.
type AssignedInfo struct {
	Pool string
	Took time.Duration // since the stream had the request
}

// WaitsInfo is a request that waits.
type WaitsInfo struct {
	Pool   string
	Reason string
	Since  time.Time
}

func (l *Listener) assigned(ctx context.Context, i AssignedInfo) {
	if l.OnAssigned != nil {
		l.OnAssigned(ctx, i)
	}
}

func (l *Listener) waiting(all []WaitsInfo) {
	if l.OnWaiting != nil {
		l.OnWaiting(all)
	}
}

func (l *Listener) skipped(ctx context.Context, i SkippedInfo) {
	if l.OnSkipped != nil {
		l.OnSkipped(ctx, i)
	}
}

func (l *Listener) extended(ctx context.Context, i ExtendedInfo) {
	if l.OnExtended != nil {
		l.OnExtended(ctx, i)
	}
}

// RetryInfo is an attempt that failed and will be made again.
type RetryInfo struct {
	Type  string
	ID    string
	After time.Duration
	Err   error
}

// LogValue groups what a log line needs.
func (i RetryInfo) LogValue() slog.Value {
	return slog.GroupValue(slog.String("type", i.Type), slog.String("request", i.ID),
		slog.Duration("after", i.After), slog.String("error", i.Err.Error()))
}

// RebuildInfo is a rebuild of pools and buckets that ended.
type RebuildInfo struct {
	Pools    []string // installed by this rebuild
	Buckets  int      // installed by this rebuild
	Replies  int      // read from the ledger
	Runtimes int
	Sealed   int
	Ranges   int // rules applied to clusters, where this was a rebuild of the network ranges
	Duration time.Duration
	Err      error
}

// LogValue groups what a log line needs.
func (i RebuildInfo) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Any("pools", i.Pools), slog.Int("buckets", i.Buckets), slog.Int("replies", i.Replies),
		slog.Int("runtimes", i.Runtimes), slog.Int("sealed", i.Sealed), slog.Int("ranges", i.Ranges), slog.Duration("duration", i.Duration),
	}
	if i.Err != nil {
		attrs = append(attrs, slog.String("error", i.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// FollowedInfo is a record in Redis that followed what a label says.
type FollowedInfo struct {
	Binding     string
	Pool        string
	Observation account.Observation
}

// LogValue groups what a log line needs.
func (i FollowedInfo) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("binding", i.Binding), slog.String("pool", i.Pool), slog.String("change", string(i.Observation.Change)),
		slog.String("was", string(i.Observation.Before.State)), slog.String("tenant", i.Observation.Record.Tenant),
	)
}

func (l *Listener) followed(ctx context.Context, i FollowedInfo) {
	if l.OnFollowed != nil {
		l.OnFollowed(ctx, i)
	}
}

func (l *Listener) step(ctx context.Context, s Step) {
	if l.OnStep != nil {
		l.OnStep(ctx, s)
	}
}

func (l *Listener) event(ctx context.Context, i EventInfo) {
	if l.OnEvent != nil {
		l.OnEvent(ctx, i)
	}
}

func (l *Listener) decision(ctx context.Context, i DecisionInfo) {
	if l.OnDecision != nil {
		l.OnDecision(ctx, i)
	}
}

func (l *Listener) claim(ctx context.Context, i ClaimInfo) {
	if l.OnClaim != nil {
		l.OnClaim(ctx, i)
	}
}

func (l *Listener) retry(ctx context.Context, i RetryInfo) {
	if l.OnRetry != nil {
		l.OnRetry(ctx, i)
	}
}

func (l *Listener) rebuild(ctx context.Context, i RebuildInfo) {
	if l.OnRebuild != nil {
		l.OnRebuild(ctx, i)
	}
}
