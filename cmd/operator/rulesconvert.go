package operator

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/hap-worker/hap-worker/engine/rule"
)

// convertView is the older form as a rule list.
type convertView struct{ rule.Conversion }

// show writes what a configuration has in place of the four lists.
func (v convertView) show(w io.Writer, _ bool) {
	text, err := yaml.Marshal(map[string]any{"hap": map[string]any{"rule": v.Rules}})
	if err != nil {
		return // a list of texts always encodes
	}
	fmt.Fprint(w, string(text))
}

func newRulesConvert(s *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Write the older four rules as a rule list",
		Long: `Write platformRegionRule, clusterRegionRule, sharedRule and euAccessRule as a
rule list with the same effect: the same pool for every request of every plan.
The lists have an effect on all plans, so each plan that exists has an entry; in
place of *:region, each plan has one of that region.

What a rule list cannot express is named on stderr, the plans at fault have no
entry, and the exit code is 3. A file that has a rule list is written as it is.`,
		Example: `  hapctl rules convert -f values.yaml > rule.yaml
  hapctl rules convert -f values.yaml -o json`,
		Args: arguments(cobra.NoArgs),
	}
	read := rulesFile(s, cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		file, err := read()
		if err != nil {
			return err
		}
		return s.convert(file)
	}
	return cmd
}

func (s *shell) convert(file rule.File) error {
	plans, err := rule.BuiltinPlans().With(file.Plans)
	if err != nil {
		return err
	}
	v := convertView{rule.Conversion{Rules: file.Texts, Inexpressible: []rule.Inexpressible{}, Warnings: []rule.Fault{}}}
	if file.Older == nil {
		faults, warnings, _ := checkRules(file, rule.Options{Plans: plans, Require: []string{}})
		if len(faults) > 0 {
			return faults
		}
		v.Warnings = notNil(warnings)
		s.say("the file has a rule list already; it is written as it is")
	} else {
		converted, err := rule.Convert(*file.Older, rule.Options{Plans: plans})
		if err != nil {
			return err
		}
		v.Conversion = converted
		v.Warnings = notNil(converted.Warnings)
	}
	for _, w := range v.Warnings {
		pointed(s.stderr, "warning", w)
	}
	if err := s.print(v); err != nil {
		return err
	}
	for _, i := range v.Inexpressible {
		s.say("plan %s cannot be expressed as a rule list and has no entry: %s", i.Plan, i.Why)
	}
	if len(v.Inexpressible) > 0 {
		return said(exitInvalid)
	}
	return nil
}
