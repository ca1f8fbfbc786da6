package config

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/engine/spelling"
)

// Decisions is the compiled part of a configuration that decides requests. It is immutable and safe for
// concurrent use: an event is handled with the same Decisions from start to end, and a changed configuration
// is a new Decisions.
type Decisions struct {
	rules    *rule.Ruleset
	internal map[string]bool
	allowed  map[string]bool
	anyone   bool
	limits   map[string]int
	strategy account.Strategy
	waiting  Waiting
}

// Decisions compiles c. The error is a [document.Faults] with every fault of the section hap.
func (c *Config) Decisions() (*Decisions, error) {
	var wrong faults
	compiled := c.HAP.compile(&wrong, rule.Labels(c.Gardener.Labels))
	if err := wrong.err("", sources{}); err != nil {
		return nil, err
	}
	return compiled, nil
}

// Rules returns the compiled rules.
func (d *Decisions) Rules() *rule.Ruleset { return d.rules }

// Internal reports whether the tenant may keep using internal bindings that carry its name.
func (d *Decisions) Internal(tenant string) bool { return d.internal[tenant] }

// Terms returns whether the tenant may have several accounts in a pool of the provider, and their limit and
// strategy. The provider is the hyperscaler's name, as in a rule.Match.
func (d *Decisions) Terms(tenant, provider string) account.Terms {
	if !d.anyone && !d.allowed[tenant] {
		return account.Terms{}
	}
	return d.Several(provider)
}

// Several are the terms of the tenants that may have several accounts, whichever these are.
func (d *Decisions) Several(provider string) account.Terms {
	limit, own := d.limits[provider]
	if !own {
		limit = d.limits[DefaultLimit]
	}
	return account.Terms{Several: true, Limit: limit, Strategy: d.strategy}
}

// Unlimited says for which hyperscalers a tenant that may have several accounts never gets a second one, since
// no limit fills the first; "" if there is none.
func (d *Decisions) Unlimited() string {
	if len(d.allowed) == 0 {
		return ""
	}
	return d.rules.Unlimited(slices.Collect(maps.Keys(d.limits)))
}

// WaitingTimeout returns how long a request without a deadline waits for an account. With 0, no request waits.
func (d *Decisions) WaitingTimeout() time.Duration { return d.waiting.Timeout }

// LongestWait returns the maximum time for which a request waits, even if its deadline is later. It is at
// least WaitingTimeout. It also bounds deadlines to years that a reply can represent.
func (d *Decisions) LongestWait() time.Duration { return max(d.waiting.Longest, d.waiting.Timeout) }

// Live has the current Decisions. A handler calls Get once for an event. It is safe for concurrent use.
type Live struct{ current atomic.Pointer[Decisions] }

// NewLive returns a Live with d.
func NewLive(d *Decisions) *Live {
	l := &Live{}
	l.Set(d)
	return l
}

// Get returns the current Decisions.
func (l *Live) Get() *Decisions { return l.current.Load() }

// Set makes d the current Decisions. Events in flight keep theirs.
func (l *Live) Set(d *Decisions) { l.current.Store(d) }

func (h *HAP) check(wrong *faults) { h.compile(wrong, rule.Labels{}) }

// compile returns nil if there are faults, and adds them to wrong.
func (h *HAP) compile(wrong *faults, labels rule.Labels) *Decisions {
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
	allowed := set(h.MultiHyperscalerAccount.AllowedGlobalAccounts)
	limits := make(map[string]int, len(h.MultiHyperscalerAccount.Limits))
	maps.Copy(limits, h.MultiHyperscalerAccount.Limits)
	return &Decisions{
		rules: rules, internal: set(h.InternalGlobalAccounts),
		allowed: allowed, anyone: allowed[AnyTenant],
		limits: limits, strategy: h.MultiHyperscalerAccount.Strategy, waiting: h.Waiting,
	}
}

// plans returns the built-in table, extended by hap.plans. It adds one plan at a time, so that each fault has
// the key of its plan.
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

func set(names []string) map[string]bool {
	members := make(map[string]bool, len(names))
	for _, name := range names {
		members[name] = true
	}
	return members
}
