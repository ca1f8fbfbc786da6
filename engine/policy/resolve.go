package policy

// Injected is a TypeInstance that the workflow of the chosen Implementation receives under an alias.
type Injected struct {
	Name string `json:"name"` // the alias of the requirement
	ID   string `json:"id"`   // of the TypeInstance
}

// Decision says what serves an Interface, and why.
type Decision struct {
	Interface   Ref             // with the revision that was chosen where none was asked for
	RuleKey     string          // of the rule that decided
	Alternative int             // of that rule, counted from 0
	Picked      *Implementation // the first that matches
	Matching    []Ref           // every one that matches, Picked first
	Inject      []Injected      // in the order of the policy
}

// typical is the number of matches for which the match buffer need not grow.
const typical = 16

// Resolve chooses the Implementation of an Interface, by default of its newest revision. The error is an
// engine.Error of code NoImplementation, whose cause is a *Refusal; or of code Internal, whose cause is
// ErrLate: the same request may succeed later.
func (s *Snapshot) Resolve(wanted Ref) (Decision, error) {
	if s.late != nil {
		return Decision{}, s.late
	}
	i, rule, refusal := s.decisive(wanted)
	if refusal != nil {
		return Decision{}, refused(refusal)
	}
	var buffer [typical]uint32
	for n := range rule.alternatives {
		found := rule.alternatives[n].match(buffer[:0], &i.found)
		if len(found) == 0 {
			continue
		}
		d := Decision{
			Interface: i.Ref, RuleKey: rule.Key, Alternative: n,
			Picked: &s.catalog.implementations[found[0]], Matching: s.catalog.refs(found),
		}
		if refusal := d.inject(rule.OneOf[n].Inject); refusal != nil {
			return Decision{}, refused(refusal)
		}
		return d, nil
	}
	return Decision{}, refused(s.nothingMatches(i, rule))
}

// decisive returns the Interface and the one rule that decides about it: the rule for path:revision, or else
// for the path, or else for cap.*. It returns a Refusal if there is no such Interface or rule, or if the
// rule denies.
func (s *Snapshot) decisive(wanted Ref) (*iface, *compiled, *Refusal) {
	switch {
	case s.policy == nil:
		return nil, nil, noPolicy(wanted)
	case s.catalog == nil:
		return nil, nil, noCatalog(wanted)
	}
	i := s.catalog.find(wanted)
	if i == nil {
		return nil, nil, s.unknownInterface(wanted)
	}
	rule := s.rules[i.key]
	if rule == nil {
		rule = s.rules[i.Path]
	}
	if rule == nil {
		rule = s.rules[Anything]
	}
	switch {
	case rule == nil:
		return nil, nil, noRule(i.Ref)
	case len(rule.alternatives) == 0:
		return nil, nil, denied(i.Ref, rule.Key)
	}
	return i, rule, nil
}

// match appends to found the members of the set "of" that meet all conditions.
func (c *conditions) match(found []uint32, of *set) []uint32 {
	if c.empty {
		return found
	}
	var buffer [8]*set
	return common(found, append(append(buffer[:0], of), c.sets...)...)
}

func (c *Catalog) refs(numbers []uint32) []Ref {
	refs := make([]Ref, len(numbers))
	for i, n := range numbers {
		refs[i] = c.implementations[n].Ref
	}
	return refs
}

// inject finds the alias of each wanted TypeInstance. It skips those whose Type the implementation does not
// require under an alias, and refuses two with the same alias.
func (d *Decision) inject(wanted []Injection) *Refusal {
	for _, w := range wanted {
		alias := d.Picked.alias(w.Type)
		if alias == "" {
			continue
		}
		for _, other := range d.Inject {
			if other.Name == alias {
				return aliasTwice(*d, alias, other.ID, w.ID)
			}
		}
		d.Inject = append(d.Inject, Injected{Name: alias, ID: w.ID})
	}
	return nil
}

// alias returns the first alias under which the Implementation requires the Type, "" for none.
func (im *Implementation) alias(t Ref) string {
	var alias string
	for i := range im.Requires {
		none := im.Requires[i].each(func(q *Required) bool {
			if q.Alias != "" && t.covers(q.Ref) {
				alias = q.Alias
			}
			return alias == ""
		})
		if !none {
			break
		}
	}
	return alias
}
