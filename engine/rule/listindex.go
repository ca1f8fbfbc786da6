package rule

import "cmp"

// noMember is the rule that answers name if no member of the four lists is true.
const noMember = "none of the four rules"

// listIndex finds the effect of the four lists for one plan and a pair of regions with at most two map
// look-ups, however many members there are. Only clusterRegionRule compares the hyperscaler region, so the
// effect of a platform region is computed in advance, and a hyperscaler region can add one output.
type listIndex struct {
	always        effect
	byPlatform    map[string]effect // including always
	byHyperscaler map[string]string // the first member of clusterRegionRule that is true
}

// effect is the result of lists: the outputs, and for each output one member that causes it.
type effect struct {
	outputs Outputs
	text    string
}

func (e effect) with(output Outputs, text string) effect {
	if e.outputs.Has(output) {
		return e
	}
	if e.text == "" {
		return effect{e.outputs | output, text}
	}
	return effect{e.outputs | output, e.text + ", " + text}
}

func (x *listIndex) find(platformRegion, hyperscalerRegion string) effect {
	e, ok := x.byPlatform[platformRegion]
	if !ok {
		e = x.always
	}
	if e.outputs.Has(OutputHyperscalerRegion) {
		return e
	}
	if text, ok := x.byHyperscaler[hyperscalerRegion]; ok {
		return e.with(OutputHyperscalerRegion, text)
	}
	return e
}

// newListIndex returns the index of one plan. The members must be in the order of the lists.
func newListIndex(members []*listed) *listIndex {
	x := &listIndex{byPlatform: map[string]effect{}, byHyperscaler: map[string]string{}}
	for _, m := range members {
		if m.Region == "" {
			x.always = x.always.with(m.output, m.text)
		}
	}
	for _, m := range members {
		if m.Region == "" {
			continue
		}
		e, ok := x.byPlatform[m.Region]
		if !ok {
			e = x.always
		}
		x.byPlatform[m.Region] = e.with(m.output, m.text)
		if m.output == OutputHyperscalerRegion {
			x.byHyperscaler[m.Region] = cmp.Or(x.byHyperscaler[m.Region], m.text)
		}
	}
	return x
}

// listed is a member with its output.
type listed struct {
	Listed
	output Outputs
	text   string // of Listed, as answers show it
}

// applies reports whether the member is true for a request of its plan.
func (m *listed) applies(r Request) bool {
	return m.Region == "" || m.Region == r.PlatformRegion ||
		m.output == OutputHyperscalerRegion && m.Region == r.HyperscalerRegion
}

// CompileLists checks the older form and compiles it to a Ruleset. A request for which no member is true gets the
// plain pool of its provider. The error is a Faults with the faults of all lists.
func CompileLists(l Lists, opts Options) (*Ruleset, error) {
	opts = opts.withDefaults()
	members, faults, warnings := checkLists(l, opts)
	if len(faults) > 0 {
		return nil, faults
	}
	s := newRuleset(opts, warnings)
	outputs := map[string]Outputs{}
	for _, of := range l.each() {
		outputs[of.key] = of.output
	}
	s.members = make([]listed, len(members))
	byPlan := make(map[string][]*listed, len(opts.Plans))
	for plan := range opts.Plans {
		byPlan[plan] = nil
	}
	for i, m := range members {
		s.members[i] = listed{Listed: m, output: outputs[m.Key], text: m.String()}
		if m.Plan != "" {
			byPlan[m.Plan] = nil // AnyPlan allows plans that are not in opts.Plans
		}
	}
	for plan := range byPlan {
		for i := range s.members {
			if m := &s.members[i]; m.Plan == "" || m.Plan == plan {
				byPlan[plan] = append(byPlan[plan], m)
			}
		}
		s.byPlan[plan] = &planRules{plan: opts.Plans[plan], lists: newListIndex(byPlan[plan])}
	}
	return s, nil
}
