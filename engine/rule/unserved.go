package rule

import (
	"maps"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine"
)

// Unserved returns the texts of the rules that lead to none of the pools, which are all pools with a binding: the
// requests of such a rule find no binding. A region that a rule appends without naming it may be any region. In
// the older form it returns, for a required plan whose requests find no binding if no member is true, a text such
// as "plan aws", then the members that are true only for requests that find no binding.
func (s *Ruleset) Unserved(pools []engine.Pool) []string {
	if s.Older() {
		return s.unservedMembers(pools)
	}
	var texts []string
	for i := range s.rules {
		rule := &s.rules[i]
		if !rule.leadsToAny(pools, s.plans[rule.Plan].Providers) {
			texts = append(texts, rule.text)
		}
	}
	return texts
}

func (s *Ruleset) unservedMembers(pools []engine.Pool) []string {
	var texts []string
	served := make([]bool, len(s.members))
	for _, plan := range slices.Sorted(maps.Keys(s.byPlan)) {
		p := s.byPlan[plan]
		for _, e := range p.lists.outcomes(plan) {
			reached := e.leadsToAny(pools, p.plan.Providers)
			if !reached && e.inputs() == nil && e.Outputs == 0 && p.plan.Required {
				texts = append(texts, "plan "+plan)
			}
			for i := range s.members {
				served[i] = served[i] || reached && s.members[i].takesPart(e)
			}
		}
	}
	for i, m := range s.members {
		if !served[i] {
			texts = append(texts, m.text)
		}
	}
	return texts
}

// takesPart reports whether the member is true for the requests of an outcome.
func (m *listed) takesPart(e Entry) bool {
	return (m.Plan == "" || m.Plan == e.Plan) && e.Outputs.Has(m.output) &&
		m.applies(Request{PlatformRegion: e.PlatformRegion, HyperscalerRegion: e.HyperscalerRegion})
}

func (e Entry) leadsToAny(pools []engine.Pool, providers []string) bool {
	return slices.ContainsFunc(pools, func(p engine.Pool) bool { return e.leadsTo(p, providers) })
}

func (e Entry) leadsTo(p engine.Pool, providers []string) bool {
	if p.EUAccess != e.Outputs.Has(OutputEUAccess) || p.Shared != e.Outputs.Has(OutputShared) {
		return false
	}
	return slices.ContainsFunc(providers, func(provider string) bool {
		rest, ok := strings.CutPrefix(p.HyperscalerType, provider)
		return ok && e.appends(rest)
	})
}

// appends reports whether the rule's outputs PR and HR can append rest to the provider of a hyperscaler type.
func (e Entry) appends(rest string) bool {
	var open int
	var ok bool
	if e.Outputs.Has(OutputPlatformRegion) {
		if e.PlatformRegion == "" {
			open++
		} else if rest, ok = strings.CutPrefix(rest, "_"+e.PlatformRegion); !ok {
			return false
		}
	}
	if e.Outputs.Has(OutputHyperscalerRegion) {
		if e.HyperscalerRegion == "" {
			open++
		} else if rest, ok = strings.CutSuffix(rest, "_"+e.HyperscalerRegion); !ok {
			return false
		}
	}
	// An open region has one or more characters, and may itself contain "_".
	switch open {
	case 0:
		return rest == ""
	case 1:
		return len(rest) > 1 && rest[0] == '_'
	}
	return len(rest) > 3 && rest[0] == '_' && strings.Contains(rest[2:len(rest)-1], "_")
}
