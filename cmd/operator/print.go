package operator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// format is the value of --output.
type format string

const (
	formatTable format = "table"
	formatWide  format = "wide"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
	formatName  format = "name" // of lists of what has a name
)

// formats are those that all commands have, which allForms has besides names.
var (
	formats  = []string{string(formatTable), string(formatWide), string(formatJSON), string(formatYAML)}
	allForms = append(slices.Clone(formats), string(formatName))
)

// String, Set and Type make it a flag.
func (f *format) String() string { return string(*f) }

// Set takes one of the formats.
func (f *format) Set(text string) error {
	if !slices.Contains(allForms, text) {
		return fmt.Errorf("the formats are %s", strings.Join(allForms, ", "))
	}
	*f = format(text)
	return nil
}

// Type names the flag's value in help texts.
func (f *format) Type() string { return "format" }

// view is the result of a command. Its JSON form, and YAML with it, is the value
// itself by its json tags; show writes the form for people.
type view interface {
	show(w io.Writer, wide bool)
}

// nameable is a view of things that have names, which -o name writes one a line.
type nameable interface{ names() []string }

// hasNames marks a command whose views are nameable.
const hasNames = "names"

// withNames marks a command that knows -o name.
func withNames(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{hasNames: "yes"}
	return cmd
}

// checkForm refuses -o name before a command does anything, where it has no names to write.
func (s *shell) checkForm(cmd *cobra.Command, _ []string) error {
	if s.format == formatName && cmd.Annotations[hasNames] == "" {
		return usagef("%s has no -o name; the formats are %s", cmd.CommandPath(), strings.Join(formats, ", "))
	}
	return nil
}

// print writes a result to stdout in the form that the user chose.
func (s *shell) print(v view) error {
	err := s.stdout.atOnce(func(out stream) error {
		switch s.format {
		case formatJSON:
			return encodeJSON(out, v, "  ")
		case formatYAML:
			return encodeYAML(out, v)
		case formatName:
			if n, is := v.(nameable); is {
				for _, name := range oneLine(n.names()) {
					fmt.Fprintln(out, name)
				}
			}
			return nil
		default:
			text := sheet{headless: s.noHeaders}
			v.show(&text, s.format == formatWide)
			return s.paint(out, text.Bytes(), v)
		}
	})
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// printSome prints a list. If the list is empty, a note for people goes to standard error.
func (s *shell) printSome(v view, n int, what string) error {
	if err := s.print(v); err != nil || n > 0 || s.format == formatJSON || s.format == formatYAML {
		return err
	}
	if namespace := s.identity.namespace(); namespace != "" {
		what += " in " + namespace
	}
	s.say("no %s", what)
	return nil
}

// sheet is the paper of a view.
type sheet struct {
	bytes.Buffer
	headless bool // its tables have no headers
}

// encodeJSON writes one value and a line end. Rules contain "->", which must
// stay readable, so nothing is escaped for HTML.
func encodeJSON(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}

// encodeYAML writes one value. A plain scalar has no escapes: where they are needed, the
// whole is written in YAML's flow form, which has quotes everywhere. The library refuses
// some of these characters, reads others as line ends and writes the rest as they are.
func encodeYAML(w io.Writer, v any) error {
	var flow bytes.Buffer
	if err := encodeJSON(&flow, v, "  "); err != nil {
		return err
	}
	text, err := yaml.JSONToYAML(flow.Bytes())
	if err != nil || hides(flow.Bytes()) || hides(text) {
		text = escaped(flow.Bytes(), escapeYAML)
	}
	_, err = w.Write(text)
	return err
}

// table writes rows below their header, in columns. A sheet may have no headers.
func table(w io.Writer, header []string, rows [][]string) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if on, is := w.(*sheet); !is || !on.headless {
		rows = append([][]string{header}, rows...)
	}
	for _, row := range rows {
		fmt.Fprintln(columns, strings.Join(oneLine(row), "\t"))
	}
	columns.Flush()
}

// pairs writes one name and its value a line; an empty value leaves its line out.
func pairs(w io.Writer, lines [][2]string) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range lines {
		if l[1] != "" {
			fmt.Fprintln(columns, strings.Join(oneLine(l[:]), "\t"))
		}
	}
	columns.Flush()
}

// oneLine keeps what would break the columns out of the cells. They are made visible
// here, before their widths are measured.
func oneLine(cells []string) []string {
	clean := make([]string, len(cells))
	for i, c := range cells {
		words := strings.FieldsFunc(c, func(r rune) bool { return r == '\t' || r == '\n' })
		clean[i] = string(visible([]byte(strings.Join(words, " "))))
	}
	return clean
}

func namesOf[T any](all []T, name func(T) string) []string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = name(all[i])
	}
	return names
}
