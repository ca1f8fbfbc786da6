package rules

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine/rule"
)

// convertView is a rule list that was converted from the older form.
type convertView struct{ rule.Conversion }

// Show writes the part of a configuration that replaces the four lists.
func (v convertView) Show(w io.Writer, _ bool) {
	text, err := yaml.Marshal(map[string]any{"hap": map[string]any{"rule": v.Rules}})
	if err != nil {
		return // a list of texts always encodes
	}
	fmt.Fprint(w, string(text))
}

func newRulesConvert(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Convert the four older lists to a rule list",
		Long: `Convert platformRegionRule, clusterRegionRule, sharedRule and euAccessRule to a rule
list with the same effect: every request of every plan is served from the same pool.
The older lists apply to all plans, so the rule list has an entry for each plan. For
*:region, each plan gets an entry for that region.

If a rule list cannot express something, hapctl names it on standard error, writes no
entry for the plans concerned, and exits with code 3. If the file has a rule list
already, hapctl writes that list.`,
		Example: `  hapctl rules convert -f values.yaml > rule.yaml
  hapctl rules convert -f values.yaml -o json`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	read := cli.RulesFile(s, cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		file, err := read()
		if err != nil {
			return err
		}
		return printConverted(s, file)
	}
	return cmd
}

func printConverted(s *cli.Shell, file rule.File) error {
	plans, err := rule.BuiltinPlans().With(file.Plans)
	if err != nil {
		return err
	}
	v := convertView{rule.Conversion{Rules: file.Texts, Inexpressible: []rule.Inexpressible{}, Warnings: []rule.Fault{}}}
	if file.Older == nil {
		faults, warnings, _ := cli.CheckRules(file, rule.Options{Plans: plans, Require: []string{}})
		if len(faults) > 0 {
			return faults
		}
		v.Warnings = cli.NotNil(warnings)
		s.Say("the file has a rule list already; it is written as it is")
	} else {
		converted, err := rule.Convert(*file.Older, rule.Options{Plans: plans})
		if err != nil {
			return err
		}
		v.Conversion = converted
		v.Warnings = cli.NotNil(converted.Warnings)
	}
	for _, w := range v.Warnings {
		cli.Pointed(s.Stderr, "warning", w)
	}
	if err := s.Print(v); err != nil {
		return err
	}
	for _, i := range v.Inexpressible {
		s.Say("plan %s cannot be expressed as a rule list and has no entry: %s", i.Plan, i.Why)
	}
	if len(v.Inexpressible) > 0 {
		return cli.Said(cli.ExitInvalid)
	}
	return nil
}
