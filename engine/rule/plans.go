package rule

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/spelling"
)

// Plan is a service plan, with the hyperscalers that its clusters can run on.
type Plan struct {
	// Providers are the hyperscaler names that a request of this plan may ask for.
	Providers []string `json:"providers"`
	// Default is the provider of a request that names none. A plan with a single
	// provider needs none.
	Default string `json:"default,omitempty"`
	// Required means that a rule set without an entry for this plan is faulty.
	Required bool `json:"-"`
}

// provider returns the provider of requests that name none, "" if the plan does not define one.
func (p *Plan) provider() string {
	if p.Default == "" && len(p.Providers) == 1 {
		return p.Providers[0]
	}
	return p.Default
}

// Plans are the plans that exist, by name.
type Plans map[string]Plan

// BuiltinPlans returns a copy of the plans that exist by default.
func BuiltinPlans() Plans {
	return Plans{
		"alicloud":               {Providers: []string{"alicloud"}},
		"aws":                    {Providers: []string{"aws"}, Required: true},
		"azure":                  {Providers: []string{"azure"}, Required: true},
		"azure_lite":             {Providers: []string{"azure"}, Required: true},
		"build-runtime-alicloud": {Providers: []string{"alicloud"}},
		"build-runtime-aws":      {Providers: []string{"aws"}},
		"build-runtime-azure":    {Providers: []string{"azure"}},
		"build-runtime-gcp":      {Providers: []string{"gcp"}},
		"free":                   {Providers: []string{"azure", "aws"}, Default: "aws", Required: true},
		"gcp":                    {Providers: []string{"gcp"}, Required: true},
		"gdch":                   {Providers: []string{"gdch"}},
		"preview":                {Providers: []string{"aws"}, Required: true},
		"sap-converged-cloud":    {Providers: []string{"openstack"}, Required: true},
		"trial":                  {Providers: []string{"aws", "azure"}, Default: "aws", Required: true},
	}
}

// With returns a copy of p, extended and overridden by the plans of changes. A new plan needs a rule; an
// overridden plan needs one if it did before. The error is a Faults with every fault of changes.
func (p Plans) With(changes map[string]Plan) (Plans, error) {
	all := maps.Clone(p)
	var faults Faults
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		plan := changes[name]
		for _, message := range plan.flaws(name) {
			faults = append(faults, Fault{Kind: PlanFault, Message: message})
		}
		before, known := p[name]
		plan.Required = !known || before.Required
		all[name] = plan
	}
	return all, faults.orNil()
}

func (p *Plan) flaws(name string) []string {
	var flaws []string
	if !validName(name) {
		flaws = append(flaws, fmt.Sprintf("%q is no name of a plan: a rule could not name it%s", name, spelling.Note(name)))
	}
	if len(p.Providers) == 0 {
		flaws = append(flaws, fmt.Sprintf("plan %s has no providers: list at least one", name))
	}
	for _, provider := range p.Providers {
		if !validName(provider) {
			flaws = append(flaws, fmt.Sprintf("plan %s has the provider %q, which is no label value%s", name, provider, spelling.Note(provider)))
		}
	}
	if p.Default != "" && !slices.Contains(p.Providers, p.Default) {
		flaws = append(flaws, fmt.Sprintf("plan %s has the default %s, which is not among its providers %s", name, p.Default, either(p.Providers)))
	}
	return flaws
}

func validName(name string) bool {
	return name != "" && nameLength(name) == len(name) && token{text: name}.flaw() == ""
}

// Only returns the plans with these names; each needs a rule. A name that p does not have becomes a plan
// without providers: rules may name it, but Match refuses its requests, and Explain explains only those that
// name a provider.
func (p Plans) Only(names ...string) Plans {
	only := make(Plans, len(names))
	for _, name := range names {
		plan := p[name]
		plan.Required = true
		only[name] = plan
	}
	return only
}

// Required returns the names of the plans that need a rule, sorted.
func (p Plans) Required() []string {
	var names []string
	for name, plan := range p {
		if plan.Required {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Providers returns the hyperscaler names of all plans, sorted.
func (p Plans) Providers() []string {
	var names []string
	for _, plan := range p {
		names = append(names, plan.Providers...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Provider returns the provider of a request of the plan. given is the provider that the request names, ""
// for none. The error UnknownProvider means that given is not in the plan's list, that it is "" and the plan
// has no default, or that there is no such plan.
func (p Plans) Provider(plan, given string) (string, error) {
	known := p[plan]
	return known.choose(plan, given)
}

func (p *Plan) choose(name, given string) (string, error) {
	if given == "" {
		given = p.provider()
	}
	if slices.Contains(p.Providers, given) {
		return given, nil
	}
	return "", p.unknownProvider(name, given)
}

func (p *Plan) unknownProvider(name, given string) *engine.Error {
	e := &engine.Error{Code: engine.CodeUnknownProvider}
	switch {
	case len(p.Providers) == 0:
		e.Err = fmt.Errorf("plan %q has no list of providers", name)
		e.Hint = fmt.Sprintf("list them in hap.plans.%s.providers", name)
	case given != "":
		e.Err = fmt.Errorf("provider %q is not offered by plan %s", given, name)
		e.Hint = fmt.Sprintf("use %s, or extend hap.plans.%s.providers", either(p.Providers), name)
	default:
		e.Err = fmt.Errorf("plan %s runs on %s and the request names no provider", name, either(p.Providers))
		e.Hint = fmt.Sprintf("name the provider, or set hap.plans.%s.default", name)
	}
	return e
}
