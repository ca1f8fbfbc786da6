package config

import (
	"cmp"
	"errors"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/engine/spelling"
	"github.com/hap-worker/hap-worker/engine/terms"
)

// Decisions compiles c. The error is a [document.Faults] with every fault of the section hap.
func (c *Config) Decisions() (*terms.Decisions, error) {
	var wrong faults
	compiled := c.HAP.compile(&wrong, rule.Labels(c.Gardener.Labels))
	if err := wrong.err("", sources{}); err != nil {
		return nil, err
	}
	return compiled, nil
}

func (h *HAP) check(wrong *faults) { h.compile(wrong, rule.Labels{}) }

// compile returns nil if there are faults, and adds them to wrong.
func (h *HAP) compile(wrong *faults, labels rule.Labels) *terms.Decisions {
	before := len(wrong.list)
	for i, tenant := range h.InternalGlobalAccounts {
		if !engine.ValidID(tenant) {
			wrong.add(element("hap.internalGlobalAccounts", i), "%q is not a global account id%s", tenant, spelling.Note(tenant))
		}
	}
	if h.Waiting.Timeout < 0 {
		wrong.add("hap.waiting.timeout", "%s is negative; 0 rejects at once", formatDuration(h.Waiting.Timeout))
	}
	plans := h.plans(wrong)
	rules := h.rules(wrong, plans, labels)
	h.MultiHyperscalerAccount.check(wrong, plans.Providers())
	if len(wrong.list) > before {
		return nil
	}
	several := h.MultiHyperscalerAccount
	return terms.New(terms.Options{
		Rules: rules, Internal: h.InternalGlobalAccounts, Allowed: several.AllowedGlobalAccounts, Limits: several.Limits,
		Strategy: several.Strategy, Timeout: h.Waiting.Timeout, Longest: h.Waiting.Longest,
	})
}

// plans returns the built-in table, extended and overridden by hap.plans. It adds one plan at a time, so that each
// fault has the key of its plan.
func (h *HAP) plans(wrong *faults) rule.Plans {
	all := rule.BuiltinPlans()
	for _, name := range sortedKeys(h.Plans) {
		plan := rule.Plan{Providers: h.Plans[name].Providers, Default: h.Plans[name].Default}
		extended, err := all.With(map[string]rule.Plan{name: plan})
		for _, fault := range ruleFaults(err) {
			wrong.add(join("hap.plans", name), "%s", fault.Message)
		}
		if extended != nil {
			all = extended
		}
	}
	return all
}

// rules compiles the configured form of the rules. Without a rule list this is the older form, even if that
// is empty.
func (h *HAP) rules(wrong *faults, plans rule.Plans, labels rule.Labels) *rule.Ruleset {
	if h.Rule != nil && h.olderRules() {
		wrong.add("hap", "has rule and the older platformRegionRule, clusterRegionRule, sharedRule or euAccessRule: keep one form")
	}
	opts := rule.Options{Plans: plans, InternalTenants: h.InternalGlobalAccounts, Labels: labels}
	var rules *rule.Ruleset
	var err error
	if h.Rule != nil {
		rules, err = rule.Compile(h.Rule, opts)
	} else {
		rules, err = rule.CompileLists(h.lists(), opts)
	}
	for _, fault := range ruleFaults(err) {
		if fault.Rule == 0 {
			wrong.add(rulePlace(fault), "%s: %s", fault.Kind, fault.Message)
			continue
		}
		wrong.add(rulePlace(fault), "%s", fault.Error())
	}
	return rules
}

func (h *HAP) lists() rule.Lists {
	return rule.Lists{
		PlatformRegion: h.PlatformRegionRule, ClusterRegion: h.ClusterRegionRule,
		Shared: h.SharedRule, EUAccess: h.EUAccessRule,
	}
}

// rulePlace returns the path of the key with a fault of the rules.
func rulePlace(f rule.Fault) string {
	key := "hap." + cmp.Or(f.Key, "rule")
	if f.Rule == 0 {
		return key
	}
	return element(key, f.Rule-1)
}

func ruleFaults(err error) rule.Faults {
	if err == nil {
		return nil
	}
	if faults, ok := errors.AsType[rule.Faults](err); ok {
		return faults
	}
	return rule.Faults{{Message: err.Error()}}
}
