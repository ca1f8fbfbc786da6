package rule

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine"
)

// How a Difference names regions that it does not list by name. No region has such a name.
const (
	// OtherRegion is every region that neither rule set names for the plan.
	OtherRegion = "(other)"
	// NoRegion is a request without such a region.
	NoRegion = "(none)"
)

// mostCompared bounds how many kinds of requests of one plan are compared.
const mostCompared = 1_000_000

// Difference is a request that two rule sets lead to different pools: the requests of a plan with
// one of these regions.
type Difference struct {
	Plan     string `json:"plan"`
	Provider string `json:"provider,omitempty"` // absent where the plan has one only, or the request names none
	// PlatformRegions and HyperscalerRegions have names of regions, OtherRegion and
	// NoRegion. An absent one stands for all requests.
	PlatformRegions    []string `json:"platformRegions,omitempty"`
	HyperscalerRegions []string `json:"hyperscalerRegions,omitempty"`
	Before             Way      `json:"before"`
	After              Way      `json:"after"`

	anyProvider bool // of a plan that has only one
}

// Way is where a rule set leads. It has a pool, or a code that says why there is none. A
// region that is part of the pool's name is * where the Difference has several.
type Way struct {
	Pool       string      `json:"pool,omitempty"`
	Code       engine.Code `json:"code,omitempty"`
	Rule       string      `json:"rule,omitempty"`       // as Match has it; absent with a code
	RuleNumber int         `json:"ruleNumber,omitempty"` // 0 in the older form
}

// Comparison is two rule sets beside each other.
type Comparison struct {
	Differences []Difference

	before, after *Ruleset
}

// way is where a rule set leads, by what does not depend on the names of regions.
type way struct {
	code     engine.Code
	provider string
	outputs  Outputs
	rule     string
	number   int
}

// ways are where two rule sets lead; the zero value where that is the same.
type ways struct{ before, after way }

func (s *Ruleset) way(r Request) (way, engine.Pool) {
	m, err := s.Match(r)
	if err != nil {
		coded := &engine.Error{Code: engine.CodeInternal}
		errors.As(err, &coded)
		return way{code: coded.Code}, engine.Pool{}
	}
	v, _, _ := s.find(r)
	return way{provider: m.Provider, outputs: v.outputs, rule: m.Rule, number: m.RuleNumber}, m.Pool
}

func (c *Comparison) ways(r Request) ways {
	before, was := c.before.way(r)
	after, is := c.after.way(r)
	if before.code == after.code && was == is {
		return ways{}
	}
	return ways{before, after}
}

// Compare finds all requests that two rule sets lead to different pools: of all plans that
// either knows, of each region that either names, of any other and of none. Which rule leads
// to a pool, and whose bindings a tenant may use there, makes no difference.
//
// It is an error where a plan has so many pairs of regions that they are not compared.
func Compare(before, after *Ruleset) (*Comparison, error) {
	c := &Comparison{before: before, after: after}
	names := map[string]bool{}
	for _, s := range []*Ruleset{before, after} {
		for plan := range s.plans {
			names[plan] = true
		}
		for plan := range s.byPlan {
			names[plan] = true
		}
	}
	for _, plan := range slices.Sorted(maps.Keys(names)) {
		platform, hyperscaler := c.regions(plan)
		providers := c.providers(plan)
		if n := len(platform) * len(hyperscaler) * len(providers); n > mostCompared {
			return nil, fmt.Errorf("plan %s has %d pairs of regions, more than the %d that are compared", plan, n, mostCompared)
		}
		for _, provider := range providers {
			for _, d := range c.differences(Request{Plan: plan, Provider: provider}, platform, hyperscaler) {
				d.anyProvider = len(providers) == 1
				c.Differences = append(c.Differences, d)
			}
		}
	}
	return c, nil
}

// providers returns the providers that requests of the plan may name, and "" if a request without a
// provider gets another pool than one that names the plan's default.
func (c *Comparison) providers(plan string) []string {
	before, after := c.before.plans[plan], c.after.plans[plan]
	all := slices.Concat(before.Providers, after.Providers)
	slices.Sort(all)
	all = slices.Compact(all)
	switch preset := before.provider(); {
	case len(all) < 2 && preset == after.provider():
		return []string{""}
	case preset == "" || preset != after.provider():
		return append([]string{""}, all...)
	}
	return all
}

