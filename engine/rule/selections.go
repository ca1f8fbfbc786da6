package rule

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine"
)

// Selection is a rule that leads requests of a plan to a pool.
type Selection struct {
	Plan       string `json:"plan"`
	Rule       string `json:"rule"`                 // as in Match
	RuleNumber int    `json:"ruleNumber,omitempty"` // 0 in the older form
}

// Selections returns the rules that lead requests to the pool, each with the plan of the requests; none if the
// pool can serve no request. They are in the order of the rules, in the older form in that of plan and text.
// Selections matches sample requests, so that a rule does not count for requests that a more specific rule serves.
func (s *Ruleset) Selections(pool engine.Pool) []Selection {
	found := map[Selection]bool{}
	for plan, p := range s.byPlan {
		for _, e := range s.candidates(plan, p) {
			for _, r := range e.requests(pool, p.plan.Providers) {
				if m, err := s.Match(r); err == nil && m.Pool == pool {
					found[Selection{Plan: plan, Rule: m.Rule, RuleNumber: m.RuleNumber}] = true
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b Selection) int {
		return cmp.Or(cmp.Compare(a.RuleNumber, b.RuleNumber), cmp.Compare(a.Plan, b.Plan), cmp.Compare(a.Rule, b.Rule))
	})
}

// candidates returns the entries of a plan; in the older form, one for each result of its lists.
func (s *Ruleset) candidates(plan string, p *planRules) []Entry {
	if p.lists != nil {
		return p.lists.outcomes(plan)
	}
	var entries []Entry
	for i := range s.rules {
		if s.rules[i].Plan == plan {
			entries = append(entries, s.rules[i].Entry)
		}
	}
	return entries
}

// requests returns requests that the entry could lead to the pool, even if another entry serves them.
func (e Entry) requests(pool engine.Pool, providers []string) []Request {
	if pool.EUAccess != e.Outputs.Has(OutputEUAccess) || pool.Shared != e.Outputs.Has(OutputShared) {
		return nil
	}
	var all []Request
	for _, provider := range providers {
		rest, ok := strings.CutPrefix(pool.HyperscalerType, provider)
		if !ok {
			continue
		}
		for _, regions := range e.regions(rest) {
			r := Request{Plan: e.Plan, Provider: provider, PlatformRegion: e.PlatformRegion, HyperscalerRegion: e.HyperscalerRegion}
			r.PlatformRegion = cmp.Or(r.PlatformRegion, regions[0])
			r.HyperscalerRegion = cmp.Or(r.HyperscalerRegion, regions[1])
			all = append(all, r)
		}
	}
	return all
}

// regions returns the pairs of platform and hyperscaler region for which the outputs append rest to the
// provider; a region that no output appends is "". A region may contain "_", so there may be several pairs.
func (e Entry) regions(rest string) [][2]string {
	withPR, withHR := e.Outputs.Has(OutputPlatformRegion), e.Outputs.Has(OutputHyperscalerRegion)
	name, appended := strings.CutPrefix(rest, "_")
	switch {
	case !withPR && !withHR:
		if rest == "" {
			return [][2]string{{}}
		}
	case !appended || name == "":
	case !withHR:
		return [][2]string{{name, ""}}
	case !withPR:
		return [][2]string{{"", name}}
	default:
		var pairs [][2]string
		for i := range name {
			if name[i] == '_' && i > 0 && i < len(name)-1 {
				pairs = append(pairs, [2]string{name[:i], name[i+1:]})
			}
		}
		return pairs
	}
	return nil
}
