package rule

import (
	"maps"
	"strings"
)

// Options control how a rule set is checked and compiled.
type Options struct {
	// Plans are the plans that exist. Defaults to BuiltinPlans.
	Plans Plans
	// Require lists the plans that need an entry. Defaults to the plans that Plans marks as required; empty
	// but not nil requires none.
	Require []string
	// AnyPlan makes an entry for a plan that does not exist a warning, not a fault.
	AnyPlan bool
	// InternalTenants may keep using internal bindings that carry their name.
	InternalTenants []string
	// Labels are the label keys with which selectors of bindings are written. Defaults to StandardLabels.
	Labels Labels
}

func (o Options) withDefaults() Options {
	if o.Plans == nil {
		o.Plans = BuiltinPlans()
	}
	if o.Require == nil {
		o.Require = o.Plans.Required()
	}
	if o.Labels == (Labels{}) {
		o.Labels = StandardLabels()
	}
	return o
}

// Ruleset is a compiled rule set, of either form.
type Ruleset struct {
	rules    []compiled // of a rule list
	members  []listed   // of the older lists
	byPlan   map[string]*planRules
	plans    Plans
	internal map[string]bool
	labels   Labels
	warnings []Fault
}

// compiled is a rule and the text that answers show for it.
type compiled struct {
	Entry
	text   string // as configured, trimmed
	number int
}

// planRules is the result of one look-up by plan: the plan, and the index of its entries or of the older
// lists.
type planRules struct {
	plan    Plan
	entries index
	lists   *listIndex // nil in a rule list
}

// verdict is the result of the rules for a request.
type verdict struct {
	at      int32  // position of the entry; none in the older form, or if no entry matches
	text    string // of the entry, or of the members that cause the outputs
	number  int    // of the entry, 0 in the older form
	outputs Outputs
}

// Compile checks the texts and compiles them to a Ruleset. The error is a Faults with the faults that Check
// returns.
func Compile(texts []string, opts Options) (*Ruleset, error) {
	opts = opts.withDefaults()
	rules, faults, warnings := check(texts, opts)
	if len(faults) > 0 {
		return nil, faults
	}
	s := newRuleset(opts, warnings)
	s.rules = make([]compiled, len(rules))
	for i, p := range rules {
		s.rules[i] = compiled{Entry: p.Entry, text: strings.Trim(p.text, space), number: p.number}
		s.add(p.Entry, int32(i))
	}
	return s, nil
}

func newRuleset(opts Options, warnings []Fault) *Ruleset {
	s := &Ruleset{
		byPlan:   make(map[string]*planRules),
		plans:    maps.Clone(opts.Plans),
		internal: make(map[string]bool, len(opts.InternalTenants)),
		warnings: warnings,
		labels:   opts.Labels,
	}
	for _, tenant := range opts.InternalTenants {
		s.internal[tenant] = true
	}
	return s
}

func (s *Ruleset) add(e Entry, rule int32) {
	p := s.byPlan[e.Plan]
	if p == nil {
		p = &planRules{plan: s.plans[e.Plan], entries: newIndex()}
		s.byPlan[e.Plan] = p
	}
	p.entries.add(e, rule)
}

// find returns the verdict for the request, and the rules of its plan, nil for none. ok is false if no rule
// matches; in the older form, if the plan does not exist.
func (s *Ruleset) find(r Request) (v verdict, p *planRules, ok bool) {
	p = s.byPlan[r.Plan]
	if p == nil {
		return verdict{at: none}, nil, false
	}
	if p.lists != nil {
		e := p.lists.find(r.PlatformRegion, r.HyperscalerRegion)
		return verdict{at: none, text: e.text, outputs: e.outputs}, p, true
	}
	at := p.entries.find(r.PlatformRegion, r.HyperscalerRegion)
	if at == none {
		return verdict{at: none}, p, false
	}
	rule := &s.rules[at]
	return verdict{at: at, text: rule.text, number: rule.number, outputs: rule.Outputs}, p, true
}

// Len returns the number of rules, or of members of the older lists.
func (s *Ruleset) Len() int { return len(s.rules) + len(s.members) }

// Older reports whether the set is of the older form.
func (s *Ruleset) Older() bool { return s.rules == nil }

// Plans returns the plans that the set was compiled with. The caller must not change them.
func (s *Ruleset) Plans() Plans { return s.plans }

// Labels returns the keys in the selectors of matches.
func (s *Ruleset) Labels() Labels { return s.labels }

// Warnings returns the warnings that Check, or CheckLists, returns for the set.
func (s *Ruleset) Warnings() []Fault { return s.warnings }
