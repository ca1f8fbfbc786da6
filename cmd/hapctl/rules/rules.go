// Package rules implements hapctl rules: it checks, explains, parses, converts and compares HAP rules.
package rules

import (
	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
)

// New returns the command hapctl rules.
func New(s *cli.Shell) *cobra.Command {
	cmd := cli.Group("rules COMMAND", "Check, explain and compare HAP rules", newRulesCheck(s), newRulesExplain(s), newRulesParse(s), newRulesConvert(s), newRulesDiff(s))
	cmd.Long = `Check, explain and compare HAP rules. The rules say which pool of accounts serves a
request.

A file of rules is YAML: hap-worker's configuration, a chart's values (hap: {rule:
[...]}), rule: [...], or only a list. Instead of rule it may have the older
platformRegionRule, clusterRegionRule, sharedRule and euAccessRule. A file that is
not YAML has one rule per line, with comments after #.`
	return cmd
}
