package rule

import (
	"fmt"
	"maps"
	"slices"
)

// maxConverted bounds the entries of one plan: a rule list needs an entry for every pair of a platform region and
// a hyperscaler region that change the outputs.
const maxConverted = 10000

// Conversion is the older form as a rule list.
type Conversion struct {
	// Rules has the same effect as the lists for every plan that is not in Inexpressible.
	Rules []string `json:"rule"`
	// Inexpressible are the plans that have no equivalent, with the reason.
	Inexpressible []Inexpressible `json:"inexpressible"`
	// Warnings are the warnings about the lists.
	Warnings []Fault `json:"warnings"`
}

// Inexpressible is a plan whose part of the older form a rule list cannot express.
type Inexpressible struct {
	Plan string `json:"plan"`
	Why  string `json:"why"`
}

// Convert converts the older form to a rule list. The lists apply to every plan, so each plan gets an entry
// unless it is inexpressible. The error is a Faults, as from CompileLists.
func Convert(l Lists, opts Options) (Conversion, error) {
	s, err := CompileLists(l, opts)
	if err != nil {
		return Conversion{}, err
	}
	c := Conversion{Rules: []string{}, Inexpressible: []Inexpressible{}, Warnings: s.warnings}
	for _, plan := range slices.Sorted(maps.Keys(s.byPlan)) {
		x := s.byPlan[plan].lists
		platform, hyperscaler := x.distinct()
		if n := 1 + len(platform) + len(hyperscaler) + len(platform)*len(hyperscaler); n > maxConverted {
			c.Inexpressible = append(c.Inexpressible, Inexpressible{Plan: plan, Why: fmt.Sprintf(
				"its %d platform regions and %d hyperscaler regions need an entry for every pair, %d in all; a list of more than %d is not written",
				len(platform), len(hyperscaler), n, maxConverted)})
			continue
		}
		for _, e := range x.entries(plan, platform, hyperscaler) {
			c.Rules = append(c.Rules, e.String())
		}
	}
	return c, nil
}

// distinct returns the regions that change the outputs, sorted: the platform regions whose outputs differ
// from those for every region, and the hyperscaler regions that add OutputHyperscalerRegion. It returns no
// hyperscaler regions if every region has that output already.
func (x *listIndex) distinct() (platform, hyperscaler []string) {
	for region, e := range x.byPlatform {
		if e.outputs != x.always.outputs {
			platform = append(platform, region)
		}
	}
	slices.Sort(platform)
	if x.always.outputs.Has(OutputHyperscalerRegion) {
		return platform, nil
	}
	return platform, slices.Sorted(maps.Keys(x.byHyperscaler))
}

// entries returns one entry for all requests of the plan, one for each of the regions and one for each pair of
// them. With the regions of distinct they have the effect of the index. A pair needs an entry even if its
// outputs equal those of one of its regions: without it the list would be ambiguous.
func (x *listIndex) entries(plan string, platform, hyperscaler []string) []Entry {
	entries := []Entry{{Plan: plan, Outputs: x.always.outputs}}
	for _, region := range platform {
		entries = append(entries, Entry{Plan: plan, PlatformRegion: region, Outputs: x.byPlatform[region].outputs})
	}
	for _, region := range hyperscaler {
		entries = append(entries, Entry{Plan: plan, HyperscalerRegion: region, Outputs: x.always.outputs | OutputHyperscalerRegion})
	}
	for _, pr := range platform {
		for _, hr := range hyperscaler {
			entries = append(entries, Entry{
				Plan: plan, PlatformRegion: pr, HyperscalerRegion: hr, Outputs: x.byPlatform[pr].outputs | OutputHyperscalerRegion,
			})
		}
	}
	return entries
}

// maxOutcomes bounds the pairs of regions that outcomes names for one plan.
const maxOutcomes = 1000

// outcomes returns entries for all results that the index can produce. If there are more than maxOutcomes pairs of
// regions, it names no pairs: it returns each entry without a hyperscaler region also with the output HR, which
// stands for every hyperscaler region, and for each hyperscaler region an entry with each of these sets of outputs.
func (x *listIndex) outcomes(plan string) []Entry {
	platform, hyperscaler := slices.Sorted(maps.Keys(x.byPlatform)), slices.Sorted(maps.Keys(x.byHyperscaler))
	if len(platform)*len(hyperscaler) <= maxOutcomes {
		return x.entries(plan, platform, hyperscaler)
	}
	outcomes, results := x.entries(plan, platform, nil), map[Outputs]bool{}
	for _, e := range outcomes {
		e.Outputs |= OutputHyperscalerRegion
		outcomes, results[e.Outputs] = append(outcomes, e), true
	}
	for _, region := range hyperscaler {
		for _, outputs := range slices.Sorted(maps.Keys(results)) {
			outcomes = append(outcomes, Entry{Plan: plan, HyperscalerRegion: region, Outputs: outputs})
		}
	}
	return outcomes
}
