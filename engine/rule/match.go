package rule

import (
	"errors"
	"fmt"

	"github.com/hap-worker/hap-worker/engine"
)

// Request has the fields of a request that rules look at.
type Request struct {
	Plan              string `json:"plan"`
	PlatformRegion    string `json:"platformRegion,omitempty"`
	HyperscalerRegion string `json:"hyperscalerRegion,omitempty"`
	Provider          string `json:"provider,omitempty"` // "": the plan's default
	Tenant            string `json:"tenant,omitempty"`   // only for selectors; a valid id, see engine.ValidID
}

// Match is the rule that serves a request, and the pool to which it leads.
type Match struct {
	// Rule is the rule as configured, without white space around it. In the older
	// form it names, for each list that has an effect, the list and one member
	// that is true, or says that no member is.
	Rule       string
	RuleNumber int // counted from 1; 0 in the older form
	Provider   string
	Pool       engine.Pool

	tenant   string
	internal map[string]bool
	labels   *Labels
}

// Match finds the rule for a request. Its cost does not depend on the number of rules. If it succeeds, it
// allocates only the text of a hyperscaler type that contains a region and, in the older form, the text of a
// Rule that names a member for the hyperscaler region beside members of other lists.
//
// The error is an *engine.Error: NoMatchingRule; UnknownProvider if the provider is not in the plan's list,
// or is missing and the plan has no default; InvalidEvent if the plan or a region that an output appends is
// missing, or if the hyperscaler type is not a valid label value.
func (s *Ruleset) Match(r Request) (Match, error) {
	v, p, ok := s.find(r)
	if !ok {
		return Match{}, s.NoMatch(r)
	}
	provider, err := p.plan.choose(r.Plan, r.Provider)
	if err != nil {
		return Match{}, v.failed(err)
	}
	return s.result(&v, r, provider)
}

func (s *Ruleset) result(v *verdict, r Request, provider string) (Match, error) {
	kind, err := v.hyperscalerType(provider, r)
	if err != nil {
		return Match{}, err
	}
	return Match{
		Rule:       v.name(),
		RuleNumber: v.number,
		Provider:   provider,
		Pool: engine.Pool{
			HyperscalerType: kind,
			EUAccess:        v.outputs.Has(OutputEUAccess),
			Shared:          v.outputs.Has(OutputShared),
		},
		tenant:   r.Tenant,
		internal: s.internal,
		labels:   &s.labels,
	}, nil
}

// name returns the rule as answers show it.
func (v *verdict) name() string {
	if v.text == "" {
		return noMember
	}
	return v.text
}

// hyperscalerType returns <provider>[_<platformRegion>][_<hyperscalerRegion>], or an error if a region is missing
// or if that is not a label value.
func (v *verdict) hyperscalerType(provider string, r Request) (string, error) {
	kind := provider
	withPR, withHR := v.outputs.Has(OutputPlatformRegion), v.outputs.Has(OutputHyperscalerRegion)
	switch {
	case withPR && r.PlatformRegion == "":
		return "", v.missing("PR", KeyPlatformRegion, "platformRegion")
	case withHR && r.HyperscalerRegion == "":
		return "", v.missing("HR", KeyClusterRegion, "hyperscalerRegion")
	case withPR && withHR:
		kind = provider + "_" + r.PlatformRegion + "_" + r.HyperscalerRegion
	case withPR:
		kind = provider + "_" + r.PlatformRegion
	case withHR:
		kind = provider + "_" + r.HyperscalerRegion
	}
	if !labelValue(kind) {
		return "", v.failed(&engine.Error{
			Code: engine.CodeInvalidEvent,
			Err:  fmt.Errorf("the hyperscaler type %q is no label value", kind),
			Hint: fmt.Sprintf("send a provider and regions of letters, digits, \"-\", \"_\" and \".\" that make at most %d characters", maxName),
		})
	}
	return kind, nil
}

// missing returns the error for a request without the region that an output, or one of the older lists,
// needs.
func (v *verdict) missing(output, key, field string) error {
	e := &engine.Error{
		Code: engine.CodeInvalidEvent,
		Err:  fmt.Errorf("its output %s needs %s, which the request does not have", output, field),
		Hint: "send " + field + ", or remove the output from the rule",
	}
	if v.number == 0 {
		e.Err = fmt.Errorf("%s needs %s, which the request does not have", key, field)
		e.Hint = "send " + field + ", or remove the member from " + key
	}
	return v.failed(e)
}

// failed adds the rule that matched to an *engine.Error.
func (v *verdict) failed(err error) error {
	var e *engine.Error
	if !errors.As(err, &e) {
		return err
	}
	op := v.name()
	if v.number > 0 {
		op = fmt.Sprintf("rule %d (%s)", v.number, v.text)
	}
	return &engine.Error{Code: e.Code, Op: op, Err: e.Err, Hint: e.Hint}
}

// labelValue reports whether s is a valid value of a Kubernetes label and not empty.
func labelValue(s string) bool {
	if s == "" || len(s) > maxName || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !nameByte(s[i]) {
			return false
		}
	}
	return true
}

// NoMatch returns the error for a request that no rule matches: NoMatchingRule, or InvalidEvent if it names
// no plan.
func (s *Ruleset) NoMatch(r Request) error {
	if r.Plan == "" {
		return &engine.Error{
			Code: engine.CodeInvalidEvent,
			Err:  errors.New("the request names no plan"),
			Hint: "send plan",
		}
	}
	e := &engine.Error{Code: engine.CodeNoMatchingRule}
	if s.byPlan[r.Plan] == nil {
		e.Err = fmt.Errorf("no rule for plan %q", r.Plan)
		e.Hint = fmt.Sprintf("add an entry to hap.rule that begins with the plan, such as %q", r.Plan)
		if _, known := s.plans[r.Plan]; !known {
			e.Err = fmt.Errorf("no rule for plan %q, which does not exist", r.Plan)
			e.Hint = s.plans.advice(r.Plan)
		}
		return e
	}
	e.Err = fmt.Errorf("no rule for %s", r.scope())
	e.Hint = fmt.Sprintf("the entries of plan %s name other regions; add one to hap.rule, such as %q for every region", r.Plan, r.Plan)
	return e
}

// scope describes the request by the fields that rules compare.
func (r Request) scope() string {
	text := "plan " + r.Plan
	if r.PlatformRegion != "" {
		text += ", platform region " + r.PlatformRegion
	}
	if r.HyperscalerRegion != "" {
		text += ", hyperscaler region " + r.HyperscalerRegion
	}
	return text
}
