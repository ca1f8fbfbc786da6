package rule

import (
	"fmt"
	"strings"
)

// maxAmbiguous bounds the ambiguities that are listed for one plan. There can be as many as pairs of its
// regions, and a longer list helps no reader.
const maxAmbiguous = 200

// Check returns the faults and warnings of a rule set, without compiling it. It lists at most maxAmbiguous
// ambiguities of a plan.
func Check(texts []string, opts Options) (faults Faults, warnings []Fault) {
	_, faults, warnings = check(texts, opts.withDefaults())
	return faults, warnings
}

// check returns the rules that parsed, and the faults and warnings of the set.
func check(texts []string, opts Options) (rules []parsed, faults Faults, warnings []Fault) {
	if len(texts) == 0 {
		return nil, Faults{emptySet(opts)}, nil
	}
	for i, text := range texts {
		p, wrong := parseRule(i+1, text)
		if len(wrong) > 0 {
			faults = append(faults, wrong...)
			continue
		}
		rules = append(rules, p)
	}
	first, duplicates := uniques(rules)
	faults = append(faults, duplicates...)
	faults = append(faults, ambiguities(rules, first)...)
	unknown := unknownPlans(rules, opts.Plans)
	if opts.AnyPlan {
		warnings = append(warnings, unknown...)
	} else {
		faults = append(faults, unknown...)
	}
	faults = append(faults, uncovered(texts, rules, opts)...)
	return rules, faults, append(warnings, redundant(rules, first)...)
}

func emptySet(opts Options) Fault {
	message := "the rule set is empty"
	if len(opts.Require) > 0 {
		message += "; write at least one entry for each of " + strings.Join(opts.Require, ", ")
	}
	return Fault{Kind: PlanFault, Message: message}
}

// uniques returns the first rule of each scope, and a fault for each further one.
func uniques(rules []parsed) (map[Entry]parsed, Faults) {
	first := make(map[Entry]parsed, len(rules))
	var faults Faults
	for _, p := range rules {
		if f, ok := first[p.scope()]; ok {
			faults = append(faults, p.fault(Duplicate,
				"rule %d (%s) has the same plan and the same inputs; outputs do not tell rules apart, remove one of them", f.number, f.Entry))
			continue
		}
		first[p.scope()] = p
	}
	return first, faults
}

// ambiguities returns a fault for each pair of a plan's rules, one with only PR and one with only HR, if no rule
// with both inputs decides. After maxAmbiguous faults of a plan, one last fault says that there are more.
func ambiguities(rules []parsed, first map[Entry]parsed) Faults {
	byPlatform := map[string][]parsed{} // of each plan, the rules with PR only
	for _, p := range rules {
		if p.PlatformRegion != "" && p.HyperscalerRegion == "" && first[p.scope()].number == p.number {
			byPlatform[p.Plan] = append(byPlatform[p.Plan], p)
		}
	}
	found := map[string]int{}
	var faults Faults
	for _, hr := range rules {
		if hr.PlatformRegion != "" || hr.HyperscalerRegion == "" || first[hr.scope()].number != hr.number {
			continue
		}
		for _, pr := range byPlatform[hr.Plan] {
			missing := Entry{Plan: hr.Plan, PlatformRegion: pr.PlatformRegion, HyperscalerRegion: hr.HyperscalerRegion}
			if _, ok := first[missing]; ok || found[hr.Plan] > maxAmbiguous {
				continue
			}
			found[hr.Plan]++
			faults = append(faults, ambiguity(pr, hr, missing, found[hr.Plan]))
		}
	}
	return faults
}

func ambiguity(pr, hr parsed, missing Entry, count int) Fault {
	if count > maxAmbiguous {
		return Fault{Kind: Ambiguous, Message: fmt.Sprintf("plan %s has more ambiguities than the %d that are listed", hr.Plan, maxAmbiguous)}
	}
	earlier, later := pr, hr
	if hr.number < pr.number {
		earlier, later = hr, pr
	}
	return later.fault(Ambiguous, "a request could match this and rule %d (%s) with equal weight; add the missing entry %s with the outputs that it shall have",
		earlier.number, earlier.Entry, missing)
}

func unknownPlans(rules []parsed, plans Plans) Faults {
	var faults Faults
	for _, p := range rules {
		if _, ok := plans[p.Plan]; !ok {
			faults = append(faults, p.fault(PlanFault, "plan %q does not exist; %s", p.Plan, plans.advice(p.Plan)))
		}
	}
	return faults
}

// uncovered returns a fault for each required plan without an entry that parsed.
func uncovered(texts []string, rules []parsed, opts Options) Faults {
	covered := make(map[string]bool, len(rules))
	for _, p := range rules {
		covered[p.Plan] = true
	}
	broken := map[string]int{} // by plan, the last rule that begins with it; if the plan has no entry, that rule did not parse
	if len(rules) < len(texts) {
		for i, text := range texts {
			broken[newScanner(text).next().text] = i + 1
		}
	}
	var faults Faults
	for _, plan := range opts.Require {
		if covered[plan] {
			continue
		}
		message := fmt.Sprintf("plan %q has no entry; add one, such as %q", plan, plan)
		if number := broken[plan]; number > 0 {
			message = fmt.Sprintf("plan %q has no entry that can be read; correct rule %d", plan, number)
		} else if _, ok := opts.Plans[plan]; !ok {
			message = fmt.Sprintf("plan %q needs an entry and does not exist; %s", plan, opts.Plans.advice(plan))
		}
		faults = append(faults, Fault{Kind: PlanFault, Message: message})
	}
	return faults
}

// redundant warns of rules without which the same requests would have the same outputs.
func redundant(rules []parsed, first map[Entry]parsed) []Fault {
	var warnings []Fault
	for _, p := range rules {
		if w, ok := fallback(p, first); ok && w.Outputs == p.Outputs {
			warnings = append(warnings, p.fault(Redundant, "rule %d (%s) gives the same outputs; this rule changes nothing", w.number, w.Entry))
		}
	}
	return warnings
}

// fallback returns the rule that would serve the requests of p without p. It returns false if no other rule
// matches them, or if p decides between two others.
func fallback(p parsed, first map[Entry]parsed) (parsed, bool) {
	pr, hasPR := first[Entry{Plan: p.Plan, PlatformRegion: p.PlatformRegion}]
	hr, hasHR := first[Entry{Plan: p.Plan, HyperscalerRegion: p.HyperscalerRegion}]
	plain, hasPlain := first[Entry{Plan: p.Plan}]
	switch {
	case p.PlatformRegion == "" && p.HyperscalerRegion == "":
		return parsed{}, false
	case p.PlatformRegion == "" || p.HyperscalerRegion == "":
		return plain, hasPlain
	case hasPR && hasHR:
		return parsed{}, false
	case hasPR:
		return pr, true
	case hasHR:
		return hr, true
	}
	return plain, hasPlain
}
