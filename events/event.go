package events

import "time"

// Event is a request that was published: one of Provision, Deprovision, Release
// and Resolve is set, the one that Type names. After a Decode that failed only
// what could be read is set, and none of the four need be.
type Event struct {
	Type   Type
	ID     string // the request id
	Source string // who published it, a URI reference

	Traceparent string // W3C trace context, from the NATS header, else from the extension; may be ""
	Tracestate  string
	ReplayOf    string // the request that this one replays; "" unless it is a replayed dead letter

	RuntimeID string // of all but a release
	Binding   string // of a release
	ReplyTo   string // an inbox that gets a copy of every reply, may be ""

	Provision   *Provision
	Deprovision *Deprovision
	Release     *Release
	Resolve     *Resolve
}

// ReplySubject is where the reply to the event is stored; "" where too little of
// the event could be read to know.
func (e Event) ReplySubject(s Subjects) string {
	switch {
	case e.ID == "":
		return ""
	case e.RuntimeID != "":
		return s.Reply(e.RuntimeID, e.ID)
	case e.Binding != "":
		return s.BindingReply(e.Binding, e.ID)
	default:
		return ""
	}
}

// Provision asks for what a runtime needs before its cluster can be created.
type Provision struct {
	RuntimeID       string `json:"runtimeID"`
	GlobalAccountID string `json:"globalAccountID"`
	Plan            string `json:"plan"`

	PlatformRegion    string `json:"platformRegion,omitzero"`
	HyperscalerRegion string `json:"hyperscalerRegion,omitzero"`
	// Provider is the hyperscaler's name: aws, azure, gcp, openstack, alicloud, …
	// Where absent, the plan gives it.
	Provider  string `json:"provider,omitzero"`
	ShootName string `json:"shootName,omitzero"`
	// Deadline ends the waiting for an account or a network range; absent: the
	// worker's own waiting time.
	Deadline  time.Time  `json:"deadline,omitzero"`
	ReplyTo   string     `json:"replyTo,omitzero"`
	Cluster   *Cluster   `json:"cluster,omitzero"`
	Interface *Interface `json:"interface,omitzero"`
}

// Deprovision gives back what a runtime had, once its shoot is gone.
type Deprovision struct {
	RuntimeID string `json:"runtimeID"`
	// GlobalAccountID may differ from the provision's: a runtime may have moved.
	GlobalAccountID string `json:"globalAccountID,omitzero"`
	ShootName       string `json:"shootName,omitzero"`
	ReplyTo         string `json:"replyTo,omitzero"`
}

// Release returns a dirty binding to its pool, once its account is emptied.
type Release struct {
	Binding string `json:"binding"`
	// Generation is the claim that the account was emptied of; where given and no
	// longer the binding's, the release is refused as StaleRelease.
	Generation *int64 `json:"generation,omitzero"`
	ReplyTo    string `json:"replyTo,omitzero"`
}

// Resolve asks for the implementation of an interface only.
type Resolve struct {
	RuntimeID       string    `json:"runtimeID"`
	GlobalAccountID string    `json:"globalAccountID,omitzero"`
	Interface       Interface `json:"interface"`
	ReplyTo         string    `json:"replyTo,omitzero"`
}

// Cluster is what network rules select a cluster by.
type Cluster struct {
	Name      string            `json:"name,omitzero"`
	Namespace string            `json:"namespace,omitzero"`
	Labels    map[string]string `json:"labels,omitempty"`
	Purposes  []string          `json:"purposes,omitempty"`
}

// Interface is an interface of the policy catalog; without a revision the newest.
type Interface struct {
	Path     string `json:"path"`
	Revision string `json:"revision,omitzero"`
}
