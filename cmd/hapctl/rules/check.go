package rules

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine/rule"
)

// checkView is the result of a check.
type checkView struct {
	Valid    bool         `json:"valid"`
	Errors   []rule.Fault `json:"errors"`
	Warnings []rule.Fault `json:"warnings"`

	has string // the number of rules, as text
}

func (v checkView) Show(w io.Writer, wide bool) {
	if v.Valid {
		fmt.Fprintf(w, "valid: %s\n", v.has)
	} else {
		cli.FittedText(w, wide, []string{"RULE", "COLUMN", "KIND", "TEXT", "MESSAGE"}, cli.FaultRows(v.Errors), "TEXT")
	}
	if len(v.Warnings) > 0 {
		fmt.Fprintln(w, "\nWarnings:")
		cli.FittedText(w, wide, []string{"RULE", "COLUMN", "KIND", "TEXT", "MESSAGE"}, cli.FaultRows(v.Warnings), "TEXT")
	}
}

func newRulesCheck(s *cli.Shell) *cobra.Command {
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
		Args: cli.Arguments(cobra.NoArgs),
	}
	read := cli.RulesFile(s, cmd)
	plans := cmd.Flags().StringSlice("plans", nil, "`plans` that exist, separated by commas (default: the built-in plans and hap.plans)")
	require := cmd.Flags().StringSlice("require", nil, "`plans` that need an entry, '' for none (default: --plans if set, otherwise the required built-in plans and those that hap.plans adds)")
	cmd.RunE = func(*cobra.Command, []string) error {
		var opts rule.Options
		if cmd.Flags().Changed("require") {
			opts.Require = cli.Names(*require)
		}
		only := cli.Names(*plans)
		if cmd.Flags().Changed("plans") && len(only) == 0 {
			return cli.Usagef("--plans names no plan; leave it out for the built-in ones")
		}
		return printCheck(s, read, only, opts)
	}
	return cmd
}

// printCheck reads and checks rules, and prints the result. If the content of the file is no file of rules,
// it prints that fault like the fault of a rule.
func printCheck(s *cli.Shell, read func() (rule.File, error), only []string, opts rule.Options) error {
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
		faults, v.Warnings, v.has = cli.CheckRules(file, opts)
		v.Warnings = slices.Concat(v.Warnings, file.Warnings, file.Unlimited(opts))
	}
	v.Valid, v.Errors, v.Warnings = len(faults) == 0, cli.NotNil([]rule.Fault(faults)), cli.NotNil(v.Warnings)
	if err := s.Print(v); err != nil {
		return err
	}
	if !v.Valid {
		s.Say("the rules are not valid: %s; correct what is listed and check again", cli.Count(len(faults), "fault"))
		return cli.Said(cli.ExitInvalid)
	}
	return nil
}
