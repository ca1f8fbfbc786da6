package engine

import "strings"

// Binding is one hyperscaler account as Gardener has it: the labels and
// annotations of a CredentialsBinding, a SecretBinding or a Secret, read at
// ResourceVersion.
type Binding struct {
	Name            string
	Namespace       string
	Kind            string // CredentialsBinding, SecretBinding or Secret
	UID             string // differs from that of any other object that has had this name
	ResourceVersion string

	HyperscalerType string
	Tenant          string // label tenantName; "" is unclaimed
	Dirty           bool   // returned by its tenant, not cleaned yet
	Internal        bool   // only for an internal tenant that its label names already
	Shared          bool
	EUAccess        bool
	Cordoned        bool   // kept from new assignments by an operator
	Deleting        bool   // deleted, but still there because of a finalizer
	SameSecretAs    string // another binding with the same account; "" for none, or if no cache knows the others

	// ClaimedIn names the pool in which its tenant claimed it, "" if no annotation says so for this tenant.
	// Its runtimes are counted in that pool, even if its labels name another one by now.
	ClaimedIn  string
	Generation int64  // number of its latest claim: each claim has a higher one; 0 for none
	Epoch      string // the Redis epoch of its last confirmation
	ReleasedBy string // the request that released it last
}

// HeldBack reports whether the binding is cordoned, being deleted or a duplicate: it gains no runtimes, not even
// those of its tenant.
func (b Binding) HeldBack() bool { return b.Cordoned || b.Deleting || b.SameSecretAs != "" }

// Pool returns the pool that counts the binding's runtimes: the pool of its claim, else the pool that its
// labels name.
func (b Binding) Pool() Pool {
	if b.ClaimedIn != "" {
		return ParsePool(b.ClaimedIn)
	}
	return b.LabelledPool()
}

// LabelledPool returns the pool that the binding's labels name. A claimed binding joins it when it is
// released.
func (b Binding) LabelledPool() Pool {
	return Pool{HyperscalerType: b.HyperscalerType, EUAccess: b.EUAccess, Shared: b.Shared}
}

// Mark has the values that a claim writes on a binding. Marking it dirty writes all but the epoch, and undoing a
// claim writes only the generation.
type Mark struct {
	Tenant     string
	Generation int64
	Epoch      string
}

// Pool identifies a pool of bindings by the values of their labels.
type Pool struct {
	HyperscalerType string // <provider>[_<platformRegion>][_<hyperscalerRegion>]
	EUAccess        bool
	Shared          bool
}

// Name returns the pool's name in replies, keys and commands: the hyperscaler type, then +eu, then +shared.
func (p Pool) Name() string {
	name := p.HyperscalerType
	if p.EUAccess {
		name += "+eu"
	}
	if p.Shared {
		name += "+shared"
	}
	return name
}

// ParsePool parses a name that Pool.Name returned.
func ParsePool(name string) Pool {
	name, shared := strings.CutSuffix(name, "+shared")
	name, eu := strings.CutSuffix(name, "+eu")
	return Pool{HyperscalerType: name, EUAccess: eu, Shared: shared}
}

// Provider returns the hyperscaler's name, with which the type begins.
func (p Pool) Provider() string {
	provider, _, _ := strings.Cut(p.HyperscalerType, "_")
	return provider
}
