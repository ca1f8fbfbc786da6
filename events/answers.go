package events

import "github.com/hap-worker/hap-worker/events/contract"

// Answers reports whether r can be a reply to the event: its status fits the event's type, r.For is that
// type or "", and the global accounts are equal if both name one. Otherwise another request has used the
// id, and the caller must not show the reply.
func (r Reply) Answers(e Event) bool {
	if !e.Type.mayGet(r.Status) || r.For != "" && r.For != e.Type {
		return false
	}
	tenant := e.Tenant()
	return r.GlobalAccountID == "" || tenant == "" || r.GlobalAccountID == tenant
}

// mayGet reports whether a reply with the status can answer an event of type t. A rejection or a
// sealed reply can answer any type.
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

// Comparable reports whether a reply is a shadow's decision on a provision, the only event with a plan, that can be
// compared with KEB's choice. A Superseded reply is not: its runtime was already gone.
func (r Reply) Comparable() bool {
	if r.RuntimeID == "" || r.GlobalAccountID == "" || r.Plan == "" || r.Error != nil && r.Error.Code == contract.CodeSuperseded {
		return false
	}
	return r.Status == StatusAssigned || r.Status == StatusWaiting || r.Status == StatusRejected
}
