package events

import (
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/events/contract"
)

// TypeReply is the CloudEvents type of every reply.
const TypeReply = "hap.reply.v1"

// Status says what became of a request.
type Status string

// The statuses of replies. All but StatusWaiting and StatusSealed are final.
const (
	// StatusAssigned answers a provision: the runtime has a binding.
	StatusAssigned Status = "assigned"
	// StatusWaiting says that a provision waits; Reply.Waiting says for what and until when.
	StatusWaiting Status = "waiting"
	// StatusReleased answers a deprovision.
	StatusReleased Status = "released"
	// StatusReturned answers a release: the binding may be claimed again.
	StatusReturned Status = "returned"
	// StatusResolved answers a resolve.
	StatusResolved Status = "resolved"
	// StatusRejected answers any request; Reply.Error says why.
	StatusRejected Status = "rejected"
	// StatusSealed is internal to the workers; readers skip it.
	StatusSealed Status = "sealed"
)

// Final reports whether a reply with this status is the one answer to its request.
func (s Status) Final() bool {
	return s == StatusRejected || s != "" && slices.ContainsFunc(types, func(i TypeInfo) bool { return i.Answer == s })
}

// Reply is the answer to a request. Members that do not apply are absent.
type Reply struct {
	RequestID string `json:"requestID"`
	RuntimeID string `json:"runtimeID,omitzero"` // absent in the reply to a release
	Status    Status `json:"status"`
	// For is set in a sealed reply by which a deprovision or release takes its request id: the type of
	// that event. GlobalAccountID is that event's tenant. Events of other types or tenants get no reply under the id.
	For Type `json:"for,omitzero"`

	GlobalAccountID string   `json:"globalAccountID,omitzero"`
	Plan            string   `json:"plan,omitzero"`
	Provider        string   `json:"provider,omitzero"`
	ShootName       string   `json:"shootName,omitzero"`
	Cluster         *Cluster `json:"cluster,omitzero"`

	Waiting *Waiting `json:"waiting,omitzero"`
	Binding *Binding `json:"binding,omitzero"`
	// Clusters is the number of runtimes on the binding: with this one after a provision, without it
	// after a deprovision.
	Clusters *int `json:"clusters,omitzero"`
	// Limit is the maximum of Clusters in the reply to a provision; 0 means no limit, as for a shared account and
	// for a tenant's only account.
	Limit int `json:"limit,omitzero"`

	Decision *Decision `json:"decision,omitzero"`
	Network  []Network `json:"network,omitempty"`
	// NetworkPending says that there is no network configuration yet. Another reply, under another request id,
	// brings the blocks once a rule matches.
	NetworkPending bool `json:"networkPending,omitzero"`
	// ShootPatch is an RFC 6902 patch for the Shoot manifest. It applies only to a manifest that has spec and
	// the parent object of each of the Paths in this reply's Network.
	ShootPatch []PatchOperation `json:"shootPatch,omitempty"`
	// ShootMergePatch has the same change as an RFC 7386 merge patch, which applies to every manifest.
	// It is absent where MergePatch returns nil.
	ShootMergePatch map[string]any  `json:"shootMergePatch,omitempty"`
	Implementation  *Implementation `json:"implementation,omitzero"`

	// MarkedDirty says that the deprovision emptied the account and marked it dirty. Draining says
	// that it emptied the account and that the mark follows, because a Shoot still refers to the account,
	// or Gardener did not answer or refused the mark.
	MarkedDirty bool `json:"markedDirty,omitzero"`
	Draining    bool `json:"draining,omitzero"`

	Error *ReplyError `json:"error,omitzero"`
}

// Final reports whether r is the one answer to its request; no other follows.
func (r Reply) Final() bool { return r.Status.Final() }

// WaitingReason says what a request waits for.
type WaitingReason string

// The reasons for waiting.
const (
	WaitingPoolEmpty   WaitingReason = "pool-empty"
	WaitingNetworkFull WaitingReason = "network-full"
	WaitingUnavailable WaitingReason = "unavailable" // Gardener does not answer, or refuses to label accounts
	// WaitingNetworkMissing: there is no network configuration, and network.required is true.
	WaitingNetworkMissing WaitingReason = "network-missing"
)

