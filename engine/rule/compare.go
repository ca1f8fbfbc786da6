package rule

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine"
)

// The names that a Difference lists beside those of regions. No rule can name a region like that.
const (
	// OtherRegion stands for every region that neither rule set names for the plan.
	OtherRegion = "(other)"
	// NoRegion stands for requests without a platform region, or without a hyperscaler region.
	NoRegion = "(none)"
)

// mostCompared is the largest number of kinds of requests of one plan that Compare compares.
const mostCompared = 1_000_000

// Difference lists requests for which two rule sets have different results, a pool or an error code: the
// requests of a plan with one of these regions.
type Difference struct {
	Plan     string `json:"plan"`
	Provider string `json:"provider,omitempty"` // absent if the plan has only one, or if the request names none
	// PlatformRegions and HyperscalerRegions list names of regions, OtherRegion and NoRegion. An absent list
	// means all of them.
	PlatformRegions    []string `json:"platformRegions,omitempty"`
	HyperscalerRegions []string `json:"hyperscalerRegions,omitempty"`
	Before             Way      `json:"before"`
	After              Way      `json:"after"`

	anyProvider bool // the plan has only one
}

// Way is the result of a rule set: a pool, or the code of the error. In the pool's name, * stands for the
// platform or hyperscaler region unless the Difference lists exactly one such region by name.
type Way struct {
	Pool       string      `json:"pool,omitempty"`
	Code       engine.Code `json:"code,omitempty"`
	Rule       string      `json:"rule,omitempty"`       // as in Match; absent with a code
	RuleNumber int         `json:"ruleNumber,omitempty"` // 0 if the rules are Lists, or with a code
}

// Comparison is the result of comparing two rule sets.
type Comparison struct {
	Differences []Difference

	before, after *Ruleset
}

// way is a Way without the names of regions.
type way struct {
	code     engine.Code
	provider string
	outputs  Outputs
	rule     string
	number   int
}

// ways has the results of two rule sets for one request. It is zero if they agree.
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

// Compare finds all requests for which two rule sets have different results: two pools, two error codes, or
// a pool and an error code. It compares the plans that either rule set knows, with each region that either
// names, with any other region and with none. Two results with the same pool are equal, even if the rules or
// the internal tenants differ.
//
// It returns an error if a plan has more than mostCompared kinds of requests.
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
			return nil, fmt.Errorf("plan %s has %d combinations of regions and providers, more than the %d that are compared", plan, n, mostCompared)
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

// providers returns the providers that Compare tries for the plan; "" stands for a request that names none. It
// returns only "" if the two sets together have at most one provider for the plan, and the same default. It omits
// "" if they have several providers and the same default, which is then tried by its name.
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

// regions returns the regions that a plan's rules name in either set, then OtherRegion and NoRegion.
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

// asked returns the region with which a request stands for entry i of list: a made-up name for OtherRegion,
// "" for NoRegion. unnamed is a letter that keeps the made-up platform and hyperscaler regions apart.
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

// differences compares the requests of one plan and provider. It merges platform regions with equal results,
// and within them the hyperscaler regions.
func (c *Comparison) differences(r Request, platform, hyperscaler []string) []Difference {
	rows, cells := map[string][]int{}, map[string][]ways{} // by the results of a platform region
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

// some returns the regions of list at these indexes; nil, which stands for every region, if at has all of them.
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

// Of returns the index in Differences of the Difference that covers a request. It returns false if both rule
// sets lead the request to the same pool, or refuse it with the same code.
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

// has reports whether a Difference's regions include a request's region.
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
