// Package observe defines the facts that a worker reports, one type each, and the Observer that gets them.
// Logs, metrics, the operations page and Kubernetes Events each have an Observer; Join combines several.
package observe

import "context"

// Observer has a callback for each kind of fact. Callbacks are optional. They are called on the goroutine
// that did the work, and must not block.
type Observer struct {
	OnStep     func(context.Context, Step)
	OnEvent    func(context.Context, Event)
	OnDecision func(context.Context, Decision)
	OnClaim    func(context.Context, Claim)
	OnRetry    func(context.Context, Retry)
	OnAssigned func(context.Context, Assigned)
	OnWaiting  func([]Waiting) // all waiting requests, periodically

	OnRebuild   func(context.Context, Rebuild)
	OnFollowed  func(context.Context, Followed)
	OnDrift     func(context.Context, Drift)
	OnSkipped   func(context.Context, Skipped)
	OnExtended  func(context.Context, Extended)
	OnNoted     func(context.Context, Noted)
	OnRefresh   func(context.Context, Refresh)
	OnUnserved  func(context.Context, Unserved)
	OnRetention func(context.Context, Retention)
	OnFence     func(context.Context, Fence)
	OnCircuit   func(context.Context, Circuit)
	OnClock     func(context.Context, Clock)
}

// tell calls on, if there is one.
func tell[F any](ctx context.Context, on func(context.Context, F), fact F) {
	if on != nil {
		on(ctx, fact)
	}
}

// Step reports a step.
func (o *Observer) Step(ctx context.Context, s Step) { tell(ctx, o.OnStep, s) }

// Event reports the end of an event's handling.
func (o *Observer) Event(ctx context.Context, e Event) { tell(ctx, o.OnEvent, e) }

// Decision reports a decision of Redis.
func (o *Observer) Decision(ctx context.Context, d Decision) { tell(ctx, o.OnDecision, d) }

// Claim reports an attempt to write a label, or a revoked claim.
func (o *Observer) Claim(ctx context.Context, c Claim) { tell(ctx, o.OnClaim, c) }

// Retry reports a failed attempt.
func (o *Observer) Retry(ctx context.Context, r Retry) { tell(ctx, o.OnRetry, r) }

// Assigned reports a stored assignment.
func (o *Observer) Assigned(ctx context.Context, a Assigned) { tell(ctx, o.OnAssigned, a) }

// Waiting reports all waiting requests.
func (o *Observer) Waiting(all []Waiting) {
	if o.OnWaiting != nil {
		o.OnWaiting(all)
	}
}

// Rebuild reports the end of a rebuild.
func (o *Observer) Rebuild(ctx context.Context, r Rebuild) { tell(ctx, o.OnRebuild, r) }

// Followed reports a record that changed because of a label.
func (o *Observer) Followed(ctx context.Context, f Followed) { tell(ctx, o.OnFollowed, f) }

// Drift reports the end of an audit.
func (o *Observer) Drift(ctx context.Context, d Drift) { tell(ctx, o.OnDrift, d) }

// Skipped reports a network rule that was not applied.
func (o *Observer) Skipped(ctx context.Context, s Skipped) { tell(ctx, o.OnSkipped, s) }

// Extended reports a network rule that was applied after the answer, or found no room.
func (o *Observer) Extended(ctx context.Context, e Extended) { tell(ctx, o.OnExtended, e) }

// Noted reports the result of writing or removing a runtime's ClusterConfigs.
func (o *Observer) Noted(ctx context.Context, n Noted) { tell(ctx, o.OnNoted, n) }

// Refresh reports a comparison of network blocks.
func (o *Observer) Refresh(ctx context.Context, r Refresh) { tell(ctx, o.OnRefresh, r) }

// Unserved reports the end of a pass over all clusters, or over those that were due.
func (o *Observer) Unserved(ctx context.Context, u Unserved) { tell(ctx, o.OnUnserved, u) }

// Retention reports the end of a retention pass.
func (o *Observer) Retention(ctx context.Context, r Retention) { tell(ctx, o.OnRetention, r) }

// Fence reports a check whether epochs are in force.
func (o *Observer) Fence(ctx context.Context, f Fence) { tell(ctx, o.OnFence, f) }

// Circuit reports that a circuit has opened or closed.
func (o *Observer) Circuit(ctx context.Context, c Circuit) { tell(ctx, o.OnCircuit, c) }

// Clock reports a measurement of a store's clock.
func (o *Observer) Clock(ctx context.Context, c Clock) { tell(ctx, o.OnClock, c) }

// Join returns an observer that passes every fact to all of these, in order.
func Join(all ...Observer) Observer {
	var j Observer
	for _, o := range all {
		j.OnStep, j.OnEvent, j.OnDecision = both(j.OnStep, o.OnStep), both(j.OnEvent, o.OnEvent), both(j.OnDecision, o.OnDecision)
		j.OnClaim, j.OnRetry, j.OnAssigned = both(j.OnClaim, o.OnClaim), both(j.OnRetry, o.OnRetry), both(j.OnAssigned, o.OnAssigned)
		j.OnRebuild, j.OnFollowed, j.OnDrift = both(j.OnRebuild, o.OnRebuild), both(j.OnFollowed, o.OnFollowed), both(j.OnDrift, o.OnDrift)
		j.OnSkipped, j.OnExtended, j.OnNoted = both(j.OnSkipped, o.OnSkipped), both(j.OnExtended, o.OnExtended), both(j.OnNoted, o.OnNoted)
		j.OnRefresh, j.OnUnserved, j.OnRetention = both(j.OnRefresh, o.OnRefresh), both(j.OnUnserved, o.OnUnserved), both(j.OnRetention, o.OnRetention)
		j.OnFence, j.OnCircuit, j.OnClock = both(j.OnFence, o.OnFence), both(j.OnCircuit, o.OnCircuit), both(j.OnClock, o.OnClock)
		j.OnWaiting = bothOfAll(j.OnWaiting, o.OnWaiting)
	}
	return j
}

func both[F any](first, second func(context.Context, F)) func(context.Context, F) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, fact F) {
		first(ctx, fact)
		second(ctx, fact)
	}
}

func bothOfAll(first, second func([]Waiting)) func([]Waiting) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(all []Waiting) {
		first(all)
		second(all)
	}
}
