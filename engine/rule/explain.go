package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Explanation is a Match, if there is one, with the reason why each other rule of the plan was not chosen.
type Explanation struct {
	Matched bool
	Match   Match // if Matched
	Others  []Other
}

// Other is a rule that did not serve the request.
type Other struct {
	Rule       string `json:"rule"`
	RuleNumber int    `json:"ruleNumber,omitempty"` // 0 in the older form
	Why        string `json:"why"`
}

// Explain matches a request, and says for every other rule of its plan why it was not chosen. Unlike Match,
// it does not check a provider that the request names, and it returns no error if no rule matches.
//
// The error is an *engine.Error: UnknownProvider if the request names no provider and the plan has no
// default; InvalidEvent as from Match.
func (s *Ruleset) Explain(r Request) (Explanation, error) {
	if r.Plan == "" {
		return Explanation{}, s.NoMatch(r)
	}
	v, _, ok := s.find(r)
	e := Explanation{Matched: ok, Others: s.others(&v, r)}
	if !ok {
		return e, nil
	}
	provider, err := r.Provider, error(nil)
	if provider == "" {
		provider, err = s.plans.Provider(r.Plan, "")
	}
	if err != nil {
		return Explanation{}, v.failed(err)
	}
	e.Match, err = s.result(&v, r, provider)
	return e, err
}

func (s *Ruleset) others(winner *verdict, r Request) []Other {
	if s.Older() {
		return s.otherMembers(winner, r)
	}
	others := []Other{}
	for i := range s.rules {
		c := &s.rules[i]
		if int32(i) == winner.at || c.Plan != r.Plan {
			continue
		}
		others = append(others, Other{Rule: c.text, RuleNumber: c.number, Why: c.why(winner, r)})
	}
	return others
}

// otherMembers returns the members for the plan that did not contribute to the verdict: they are not true, or
// another member of their list has the effect already.
func (s *Ruleset) otherMembers(v *verdict, r Request) []Other {
	others := []Other{}
	named := map[string]bool{}
	for text := range strings.SplitSeq(v.text, ", ") {
		named[text] = true
	}
	for i := range s.members {
		m := &s.members[i]
		if m.Plan != "" && m.Plan != r.Plan {
			continue
		}
		why := m.mismatch(r)
		switch {
		case why != "":
		case named[m.text]:
			named[m.text] = false // a second member with this text counts as another one
			continue
		default:
			why = "matches too, but another member of " + m.Key + " has the effect already"
		}
		others = append(others, Other{Rule: m.text, Why: why})
	}
	return others
}

func (m *listed) mismatch(r Request) string {
	switch {
	case m.applies(r):
		return ""
	case m.output == OutputHyperscalerRegion && (r.PlatformRegion != "" || r.HyperscalerRegion != ""):
		return fmt.Sprintf("is for region %s, which is neither the platform region nor the hyperscaler region", m.Region)
	}
	return mismatch("platform region", m.Region, r.PlatformRegion)
}

// mismatch says why a rule for the wanted region does not match, "" if it does.
func mismatch(name, wanted, got string) string {
	switch {
	case wanted == "" || wanted == got:
		return ""
	case got == "":
		return fmt.Sprintf("is for %s %s, the request has none", name, wanted)
	}
	return fmt.Sprintf("is for %s %s, not %s", name, wanted, got)
}

// Passed returns at most n rules of the request's plan that did not serve it: first rules that name more regions
// than the winner, and so do not match, beginning with those that share most regions with the request; then less
// specific rules that match too. If no rule matches, every rule of the plan counts as one that names more. In the
// older form it returns the members that did not contribute, in the order of the lists. The time grows with the
// number of rules.
func (s *Ruleset) Passed(r Request, n int) []Other {
	v, _, _ := s.find(r)
	if s.Older() {
		others := s.otherMembers(&v, r)
		return others[:min(n, len(others))]
	}
	winner := -1
	if v.at != none {
		winner = s.rules[v.at].regions()
	}
	var lost []*compiled
	for i := range s.rules {
		c := &s.rules[i]
		if c.Plan == r.Plan && int32(i) != v.at && (c.regions() > winner || c.shared(r) == c.regions()) {
			lost = append(lost, c)
		}
	}
	slices.SortStableFunc(lost, func(a, b *compiled) int {
		matches := func(c *compiled) int { return c.regions() - c.shared(r) }
		less := cmp.Compare(min(matches(b), 1), min(matches(a), 1)) // those that match come last
		return cmp.Or(less, cmp.Compare(b.shared(r), a.shared(r)), cmp.Compare(a.regions(), b.regions()))
	})
	others := make([]Other, 0, min(n, len(lost)))
	for _, c := range lost[:min(n, len(lost))] {
		others = append(others, Other{Rule: c.text, RuleNumber: c.number, Why: c.why(&v, r)})
	}
	return others
}

// regions returns how many regions the rule names, shared how many of them the request has. The rule matches
// if both are equal.
func (c *compiled) regions() int {
	return count(c.PlatformRegion != "") + count(c.HyperscalerRegion != "")
}

func (c *compiled) shared(r Request) int {
	return count(c.PlatformRegion != "" && c.PlatformRegion == r.PlatformRegion) +
		count(c.HyperscalerRegion != "" && c.HyperscalerRegion == r.HyperscalerRegion)
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// why says why the rule does not match or, if it does, why it lost against the winner.
func (c *compiled) why(winner *verdict, r Request) string {
	why := mismatch("platform region", c.PlatformRegion, r.PlatformRegion)
	if why == "" {
		why = mismatch("hyperscaler region", c.HyperscalerRegion, r.HyperscalerRegion)
	}
	if why == "" {
		why = fmt.Sprintf("matches, but rule %d names more regions", winner.number)
	}
	return why
}
