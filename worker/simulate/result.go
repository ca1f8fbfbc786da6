package simulate

import (
	"github.com/hap-worker/hap-worker/events"
)

// Result is the answer to an event.
type Result struct {
	RequestID      string                 `json:"requestID,omitempty"`
	Type           events.Type            `json:"type"`
	RuntimeID      string                 `json:"runtimeID,omitempty"`
	Tenant         string                 `json:"tenant,omitempty"`
	Status         events.Status          `json:"status"`
	Served         bool                   `json:"served,omitempty"` // it waited, and was served before or after an event
	Pool           string                 `json:"pool,omitempty"`
	Rule           string                 `json:"rule,omitempty"`
	RuleNumber     int                    `json:"ruleNumber,omitempty"`
	Binding        string                 `json:"binding,omitempty"`
	Claimed        bool                   `json:"claimed,omitempty"`
	Clusters       *int                   `json:"clusters,omitempty"`
	Limit          int                    `json:"limit,omitempty"`
	Position       int                    `json:"position,omitempty"`
	Waiting        *events.Waiting        `json:"waiting,omitempty"`
	Dirty          bool                   `json:"markedDirty,omitempty"`
	Considered     []events.Considered    `json:"considered,omitempty"`
	Network        []events.Network       `json:"network,omitempty"`
	Implementation *events.Implementation `json:"implementation,omitempty"`
	Error          *events.ReplyError     `json:"error,omitempty"`
	First          []Result               `json:"first,omitempty"`  // requests that waited and were served before the first event
	Serves         []Result               `json:"serves,omitempty"` // requests that waited and that the event made room for
}

// result converts the reply to an event of a type. It leaves out a request id that the simulator has made, and the
// rule of a request that the state had waiting, since its plan is not known.
func (s *Simulator) result(kind events.Type, r events.Reply) Result {
	out := Result{
		RequestID: r.RequestID, Type: kind, RuntimeID: r.RuntimeID, Tenant: r.GlobalAccountID, Status: r.Status,
		Clusters: r.Clusters, Waiting: r.Waiting, Dirty: r.MarkedDirty, Network: r.Network, Implementation: r.Implementation, Error: r.Error,
	}
	if s.unnamed[r.RequestID] {
		out.RequestID = ""
	}
	if d := r.Decision; d != nil {
		out.Pool, out.Considered = d.Pool, d.Considered
		if !s.restored[r.RequestID] {
			out.Rule, out.RuleNumber = d.Rule, d.RuleNumber
		}
	}
	if b := r.Binding; b != nil {
		out.Binding, out.Claimed = b.Name, b.Claimed
		if r.Status == events.StatusAssigned {
			out.Limit = r.Limit
		}
	}
	if r.Waiting != nil {
		out.Position = r.Waiting.Position
	}
	return out
}
