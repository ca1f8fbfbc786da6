package policy

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
)

// policyConvertView is the policy that was converted from older rules.
type policyConvertView struct {
	Document string `json:"document"`
	Rules    int    `json:"rules"`
}

func (v policyConvertView) Show(w io.Writer, _ bool) { _, _ = io.WriteString(w, v.Document) }

func newPolicyConvert(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Convert engine.clusterPolicyRules to a policy",
		Long: `Convert the rules of an older installation to a policy document. FILE may contain a
chart's values with engine.clusterPolicyRules, a policy, or only the rules. The rules
may be a map by interface, or a list of which each item names its interface. hapctl
keeps comments. The exit code is 3 if something is invalid, and hapctl names it.`,
		Example: `  hapctl policy convert -f values.yaml > policy.yaml
  hapctl policy convert -f values.yaml | hapctl policy check -f -`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	file := cmd.Flags().StringP("file", "f", "", "`file` with the values or the rules, - for standard input")
	if err := cmd.MarkFlagFilename("file", "yaml", "yml", "json"); err != nil {
		panic(err)
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		if *file == "" {
			return cli.Usagef("no rules; name their file with -f FILE")
		}
		content, err := s.ReadText(*file, "rules")
		if err != nil {
			return err
		}
		converted, err := convertPolicy(content)
		if err != nil {
			return err
		}
		return s.Print(converted)
	}
	return cmd
}
