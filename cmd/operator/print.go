package operator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"
)

// format is the value of --output.
type format string

const (
	formatTable format = "table"
	formatWide  format = "wide"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
)

var formats = []string{string(formatTable), string(formatWide), string(formatJSON), string(formatYAML)}

// String, Set and Type make it a flag.
func (f *format) String() string { return string(*f) }

// Set takes one of the formats.
func (f *format) Set(text string) error {
	if !slices.Contains(formats, text) {
		return fmt.Errorf("the formats are %s", strings.Join(formats, ", "))
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

// print writes a result to stdout in the form that the user chose.
func (s *shell) print(v view) error {
	var out bytes.Buffer
	var err error
	switch s.format {
	case formatJSON:
		err = encodeJSON(&out, v, "  ")
	case formatYAML:
		err = encodeYAML(&out, v)
	default:
		var text bytes.Buffer
		v.show(&text, s.format == formatWide)
		out.Write(s.paint(text.Bytes(), v))
	}
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	if _, err := s.stdout.Write(out.Bytes()); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// encodeJSON writes one value and a line end. Rules contain "->", which must
// stay readable, so nothing is escaped for HTML.
func encodeJSON(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}

func encodeYAML(w io.Writer, v any) error {
	text, err := yaml.Marshal(v)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// table writes rows below their header, in columns.
func table(w io.Writer, header []string, rows [][]string) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
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

// oneLine keeps what would break the columns out of the cells.
func oneLine(cells []string) []string {
	clean := make([]string, len(cells))
	for i, c := range cells {
		clean[i] = strings.Join(strings.FieldsFunc(c, func(r rune) bool { return strings.ContainsRune("\t\r\n\f\v", r) }), " ")
	}
	return clean
}
