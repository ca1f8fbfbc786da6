package events

import "time"

// Passed is a rule of the plan that did not serve the request.
type Passed struct {
	Rule       string `json:"rule"`
	RuleNumber int    `json:"ruleNumber,omitzero"` // from 1
	Why        string `json:"why"`
}

// Attempt says what a worker did about the label of a binding while it looked for
// one that may be answered.
type Attempt struct {
	Binding string `json:"binding"`
	// Result is written, conflict (another writer wrote meanwhile), unknown (whether it
	// was written), unavailable, or revoked (the binding turned out to be another's).
	Result string `json:"result"`
}

// Times are the moments of a request. The moment of its answer is the time of the reply in the
// ledger.
type Times struct {
	Published time.Time `json:"published,omitzero"` // the stream had the event
	Began     time.Time `json:"began,omitzero"`     // the worker that answered took it up
	Waiting   time.Time `json:"waiting,omitzero"`   // it began to wait
	Decided   time.Time `json:"decided,omitzero"`   // Redis decided last
	Claimed   time.Time `json:"claimed,omitzero"`   // the label was written
}

// Changed says what a deprovision changed.
type Changed struct {
	// Runtime is the state of the runtime before: assigned, waiting, gone or none. Absent
	// where the event came again, so that it cannot be told.
	Runtime string `json:"runtime,omitzero"`
	// Account is the state in which the account was left by it in Redis, before its label was
	// looked at: claimed, draining, dirtying, free.
	Account string `json:"account,omitzero"`
	// Superseded is the request of the runtime that waited until then.
	Superseded string `json:"superseded,omitzero"`
	// By is the source of the deprovision: who published it.
	By string `json:"by,omitzero"`
}
