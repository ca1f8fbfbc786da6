package operator

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/engine/rule"
)

func newRules(s *shell) *cobra.Command {
	cmd := group("rules COMMAND", "Check, explain and compare HAP rules", newRulesCheck(s), newRulesExplain(s), newRulesParse(s), newRulesConvert(s), newRulesDiff(s))
	cmd.Long = `Check, explain and compare HAP rules. The rules say which pool of accounts serves a
request.

A file of rules is YAML: hap-worker's configuration, a chart's values (hap: {rule:
[...]}), rule: [...], or only a list. Instead of rule it may have the older
platformRegionRule, clusterRegionRule, sharedRule and euAccessRule. A file that is
not YAML has one rule per line, with comments after #.`
	return cmd
}

// rulesFile is the flag of a command that reads rules.
func rulesFile(s *shell, cmd *cobra.Command) func() (rule.File, error) {
	path := cmd.Flags().StringP("file", "f", "", "rules `file`, - for standard input (default: the file of --config)")
	if err := cmd.MarkFlagFilename("file", "yaml", "yml"); err != nil {
		panic(err)
	}
	return func() (rule.File, error) {
		from := *path
		if from == "" {
			from = s.connections.file()
		}
		if from == "" {
			return rule.File{}, usagef("no file of rules; name it with -f FILE")
		}
		return s.readRules(from)
	}
}

// faultRows are faults as a table has them.
func faultRows(faults []rule.Fault) [][]string {
	number := func(n int) string {
		if n == 0 {
			return "-"
		}
		return strconv.Itoa(n)
	}
	place := func(f rule.Fault) string { return strings.TrimPrefix(f.Key+" "+number(f.Rule), " ") }
	var rows [][]string
	for _, f := range faults {
		rows = append(rows, []string{place(f), number(f.Column), string(f.Kind), f.Text, f.Message})
	}
	return rows
}

// pointed shows a fault with its rule, and a mark below the column.
func pointed(w io.Writer, severity string, f rule.Fault) {
	if f.Rule == 0 {
		fmt.Fprintf(w, "%s: %s: %s\n", severity, f.Kind, f.Message)
		return
	}
	place := "rule"
	if f.Key != "" {
		place = f.Key + ", member"
	}
	fmt.Fprintf(w, "%s: %s %d, column %d: %s: %s\n", severity, place, f.Rule, f.Column, f.Kind, f.Message)
	if f.Text == "" {
		return
	}
	fmt.Fprintf(w, "    %s\n", strings.Map(inPlace, f.Text))
	fmt.Fprintf(w, "    %s^\n", strings.Repeat(" ", f.Column-1))
}

// inPlace keeps the characters of a rule on one line, so that the mark below it
// is in its place.
func inPlace(r rune) rune {
	if strconv.IsPrint(r) {
		return r
	}
	return ' '
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// notNil makes an empty list [] in JSON.
func notNil[S ~[]T, T any](list S) S {
	if list == nil {
		return S{}
	}
	return list
}
