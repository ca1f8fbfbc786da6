package events

import "time"

// Passed is a rule of the plan that the decision did not use, and why.
type Passed struct {
	Rule       string `json:"rule"`
	RuleNumber int    `json:"ruleNumber,omitzero"` // from 1
	Why        string `json:"why"`
}

// Attempt is one attempt of a worker to write or verify the label of a binding before it answered.
type Attempt struct {
	Binding string `json:"binding"`
	// Result is written, conflict (another writer came first), unknown (it may be written),
	// unavailable, refused, or revoked (the binding can no longer be claimed: it is another tenant's, dirty,
	// of another pool, being deleted, held back or internal).
	Result string `json:"result"`
}

// Times are the moments of a request. The moment of its answer is the time of the reply in the
// ledger.
type Times struct {
	Published time.Time `json:"published,omitzero"` // the stream stored the event
	Began     time.Time `json:"began,omitzero"`     // the worker that answered took it up
	Waiting   time.Time `json:"waiting,omitzero"`   // the request began to wait
	Decided   time.Time `json:"decided,omitzero"`   // Redis made the last decision
	Claimed   time.Time `json:"claimed,omitzero"`   // the label was written
}

// Changed says what a deprovision changed.
type Changed struct {
	// Runtime is the runtime's state before the deprovision: assigned, waiting, gone, or none for an
	// unknown or refused runtime. Absent if the runtime was gone and a worker may have handled the event
	// before: this event itself may have released the runtime.
	Runtime string `json:"runtime,omitzero"`
	// Account is the account's state in Redis after the deprovision, before the worker looked at its
	// label, such as claimed or draining. Absent if the runtime had no account.
	Account string `json:"account,omitzero"`
	// Superseded is the id of the runtime's request that waited until the deprovision.
	Superseded string `json:"superseded,omitzero"`
	// By is the source of the deprovision: who published it.
	By string `json:"by,omitzero"`
}
