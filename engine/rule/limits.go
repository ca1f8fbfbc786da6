package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// DefaultLimit is the key in hap.multiHyperscalerAccount.limits for all providers without an entry.
const DefaultLimit = "default"

// Unlimited returns a warning that names the hyperscalers for which a rule leads to dedicated accounts and
// limits has no entry, "" if there are none. limits are the keys of hap.multiHyperscalerAccount.limits;
// DefaultLimit covers every hyperscaler. Without a limit an account is never full, so that a tenant that may
// have several accounts never gets a second one. An entry of 0 also means no limit, but is intended.
func (s *Ruleset) Unlimited(limits []string) string {
	if slices.Contains(limits, DefaultLimit) {
		return ""
	}
	without := map[string]bool{}
	for plan, p := range s.byPlan {
		dedicated := func(e Entry) bool { return !e.Outputs.Has(OutputShared) }
		if !slices.ContainsFunc(s.candidates(plan, p), dedicated) {
			continue
		}
		for _, provider := range p.plan.Providers {
			if !slices.Contains(limits, provider) {
				without[provider] = true
			}
		}
	}
	if len(without) == 0 {
		return ""
	}
	return fmt.Sprintf("hap.%s.limits has no limit for %s and no default: an account there is never full, so a tenant never gets a second one; "+
		"set default, to 0 if this is intended", accounts, strings.Join(slices.Sorted(maps.Keys(without)), ", "))
}

// Unlimited returns the warning of Ruleset.Unlimited for the file's rules and limits, if there is one. opts.Plans
// must include the file's plans. There is no warning if the file allows no tenant to have several accounts, or
// if its rules do not compile.
func (f *File) Unlimited(opts Options) []Fault {
	if !f.several {
		return nil
	}
	rules, err := f.compile(opts)
	if err != nil {
		return nil
	}
	message := rules.Unlimited(f.limits)
	if message == "" {
		return nil
	}
	return []Fault{{Kind: Setting, Message: message}}
}
