package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine"
)

// Reason classifies refusals.
type Reason string

// The reasons of a refusal.
const (
	NoPolicy         Reason = "no-policy"
	NoCatalog        Reason = "no-catalog"
	UnknownInterface Reason = "unknown-interface"
	NoRule           Reason = "no-rule"
	Denied           Reason = "denied"
	NothingMatches   Reason = "nothing-matches"
	AliasTwice       Reason = "alias-twice"
)

// Refusal says why an Interface has no Implementation.
type Refusal struct {
	Reason     Reason
	Interface  Ref
	RuleKey    string     // of the rule that decided; "" if no rule was reached
	Candidates []Rejected // for NothingMatches only; see explained and explainedReasons
	More       int        // number of further candidates

	text, hint string
}

// Rejected is an Implementation of the Interface, and for each alternative the
// first condition that it does not meet.
type Rejected struct {
	Implementation Ref
	Failed         []string
}

// explained is the maximum number of candidates that a refusal lists. The message goes into a reply, which
// should stay readable.
const explained = 50

// explainedReasons bounds the reasons of all candidates together, unless those of the first one are more.
const explainedReasons = 200

// Error names the refused interface and the rule; for NothingMatches, also why each candidate does not match.
func (r *Refusal) Error() string {
	if len(r.Candidates) == 0 {
		return r.text
	}
	var all []string
	for _, c := range r.Candidates {
		all = append(all, c.String())
	}
	if r.More > 0 {
		all = append(all, fmt.Sprintf("and %d more", r.More))
	}
	return r.text + ": " + strings.Join(all, "; ")
}

// String returns the implementation with its reasons.
func (r Rejected) String() string {
	reasons := make([]string, len(r.Failed))
	for i, why := range r.Failed {
		reasons[i] = fmt.Sprintf("alternative %d: %s", i, why)
	}
	return fmt.Sprintf("%s (%s)", r.Implementation, strings.Join(reasons, ", "))
}

// refused wraps a Refusal in an engine.Error of CodeNoImplementation.
func refused(r *Refusal) error {
	return &engine.Error{Code: engine.CodeNoImplementation, Err: r, Hint: r.hint}
}

// ErrLate means that a policy is expected and none is in force: none was valid yet, or it was removed. The request may
// succeed later.
var ErrLate = errors.New("there is no policy yet")

func late(source, lacks string) error {
	return &engine.Error{
		Code: engine.CodeInternal, Err: fmt.Errorf("%w: %s %s", ErrLate, source, lacks),
		Hint: "write a valid policy there: requests for an interface wait for it",
	}
}

func noPolicy(wanted Ref) *Refusal {
	return &Refusal{
		Reason: NoPolicy, Interface: wanted, text: "no policy is configured",
		hint: "set policy.catalog, and policy.file if the policy is not in a ConfigMap",
	}
}

func noCatalog(wanted Ref) *Refusal {
	return &Refusal{
		Reason: NoCatalog, Interface: wanted, text: "no catalog of implementations is configured",
		hint: "configure policy.catalog",
	}
}

func (s *Snapshot) unknownInterface(wanted Ref) *Refusal {
	r := &Refusal{
		Reason: UnknownInterface, Interface: wanted, text: fmt.Sprintf("the catalog has no interface %s", wanted),
		hint: "correct the path, or add the manifest of the interface to the catalog",
	}
	var revisions []string
	for _, i := range s.catalog.interfaces[wanted.Path] {
		revisions = append(revisions, i.Revision)
	}
	if len(revisions) > 0 {
		r.text += "; its revisions are " + strings.Join(revisions, ", ")
		r.hint = "ask for one of them, or for none to get the newest"
	} else if n := s.catalog.implementing(wanted.Path); n > 0 {
		r.text += fmt.Sprintf(", though implementations name it: %d", n)
		r.hint = "add the manifest of the interface to the catalog"
	}
	return r
}

// implementing counts the implementations that name an interface, whether or not
// the catalog has it.
func (c *Catalog) implementing(path string) int {
	n := 0
	for i := range c.implementations {
		if slices.ContainsFunc(c.implementations[i].Implements, func(r Ref) bool { return r.Path == path }) {
			n++
		}
	}
	return n
}

func noRule(i Ref) *Refusal {
	return &Refusal{
		Reason: NoRule, Interface: i, text: fmt.Sprintf("the policy has no rule for interface %s", i),
		hint: fmt.Sprintf("add one for %s, %s or %s", i, i.Path, Anything),
	}
}

