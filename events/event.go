package events

import "time"

// Event is a published request. Type names the one of Provision, Deprovision, Release and
// Resolve that is set. If Decode fails, all four are nil, and the other fields have what it
// could read.
type Event struct {
	Type   Type
	ID     string // the request id
	Source string // the publisher, as a URI reference

	Traceparent string // W3C trace context, from the NATS header or else from the extension; may be ""
	Tracestate  string
	ReplayOf    string // for a replayed dead letter: the id of the original request

	RuntimeID string // "" in a release
	Binding   string // only in a release
	ReplyTo   string // inbox for copies of the replies; may be ""

	Provision   *Provision
	Deprovision *Deprovision
	Release     *Release
	Resolve     *Resolve
}

// ReplySubject returns the subject under which the reply to the event is stored. It returns ""
// if ID, or both RuntimeID and Binding, are empty, such as after Decode could not read them.
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

// Provision requests what a runtime needs before its cluster can be created: an account,
// network ranges, an implementation.
type Provision struct {
	RuntimeID       string `json:"runtimeID"`
	GlobalAccountID string `json:"globalAccountID"`
	Plan            string `json:"plan"`

	PlatformRegion    string `json:"platformRegion,omitzero"`
	HyperscalerRegion string `json:"hyperscalerRegion,omitzero"`
	// Provider is the hyperscaler's name: aws, azure, gcp, openstack, alicloud, …
	// If it is absent, the chosen implementation or the plan determines it.
	Provider  string `json:"provider,omitzero"`
	ShootName string `json:"shootName,omitzero"`
	// Deadline is when the request stops waiting for an account or a network range. The
	// worker's configuration has the longest wait, and the wait of requests without a deadline.
	Deadline  time.Time  `json:"deadline,omitzero"`
	ReplyTo   string     `json:"replyTo,omitzero"`
	Cluster   *Cluster   `json:"cluster,omitzero"`
	Interface *Interface `json:"interface,omitzero"`
}

// Deprovision frees what a runtime has. It is published once the runtime's Shoot is deleted.
type Deprovision struct {
	RuntimeID string `json:"runtimeID"`
	// GlobalAccountID is the runtime's tenant. If the runtime is known as another tenant's, a
	// worker refuses the deprovision as InvalidEvent and changes nothing. Only the broker and
	// operators should leave it out: the runtime is then deprovisioned whichever tenant has it.
	GlobalAccountID string `json:"globalAccountID,omitzero"`
	ShootName       string `json:"shootName,omitzero"`
	ReplyTo         string `json:"replyTo,omitzero"`
}

// Release returns a dirty binding to its pool after its account was cleaned up.
type Release struct {
	Binding string `json:"binding"`
	// Generation identifies the claim that was cleaned up. If it is set and the binding
	// has another generation by now, a worker refuses the release as StaleRelease. If it is
	// absent, the release is for the first claim of the binding, and is refused if the binding
	// was claimed again.
	Generation *int64 `json:"generation,omitzero"`
	// UID is the metadata.uid of the binding that was dirty before the cleanup began. If it is
	// set and the binding was deleted since and created again under its name, a worker refuses
	// the release as StaleRelease. Generations do not show that: those of the new binding begin
	// at 1 again.
	UID     string `json:"uid,omitzero"`
	ReplyTo string `json:"replyTo,omitzero"`
}

// Resolve requests only the implementation of an interface.
type Resolve struct {
	RuntimeID       string    `json:"runtimeID"`
	GlobalAccountID string    `json:"globalAccountID,omitzero"`
	Interface       Interface `json:"interface"`
	ReplyTo         string    `json:"replyTo,omitzero"`
}

// Cluster has the properties by which network rules select a cluster.
type Cluster struct {
	Name      string            `json:"name,omitzero"`
	Namespace string            `json:"namespace,omitzero"`
	Labels    map[string]string `json:"labels,omitempty"`
	Purposes  []string          `json:"purposes,omitempty"`
}

// Interface names an interface of the policy catalog. Without a revision it means the newest
// one.
type Interface struct {
	Path     string `json:"path"`
	Revision string `json:"revision,omitzero"`
}
