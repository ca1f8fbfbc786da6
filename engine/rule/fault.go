package rule

import (
	"fmt"
	"strings"
)

// Kind is the check that found a fault.
type Kind string

// The kinds of faults, in the order of the checks, then the kinds of warnings.
const (
	Syntax    Kind = "syntax"    // the text is no rule, or the file is no file of rules
	Duplicate Kind = "duplicate" // the same plan and inputs as an earlier rule
	Ambiguous Kind = "ambiguous" // two rules of equal weight and no third that decides
	// PlanFault means that a plan does not exist or is not well defined, that a required one has no rule, or
	// that there are no rules. As a warning: a plan does not exist (AnyPlan), or has its older name.
	PlanFault Kind = "plan"
	Redundant Kind = "redundant" // warning: the set means the same without this rule
	// Setting is a warning: workers refuse a key beside the rules, or read its value otherwise than an older
	// broker, or the limits leave a hyperscaler out.
	Setting Kind = "setting"
)

// Fault is one error or warning about a rule set. In the older form, a member of one of the four lists takes
// the place of the rule.
type Fault struct {
	Key     string `json:"key,omitempty"`    // of the older list, such as sharedRule; "" in the rule list
	Rule    int    `json:"rule,omitempty"`   // its number in its list, from 1; 0 if the fault is not that of one rule
	Text    string `json:"text,omitempty"`   // of the rule, as it was given; of a member, without white space around it
	Column  int    `json:"column,omitempty"` // in Text, in characters, counted from 1; 0 without a Rule
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
}

// Error names the rule or the member, its text and the column, then the kind and the message; only the last two
// if Rule is 0.
func (f Fault) Error() string {
	switch {
	case f.Rule == 0:
		return fmt.Sprintf("%s: %s", f.Kind, f.Message)
	case f.Key != "":
		return fmt.Sprintf("%s, member %d %q, column %d: %s: %s", f.Key, f.Rule, f.Text, f.Column, f.Kind, f.Message)
	}
	return fmt.Sprintf("rule %d %q, column %d: %s: %s", f.Rule, f.Text, f.Column, f.Kind, f.Message)
}

// Faults are the faults of a rule, a rule set or a file. Those of a rule set are in the order of their kinds:
// syntax, duplicate, ambiguous, plan.
type Faults []Fault

// Error returns one fault a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].Error()
	}
	return strings.Join(lines, "\n")
}

// orNil returns f as an error, nil if it is empty.
func (f Faults) orNil() error {
	if len(f) == 0 {
		return nil
	}
	return f
}