func denied(i Ref, key string) *Refusal {
	return &Refusal{
		Reason: Denied, Interface: i, RuleKey: key, text: fmt.Sprintf("rule %s denies interface %s: its oneOf is empty", key, i),
		hint: "add an alternative to the rule if the interface is to be served",
	}
}

func aliasTwice(d Decision, alias, first, second string) *Refusal {
	return &Refusal{
		Reason: AliasTwice, Interface: d.Interface, RuleKey: d.RuleKey,
		text: fmt.Sprintf("rule %s, alternative %d injects both %s and %s into %s as %s",
			d.RuleKey, d.Alternative, first, second, d.Picked.Ref, alias),
		hint: "keep one of the two in injectTypeInstances, or give the other typeRef its revision",
	}
}

// nothingMatches explains for the first candidates why they do not match. That is slower than a match, so their
// number is limited.
func (s *Snapshot) nothingMatches(i *iface, rule *compiled) *Refusal {
	r := &Refusal{Reason: NothingMatches, Interface: i.Ref, RuleKey: rule.Key}
	candidates := common(nil, &i.found)
	if len(candidates) == 0 {
		r.text = fmt.Sprintf("rule %s: the catalog has no implementation of interface %s", rule.Key, i.Ref)
		r.hint = "add one that names this revision in spec.implements"
		return r
	}
	r.text = fmt.Sprintf("rule %s: no implementation of interface %s matches", rule.Key, i.Ref)
	r.hint = "change the rule, or add what is missing"
	most := min(explained, max(1, explainedReasons/len(rule.OneOf)))
	if len(candidates) > most {
		candidates, r.More = candidates[:most], len(candidates)-most
	}
	for _, n := range candidates {
		im := &s.catalog.implementations[n]
		rejected := Rejected{Implementation: im.Ref}
		for _, a := range rule.OneOf {
			rejected.Failed = append(rejected.Failed, s.firstFailed(im, a.Constraints))
		}
		r.Candidates = append(r.Candidates, rejected)
	}
	return r
}

// firstFailed returns the first condition, in the documented order, that an implementation does not meet; ""
// if it meets all.
func (s *Snapshot) firstFailed(im *Implementation, c Constraints) string {
	if c.Path != "" && c.Path != im.Path {
		return "is not " + c.Path
	}
	for _, want := range c.Attributes {
		if why := lacks("has no attribute", "has attribute", want, im.Attributes); why != "" {
			return why
		}
	}
	for _, want := range c.Requires {
		if why := lacks("does not require", "requires", want, im.required()); why != "" {
			return why
		}
	}
	if q := s.firstUnmet(im); q != nil {
		return s.unmet(q)
	}
	return ""
}

// lacks returns "" if want covers an entry of have. Otherwise it says that want is absent (not), or there
// only in other revisions (only).
func lacks(not, only string, want Ref, have []Ref) string {
	var others []string
	for _, h := range have {
		if want.covers(h) {
			return ""
		}
		if h.Path == want.Path {
			others = append(others, h.Revision)
		}
	}
	if len(others) > 0 {
		return fmt.Sprintf("%s %s in revision %s, not %s", only, want.Path, strings.Join(others, ", "), want.Revision)
	}
	return fmt.Sprintf("%s %s", not, want)
}

// required lists the Types of every section of every requirement.
func (im *Implementation) required() []Ref {
	var all []Ref
	for i := range im.Requires {
		im.Requires[i].each(func(q *Required) bool {
			all = append(all, q.Ref)
			return true
		})
	}
	return all
}

// unmet says which section of a requirement the system does not satisfy.
func (s *Snapshot) unmet(q *Requirement) string {
	for i := range q.AllOf {
		if !s.has(q.AllOf[i].Ref) {
			return fmt.Sprintf("needs %s (allOf), which is not available", q.AllOf[i].Ref)
		}
	}
	if len(q.AnyOf) > 0 && s.count(q.AnyOf) == 0 {
		return fmt.Sprintf("needs one of %s (anyOf), none is available", names(q.AnyOf))
	}
	var available []Required
	for _, one := range q.OneOf {
		if s.has(one.Ref) {
			available = append(available, one)
		}
	}
	if len(available) == 0 {
		return fmt.Sprintf("needs exactly one of %s (oneOf), none is available", names(q.OneOf))
	}
	return fmt.Sprintf("needs exactly one of %s (oneOf), available are %s", names(q.OneOf), names(available))
}

func names(types []Required) string {
	all := make([]string, len(types))
	for i := range types {
		all[i] = types[i].String()
	}
	return strings.Join(all, ", ")
}
