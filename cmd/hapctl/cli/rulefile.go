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

// ReadText reads a file, or standard input for "-", which only one file can be. It removes a byte order mark, and converts UTF-16 that
// has one to UTF-8. It returns content that is not valid text unchanged: its parser reports that fault.
func (s *Shell) ReadText(name, what string) ([]byte, error) {
	var content []byte
	var err error
	switch {
	case name != "-":
		content, err = os.ReadFile(name)
	case s.stdinRead:
		return nil, Usagef("read the %s: standard input was read already; name another file than -", what)
	default:
		s.stdinRead = true
		content, err = io.ReadAll(s.Stdin)
	}
	if err != nil {
		return nil, fmt.Errorf("read the %s: %w", what, err)
	}
	if text, err := document.Text(content); err == nil {
		return text, nil
	}
	return content, nil
}

// ReadRules reads a file of rules, or standard input for "-". If the content is no file of rules, the error
// is a rule.Faults.
func (s *Shell) ReadRules(path string) (rule.File, error) {
	content, err := s.ReadText(path, "rules")
	if err != nil {
		return rule.File{}, err
	}
	return rule.ReadFile(content)
}

// LabelKeys returns the label keys that a file of rules names. If it names none, it returns those of --config.
// Without --config, or if its file is invalid, it returns the zero value, which means the standard keys.
func (s *Shell) LabelKeys(file rule.File) rule.Labels {
	if file.Labels != (rule.Labels{}) || s.Connections.File() == "" {
		return file.Labels
	}
	cfg, err := s.Connections.Settings()
	if err != nil {
		s.Say("--config is not valid, so selectors have the standard label keys: %v", err)
		return file.Labels
	}
	return rule.Labels(cfg.Gardener.Labels)
}

// CheckRules checks the rules of a file, in either form. has is their number with a noun, such as "3 rules".
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

// RulesFile adds the flag --file to a command. The returned function reads the rules from that file, or else
// from the file of --config.
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

// FaultRows returns a row of a table for each fault.
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

// Pointed writes a fault and, below it, the text of its rule with a mark at the column at fault. For a fault of no
// rule, or without a text, it writes only the fault.
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

// inPlace replaces a character that is not printable by a space, so that the rule stays on one line and the
// mark below it is in the right place.
func inPlace(r rune) rune {
	if strconv.IsPrint(r) {
		return r
	}
	return ' '
}

// PlanNames returns the names of the built-in plans, for completion.
func PlanNames() []string { return slices.Sorted(maps.Keys(rule.BuiltinPlans())) }
