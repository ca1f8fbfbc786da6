package rule

import (
	"fmt"
	"strings"
)

// Kind is the check that found a fault.
type Kind string

// The kinds of faults, in the order of the checks, then the kinds of warnings.
const (
	Syntax    Kind = "syntax"    // the text is no rule
	Duplicate Kind = "duplicate" // the same plan and inputs as an earlier rule
	Ambiguous Kind = "ambiguous" // two rules of equal weight and no third that decides
	PlanFault Kind = "plan"      // a plan that does not exist, or a required one without a rule
	Redundant Kind = "redundant" // warning: the set means the same without this rule
	// Setting is a warning: a key beside the rules has no effect here, or another effect than in an older
	// broker, or the limits leave a hyperscaler out.
	Setting Kind = "setting"
)

// Fault is one error or warning about a rule set. In the older form, a member of one of the four lists takes
// the place of the rule.
type Fault struct {
	Key     string `json:"key,omitempty"`    // of the older list, such as sharedRule; "" in the rule list
	Rule    int    `json:"rule,omitempty"`   // counted from 1, in the list of Key; 0 if no single rule is at fault
	Text    string `json:"text,omitempty"`   // of the rule, as it was given
	Column  int    `json:"column,omitempty"` // in Text, in characters, counted from 1
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
}

// Error names the kind, the rule, its text and the column, then the fault.
func (f Fault) Error() string {
	switch {
	case f.Rule == 0:
		return fmt.Sprintf("%s: %s", f.Kind, f.Message)
	case f.Key != "":
		return fmt.Sprintf("%s, member %d %q, column %d: %s: %s", f.Key, f.Rule, f.Text, f.Column, f.Kind, f.Message)
	}
	return fmt.Sprintf("rule %d %q, column %d: %s: %s", f.Rule, f.Text, f.Column, f.Kind, f.Message)
}

// Faults are all faults of a rule set: syntax faults first, then duplicates, ambiguities and plans.
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
