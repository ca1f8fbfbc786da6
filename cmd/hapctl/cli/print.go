package cli

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

// Format is the value of --output.
type Format string

// The formats of all commands, and formatName, which only some commands have (see WithNames).
const (
	FormatTable Format = "table"
	FormatWide  Format = "wide"
	FormatJSON  Format = "json"
	FormatYAML  Format = "yaml"
	formatName  Format = "name"
)

// Formats are the formats of all commands. allForms also has formatName.
var (
	Formats  = []string{string(FormatTable), string(FormatWide), string(FormatJSON), string(FormatYAML)}
	allForms = append(slices.Clone(Formats), string(formatName))
)

// String returns the format.
func (f *Format) String() string { return string(*f) }

// Set accepts one of the formats.
func (f *Format) Set(text string) error {
	if !slices.Contains(allForms, text) {
		return fmt.Errorf("the formats are %s", strings.Join(allForms, ", "))
	}
	*f = Format(text)
	return nil
}

// Type names the flag's value in help texts.
func (f *Format) Type() string { return "format" }

// View is the result of a command. Its JSON and YAML forms are the value itself by its json tags. Show writes
// the form for people.
type View interface {
	Show(w io.Writer, wide bool)
}

// nameable is a view of things with names. With -o name, each name is a line.
type nameable interface{ Names() []string }

// HasNames is the annotation of a command whose views are nameable.
const HasNames = "names"

// WithNames marks a command that supports -o name.
func WithNames(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{HasNames: "yes"}
	return cmd
}

// checkForm refuses -o name for a command without names, before the command does anything.
func (s *Shell) checkForm(cmd *cobra.Command, _ []string) error {
	if s.Format == formatName && cmd.Annotations[HasNames] == "" {
		return Usagef("%s has no -o name; the formats are %s", cmd.CommandPath(), strings.Join(Formats, ", "))
	}
	return nil
}

// Print writes a result to stdout in the form that the user chose.
func (s *Shell) Print(v View) error {
	err := s.Stdout.AtOnce(func(out Stream) error {
		switch s.Format {
		case FormatJSON:
			return EncodeJSON(out, v, "  ")
		case FormatYAML:
			return EncodeYAML(out, v)
		case formatName:
			if n, is := v.(nameable); is {
				for _, name := range oneLine(n.Names()) {
					fmt.Fprintln(out, name)
				}
			}
			return nil
		default:
			text := Sheet{Headless: s.noHeaders}
			v.Show(&text, s.Format == FormatWide)
			return s.Paint(out, text.Bytes(), v)
		}
	})
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// PrintSome prints a list of n elements. If it is empty, a note for people goes to standard error, except in
// the formats JSON and YAML.
func (s *Shell) PrintSome(v View, n int, what string) error {
	if err := s.Print(v); err != nil || n > 0 || s.Format == FormatJSON || s.Format == FormatYAML {
		return err
	}
	if namespace := s.identity.namespace(); namespace != "" {
		what += " in " + namespace
	}
	s.Say("no %s", what)
	return nil
}

// Sheet is the buffer into which a view is written.
type Sheet struct {
	bytes.Buffer
	Headless bool // tables have no headers
}

// EncodeJSON writes one value and a line end. Rules contain "->", which must
// stay readable, so nothing is escaped for HTML.
func EncodeJSON(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}

// EncodeYAML writes one value. A plain scalar of YAML cannot contain escapes: if the value needs any, it is
// written in YAML's flow form, which quotes all strings. The library would refuse some of these characters,
// read others as line ends and write the rest as they are.
func EncodeYAML(w io.Writer, v any) error {
	var flow bytes.Buffer
	if err := EncodeJSON(&flow, v, "  "); err != nil {
		return err
	}
	text, err := yaml.JSONToYAML(flow.Bytes())
	if err != nil || hides(flow.Bytes()) || hides(text) {
		text = escaped(flow.Bytes(), escapeYAML)
	}
	_, err = w.Write(text)
	return err
}

// Table writes rows below their header, in columns. It omits the header if w is a Headless sheet.
func Table(w io.Writer, header []string, rows [][]string) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if on, is := w.(*Sheet); !is || !on.Headless {
		rows = append([][]string{header}, rows...)
	}
	for _, row := range rows {
		fmt.Fprintln(columns, strings.Join(oneLine(row), "\t"))
	}
	columns.Flush()
}

// Pairs writes a name and its value per line. It omits lines with an empty value.
func Pairs(w io.Writer, lines [][2]string) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range lines {
		if l[1] != "" {
			fmt.Fprintln(columns, strings.Join(oneLine(l[:]), "\t"))
		}
	}
	columns.Flush()
}

// oneLine replaces tabs and line ends in cells, which would break the columns. It also escapes hidden
// characters, since the widths are measured afterwards.
func oneLine(cells []string) []string {
	clean := make([]string, len(cells))
	for i, c := range cells {
		words := strings.FieldsFunc(c, func(r rune) bool { return r == '\t' || r == '\n' })
		clean[i] = string(visible([]byte(strings.Join(words, " "))))
	}
	return clean
}

// NamesOf returns the name of each element.
func NamesOf[T any](all []T, name func(T) string) []string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = name(all[i])
	}
	return names
}
