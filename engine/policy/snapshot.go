package policy

// Snapshot is one version of policy, catalog and TypeInstances. A resolution
// uses the same Snapshot from its beginning to its end.
type Snapshot struct {
	policy    *Policy
	catalog   *Catalog
	available map[Ref]bool // Types of the TypeInstances
	late      error        // why there is no policy yet; nil where there is one or none is expected

	satisfied set // the implementations whose requirements the system satisfies
	rules     map[string]*compiled
}

// compiled is a rule with its constraints looked up in the catalog.
type compiled struct {
	*Rule

	alternatives []conditions
}

// conditions are the sets that an implementation must be in. empty is set if nothing in the catalog meets one
// of the constraints.
type conditions struct {
	sets  []*set
	empty bool
}

// NewSnapshot joins policy, catalog and TypeInstances. If policy or catalog is nil, Resolve refuses every request
// for that reason.
func NewSnapshot(policy *Policy, catalog *Catalog, instances []TypeInstance) *Snapshot {
	s := &Snapshot{policy: policy, catalog: catalog, available: map[Ref]bool{}, rules: map[string]*compiled{}}
	for i := range instances {
		s.available[instances[i].Type] = true
	}
	if policy == nil || catalog == nil {
		return s
	}
	for n := range catalog.implementations {
		if s.firstUnmet(&catalog.implementations[n]) == nil {
			s.satisfied.add(uint32(n))
		}
	}
	s.satisfied.seal(catalog.Len())
	for i := range policy.Rules {
		rule := &policy.Rules[i]
		c := &compiled{Rule: rule}
		for _, alternative := range rule.OneOf {
			c.alternatives = append(c.alternatives, s.compile(alternative.Constraints))
		}
		s.rules[rule.Key] = c
	}
	return s
}

// compile looks up the constraints in the catalog's indexes.
func (s *Snapshot) compile(c Constraints) conditions {
	sets := []*set{&s.satisfied}
	if c.Path != "" {
		sets = append(sets, s.catalog.named[c.Path])
	}
	for _, a := range c.Attributes {
		sets = append(sets, s.catalog.attributed[a])
	}
	for _, q := range c.Requires {
		sets = append(sets, s.catalog.requiring[q])
	}
	for _, one := range sets {
		if one == nil {
			return conditions{empty: true}
		}
	}
	return conditions{sets: sets}
}

// has reports whether a Type is available.
func (s *Snapshot) has(t Ref) bool { return t.Path == Kubernetes || s.available[t] }

// firstUnmet returns the first requirement that the system does not satisfy, nil if there is none.
func (s *Snapshot) firstUnmet(im *Implementation) *Requirement {
	for i := range im.Requires {
		if q := &im.Requires[i]; !s.satisfies(q) {
			return q
		}
	}
	return nil
}

func (s *Snapshot) satisfies(q *Requirement) bool {
	return s.count(q.AllOf) == len(q.AllOf) &&
		(len(q.AnyOf) == 0 || s.count(q.AnyOf) > 0) &&
		(len(q.OneOf) == 0 || s.count(q.OneOf) == 1)
}

// count returns how many of the Types are available.
func (s *Snapshot) count(types []Required) int {
	n := 0
	for i := range types {
		if s.has(types[i].Ref) {
			n++
		}
	}
	return n
}
