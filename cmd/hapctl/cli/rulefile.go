package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/rule"
)

// ReadText reads a file, standard input for "-", in UTF-8 without a byte order mark. What is no text
// it leaves to the reader of what the file has, whose faults say so.
func (s *Shell) ReadText(name, what string) ([]byte, error) {
	var content []byte
	var err error
	if name == "-" {
		content, err = io.ReadAll(s.Stdin)
	} else {
		content, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read the %s: %w", what, err)
	}
	if text, err := document.Text(content); err == nil {
		return text, nil
	}
	return content, nil
}

// ReadRules reads a file of rules, standard input for "-". A file that is no
// file of rules is a rule.Faults.
func (s *Shell) ReadRules(path string) (rule.File, error) {
	content, err := s.ReadText(path, "rules")
	if err != nil {
		return rule.File{}, err
	}
	return rule.ReadFile(content)
}

// LabelKeys are those of --config, for a file of rules that names none itself.
func (s *Shell) LabelKeys(file rule.File) rule.Labels {
	if file.Labels != (rule.Labels{}) || s.Connections.File() == "" {
		return file.Labels
	}
	cfg, err := s.Connections.Settings()
	if err != nil {
		s.Say("selectors have the standard keys of labels: %v", err)
		return file.Labels
	}
	return rule.Labels(cfg.Gardener.Labels)
}

// CheckRules finds every fault of whichever form the file has, and counts what it has.
func CheckRules(file rule.File, opts rule.Options) (faults rule.Faults, warnings []rule.Fault, has string) {
	opts.InternalTenants = file.Internal
	if file.Older == nil {
		faults, warnings = rule.Check(file.Texts, opts)
		return faults, warnings, Count(len(file.Texts), "rule")
	}
	faults, warnings = rule.CheckLists(*file.Older, opts)
	members, _ := file.Older.Members()
	return faults, warnings, Count(len(members), "member") + " of the older lists"
}

// RulesFile is the flag of a command that reads rules.
func RulesFile(s *Shell, cmd *cobra.Command) func() (rule.File, error) {
	path := cmd.Flags().StringP("file", "f", "", "rules `file`, - for standard input (default: the file of --config)")
	if err := cmd.MarkFlagFilename("file", "yaml", "yml"); err != nil {
		panic(err)
	}
	return func() (rule.File, error) {
		from := *path
		if from == "" {
			from = s.Connections.File()
		}
		if from == "" {
			return rule.File{}, Usagef("no file of rules; name it with -f FILE")
		}
		return s.ReadRules(from)
	}
}

// FaultRows are faults as a table has them.
func FaultRows(faults []rule.Fault) [][]string {
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

// Pointed shows a fault with its rule, and a mark below the column.
func Pointed(w io.Writer, severity string, f rule.Fault) {
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

// PlanNames are the built-in plans, for completion.
func PlanNames() []string { return slices.Sorted(maps.Keys(rule.BuiltinPlans())) }