// Network reports whether a request waits for network blocks, and not for an account.
func (r WaitingReason) Network() bool { return r == WaitingNetworkFull || r == WaitingNetworkMissing }

// Waiting says what a request waits for, and until when. Position is the place among the requests that wait for
// the pool, by the numbers of their decisions, from 1; it is 0 if the request is not in that queue.
type Waiting struct {
	Reason   WaitingReason `json:"reason"`
	Position int           `json:"position,omitzero"`
	Deadline time.Time     `json:"deadline,omitzero"`
}

// Binding is the account of a reply: the one that a runtime got or left or, in the reply to a release, the released one.
type Binding struct {
	Name            string `json:"name"`
	Namespace       string `json:"namespace,omitzero"`
	Kind            string `json:"kind,omitzero"` // CredentialsBinding, SecretBinding or Secret
	HyperscalerType string `json:"hyperscalerType,omitzero"`
	Shared          bool   `json:"shared"`
	EUAccess        bool   `json:"euAccess"`
	Claimed         bool   `json:"claimed"` // by this very request
	Generation      int64  `json:"generation,omitzero"`
}

// Decision explains the answer.
type Decision struct {
	// Sequence increases with every decision on a pool. Of a runtime's replies, the one with the
	// highest sequence is in force, even if another one was stored later; of several, the last stored.
	Sequence      int64        `json:"sequence,omitzero"`
	Rule          string       `json:"rule,omitzero"`
	RuleNumber    int          `json:"ruleNumber,omitzero"` // from 1
	Pool          string       `json:"pool,omitzero"`
	LabelSelector string       `json:"labelSelector,omitzero"` // by which the binding was found
	Considered    []Considered `json:"considered,omitempty"`

	// The regions that the rules were matched against.
	PlatformRegion    string `json:"platformRegion,omitzero"`
	HyperscalerRegion string `json:"hyperscalerRegion,omitzero"`
	// Passed are at most three rules of the plan that the decision did not use: first those that are more
	// specific than the used one and do not match, the closest ones first; then less specific ones that match.
	// With rules of the older form, they are entries that did not contribute, in their order.
	Passed []Passed `json:"passed,omitempty"`
	// Origin is how the binding was found: own, revived, labelled, claimed, shared, or shoot if a rebuild or
	// an audit read it from the Shoot.
	Origin string `json:"origin,omitzero"`
	// Strategy is how one of the tenant's accounts was chosen; absent if the tenant may have only one, and
	// for a shared account.
	Strategy string `json:"strategy,omitzero"`
	// Attempts are the last attempts to write a label before the answer.
	Attempts []Attempt `json:"attempts,omitempty"`
	Times    *Times    `json:"times,omitzero"`
	Changed  *Changed  `json:"changed,omitzero"` // by a deprovision
}

// Considered is a binding that a decision looked at, and what was found.
type Considered struct {
	Binding  string `json:"binding"`
	Clusters int    `json:"clusters"`
	Verdict  string `json:"verdict"`      // chosen, or why not: an account.Verdict such as at-limit
	Own      bool   `json:"own,omitzero"` // it was the tenant's already
}

// Network is a block that a network rule allotted, with its paths in the Shoot.
type Network struct {
	Rule  string   `json:"rule"`
	ID    string   `json:"id"` // of the injection, may be ""
	CIDR  string   `json:"cidr"`
	Paths []string `json:"paths"`
}

// PatchOperation is one operation of an RFC 6902 patch.
type PatchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitzero"`
}

// Implementation was chosen by the policy for an interface.
type Implementation struct {
	Path     string   `json:"path"`
	Revision string   `json:"revision"`
	Inject   []Inject `json:"inject,omitempty"`
}

// Inject names a TypeInstance that the implementation's workflow gets.
type Inject struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

// ReplyError says why a request was rejected.
type ReplyError struct {
	Code    contract.Code `json:"code"`
	Message string        `json:"message"`
	// Retryable says that the same request may succeed later, under a new id.
	Retryable bool `json:"retryable"`
}