// regions are those that a plan's rules name, then OtherRegion and NoRegion.
func (c *Comparison) regions(plan string) (platform, hyperscaler []string) {
	for _, s := range []*Ruleset{c.before, c.after} {
		switch p := s.byPlan[plan]; {
		case p == nil:
		case p.lists != nil:
			platform = slices.AppendSeq(platform, maps.Keys(p.lists.byPlatform))
			hyperscaler = slices.AppendSeq(hyperscaler, maps.Keys(p.lists.byHyperscaler))
		default:
			platform = slices.AppendSeq(platform, maps.Keys(p.entries.byPlatform))
			hyperscaler = slices.AppendSeq(hyperscaler, maps.Keys(p.entries.byHyperscaler))
		}
	}
	with := func(named []string) []string {
		slices.Sort(named)
		return append(slices.Compact(named), OtherRegion, NoRegion)
	}
	return with(platform), with(hyperscaler)
}

// asked is the region of a request that stands for this one of a Difference.
// The stand-ins of platform regions differ from those of hyperscaler regions by their letter.
func asked(list []string, i int, unnamed string) string {
	switch i {
	case len(list) - 1:
		return ""
	case len(list) - 2:
		letter := unnamed
		for slices.Contains(list, unnamed) {
			unnamed += letter
		}
		return unnamed
	}
	return list[i]
}

// differences compares the requests of one plan and provider. Platform regions of which the
// same is true are put together, and of these the hyperscaler regions.
func (c *Comparison) differences(r Request, platform, hyperscaler []string) []Difference {
	rows, cells := map[string][]int{}, map[string][]ways{} // by what is true of a platform region
	var order []string
	for i := range platform {
		row := make([]ways, len(hyperscaler))
		for j := range hyperscaler {
			r.PlatformRegion, r.HyperscalerRegion = asked(platform, i, "p"), asked(hyperscaler, j, "h")
			row[j] = c.ways(r)
		}
		key := fmt.Sprint(row)
		if _, known := rows[key]; !known {
			order = append(order, key)
		}
		rows[key], cells[key] = append(rows[key], i), row
	}
	var found []Difference
	for _, key := range order {
		var seen []ways
		for _, w := range cells[key] {
			if w == (ways{}) || slices.Contains(seen, w) {
				continue
			}
			seen = append(seen, w)
			d := Difference{Plan: r.Plan, Provider: r.Provider, PlatformRegions: some(platform, rows[key])}
			var columns []int
			for j, other := range cells[key] {
				if other == w {
					columns = append(columns, j)
				}
			}
			d.HyperscalerRegions = some(hyperscaler, columns)
			d.Before, d.After = w.before.shown(d), w.after.shown(d)
			found = append(found, d)
		}
	}
	return found
}

// some are the regions at these places, nil for all.
func some(list []string, at []int) []string {
	if len(at) == len(list) {
		return nil
	}
	names := make([]string, len(at))
	for i, place := range at {
		names[i] = list[place]
	}
	return names
}

func (w way) shown(d Difference) Way {
	if w.code != "" {
		return Way{Code: w.code}
	}
	kind := []string{w.provider}
	for _, part := range []struct {
		output  Outputs
		regions []string
	}{{OutputPlatformRegion, d.PlatformRegions}, {OutputHyperscalerRegion, d.HyperscalerRegions}} {
		switch {
		case !w.outputs.Has(part.output):
		case len(part.regions) == 1 && part.regions[0] != OtherRegion:
			kind = append(kind, part.regions[0])
		default:
			kind = append(kind, "*")
		}
	}
	pool := engine.Pool{HyperscalerType: strings.Join(kind, "_"), EUAccess: w.outputs.Has(OutputEUAccess), Shared: w.outputs.Has(OutputShared)}
	return Way{Pool: pool.Name(), Rule: w.rule, RuleNumber: w.number}
}

// Of returns the place among Differences of the one that a request is of, false where both
// rule sets lead it to the same pool.
func (c *Comparison) Of(r Request) (int, bool) {
	if c.ways(r) == (ways{}) {
		return 0, false
	}
	if r.Provider == "" && !slices.Contains(c.providers(r.Plan), "") {
		preset := c.before.plans[r.Plan]
		r.Provider = preset.provider()
	}
	platform, hyperscaler := c.regions(r.Plan)
	at := slices.IndexFunc(c.Differences, func(d Difference) bool {
		return d.Plan == r.Plan && (d.anyProvider || d.Provider == r.Provider) &&
			has(d.PlatformRegions, platform, r.PlatformRegion) && has(d.HyperscalerRegions, hyperscaler, r.HyperscalerRegion)
	})
	return at, at >= 0
}

// has reports whether a region of a request is among those of a Difference.
func has(regions, named []string, region string) bool {
	switch {
	case regions == nil:
		return true
	case region == "":
		return slices.Contains(regions, NoRegion)
	case slices.Contains(named[:len(named)-2], region):
		return slices.Contains(regions, region)
	}
	return slices.Contains(regions, OtherRegion)
}
