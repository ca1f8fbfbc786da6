// Package terms has the part of a configuration that decides requests: the rules, and on which terms tenants
// get accounts.
package terms

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
)

// AnyTenant stands for every tenant in Options.Allowed.
const AnyTenant = "*"

// Options are the settings that Decisions are made of.
type Options struct {
	Rules    *rule.Ruleset
	Internal []string       // tenants that may keep using internal bindings that carry their name
	Allowed  []string       // tenants that may have several accounts in a pool
	Limits   map[string]int // clusters for each of their accounts, by provider or rule.DefaultLimit; 0 means no limit
	Strategy account.Strategy
	// Timeout is how long a request without a deadline waits for an account. With 0, no request waits.
	Timeout time.Duration
	// Longest is the maximum time for which a request waits, even if its deadline is later. If Timeout is
	// longer than Longest, Timeout is the maximum.
	Longest time.Duration
}

// Decisions decide requests by compiled settings. They are immutable and safe for concurrent use: a changed
// configuration is a new Decisions.
type Decisions struct {
	settings Options
	internal map[string]bool
	allowed  map[string]bool
}

// New returns the Decisions of settings that were checked before. It keeps no part of o that can change.
func New(o Options) *Decisions {
	o.Limits = maps.Clone(o.Limits)
	return &Decisions{settings: o, internal: set(o.Internal), allowed: set(o.Allowed)}
}

// Rules returns the compiled rules.
func (d *Decisions) Rules() *rule.Ruleset { return d.settings.Rules }

// Internal reports whether the tenant may keep using internal bindings that carry its name.
func (d *Decisions) Internal(tenant string) bool { return d.internal[tenant] }

// Terms returns whether the tenant may have several accounts in a pool of the provider, and their limit and
// strategy. The provider is the hyperscaler's name, as in a rule.Match.
func (d *Decisions) Terms(tenant, provider string) account.Terms {
	if !d.allowed[AnyTenant] && !d.allowed[tenant] {
		return account.Terms{}
	}
	return d.Several(provider)
}

// Several returns the terms for a pool of the provider of any tenant that may have several accounts.
func (d *Decisions) Several(provider string) account.Terms {
	limit, own := d.settings.Limits[provider]
	if !own {
		limit = d.settings.Limits[rule.DefaultLimit]
	}
	return account.Terms{Several: true, Limit: limit, Strategy: d.settings.Strategy}
}

// Unlimited returns the warning of rule.Ruleset.Unlimited about hyperscalers without a limit. It returns ""
// if there are none, or if no tenant may have several accounts.
func (d *Decisions) Unlimited() string {
	if len(d.allowed) == 0 {
		return ""
	}
	return d.settings.Rules.Unlimited(slices.Collect(maps.Keys(d.settings.Limits)))
}

// WaitingTimeout returns how long a request without a deadline waits for an account. With 0, no request
// waits.
func (d *Decisions) WaitingTimeout() time.Duration { return d.settings.Timeout }

// LongestWait returns the maximum time for which a request waits, even if its deadline is later. It is at least
// WaitingTimeout. This maximum also keeps the deadlines in replies before the year 10000, as JSON requires.
func (d *Decisions) LongestWait() time.Duration { return max(d.settings.Longest, d.settings.Timeout) }

// Live has the current Decisions. It is safe for concurrent use.
type Live struct{ current atomic.Pointer[Decisions] }

// NewLive returns a Live with d.
func NewLive(d *Decisions) *Live {
	l := &Live{}
	l.Set(d)
	return l
}

// Get returns the current Decisions.
func (l *Live) Get() *Decisions { return l.current.Load() }

// Set makes d the current Decisions. Callers of Get keep those that they have.
func (l *Live) Set(d *Decisions) { l.current.Store(d) }

func set(names []string) map[string]bool {
	members := make(map[string]bool, len(names))
	for _, name := range names {
		members[name] = true
	}
	return members
}
