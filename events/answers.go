package events

import "github.com/hap-worker/hap-worker/engine"

// Answers reports whether r can be a reply to the event: it is of its kind, and for the
// same global account where both name one. What is stored under an id that another
// request has used is no answer, and nothing of it is to be shown.
func (r Reply) Answers(e Event) bool {
	if !e.Type.mayGet(r.Status) || r.For != "" && r.For != e.Type {
		return false
	}
	tenant := e.globalAccount()
	return r.GlobalAccountID == "" || tenant == "" || r.GlobalAccountID == tenant
}

// mayGet reports whether a reply with the status can be one to the type. A rejection,
// or a sealed reply, does not say which type it answers.
func (t Type) mayGet(status Status) bool {
	others := false
	for i := range types {
		if types[i].Answer == status || types[i].Waits && status == StatusWaiting {
			if types[i].Type == t {
				return true
			}
			others = true
		}
	}
	return !others
}

// globalAccount is the one that the event names, "" for none.
func (e *Event) globalAccount() string {
	if p := e.given(); p != nil {
		return p.tenant()
	}
	return ""
}

// Comparable reports whether a reply is a shadow's decision on a provision that can be
// held against what KEB chose. A runtime that has gone before is none.
func (r Reply) Comparable() bool {
	if r.RuntimeID == "" || r.GlobalAccountID == "" || r.Error != nil && r.Error.Code == engine.CodeSuperseded {
		return false
	}
	return r.Status == StatusAssigned || r.Status == StatusWaiting || r.Status == StatusRejected
}
