package operator

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/engine/rule"
)

// checkView is the result of a check.
type checkView struct {
	Valid    bool         `json:"valid"`
	Errors   []rule.Fault `json:"errors"`
	Warnings []rule.Fault `json:"warnings"`

	has string // how many rules
}

func (v checkView) show(w io.Writer, _ bool) {
	if v.Valid {
		fmt.Fprintf(w, "valid: %s\n", v.has)
	} else {
		table(w, []string{"RULE", "COLUMN", "KIND", "TEXT", "MESSAGE"}, faultRows(v.Errors))
	}
	if len(v.Warnings) > 0 {
		fmt.Fprintln(w, "\nWarnings:")
		table(w, []string{"RULE", "COLUMN", "KIND", "TEXT", "MESSAGE"}, faultRows(v.Warnings))
	}
}

func newRulesCheck(s *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Check HAP rules",
		Long: `Check a set of rules and report every error of every rule: syntax, duplicates,
ambiguities, and plans that do not exist or have no entry. The exit code is 3 if
there is an error. Warnings do not change the exit code.

For the older platformRegionRule, clusterRegionRule, sharedRule and euAccessRule, an
error names its list, and no plan needs an entry.`,
		Example: `  hapctl rules check -f values.yaml
  hapctl rules check -f rules.yaml --plans aws,gcp -o json
  hapctl rules check -f rules.yaml --require ''`,
		Args: arguments(cobra.NoArgs),
	}
	read := rulesFile(s, cmd)
	plans := cmd.Flags().StringSlice("plans", nil, "`plans` that exist, separated by commas (default: the built-in plans and hap.plans)")
	require := cmd.Flags().StringSlice("require", nil, "`plans` that need an entry, '' for none (default: --plans if set, otherwise the required built-in plans and those that hap.plans adds)")
	cmd.RunE = func(*cobra.Command, []string) error {
		var opts rule.Options
		if cmd.Flags().Changed("require") {
			opts.Require = names(*require)
		}
		only := names(*plans)
		if cmd.Flags().Changed("plans") && len(only) == 0 {
			return usagef("--plans names no plan; leave it out for the built-in ones")
		}
		return s.check(read, only, opts)
	}
	return cmd
}

// names are the names of a list, never nil.
func names(list []string) []string {
	all := []string{}
	for _, name := range list {
		if name = strings.TrimSpace(name); name != "" {
			all = append(all, name)
		}
	}
	return all
}

// check reads and checks rules. A file that is no file of rules is a fault like
// those in it.
func (s *shell) check(read func() (rule.File, error), only []string, opts rule.Options) error {
	file, err := read()
	if err == nil {
		opts.Plans, err = rule.BuiltinPlans().With(file.Plans)
	}
	var faults rule.Faults
	if err != nil && !errors.As(err, &faults) {
		return err
	}
	var v checkView
	if err == nil {
		if len(only) > 0 {
			opts.Plans = opts.Plans.Only(only...)
		}
		faults, v.Warnings, v.has = checkRules(file, opts)
		v.Warnings = append(v.Warnings, file.Warnings...)
	}
	v.Valid, v.Errors, v.Warnings = len(faults) == 0, notNil([]rule.Fault(faults)), notNil(v.Warnings)
	if err := s.print(v); err != nil {
		return err
	}
	if !v.Valid {
		s.say("the rules are not valid: %s; correct what is listed and check again", count(len(faults), "fault"))
		return said(exitInvalid)
	}
	return nil
}
