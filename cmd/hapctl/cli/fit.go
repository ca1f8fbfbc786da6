package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// LineWidth is the greatest width of a table in columns, unless the user asks for the wide form.
	LineWidth = 80
	// leastCell is the least width of a shortened cell: enough to tell two UUIDs apart.
	leastCell = 9
	// ColumnGap is how many blanks are between two columns.
	ColumnGap = 2
)

// Fitted writes a table of at most LineWidth columns. If it would be wider, cells in the columns of shorten,
// in this order, end with "…"; -o wide shows them in full. Name a column last or not at all if a user needs
// its cells in full, such as the name that the next command takes.
func Fitted(w io.Writer, header []string, rows [][]string, shorten ...string) {
	all := make([][]string, 0, len(rows)+1)
	for _, row := range append([][]string{header}, rows...) {
		all = append(all, oneLine(row))
	}
	widths := make([]int, len(header))
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	over := ColumnGap*(len(header)-1) - LineWidth
	for _, width := range widths {
		over += width
	}
	for _, name := range shorten {
		column := slices.Index(header, name)
		width := max(widths[column]-max(over, 0), min(widths[column], max(leastCell, len(name))))
		over -= widths[column] - width
		for _, row := range all {
			row[column] = shortened(row[column], width)
		}
	}
	Table(w, all[0], all[1:])
}

// shortened returns text, or its beginning with "…" if it has more than width characters.
func shortened(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// Folded writes a name and a text in lines of at most LineWidth columns. Lines after the first one are
// indented.
func Folded(w io.Writer, name, text string) {
	const indent = "  "
	fmt.Fprintln(w, strings.Join(Fold(name+" "+text, LineWidth-len(indent)), "\n"+indent))
}

// FoldedPair returns lines for Pairs, of at most LineWidth columns if name is the longest of the names.
func FoldedPair(name, text string) [][2]string {
	var lines [][2]string
	for i, part := range Fold(text, LineWidth-utf8.RuneCountInString(name)-ColumnGap) {
		if i > 0 {
			name = ""
		}
		lines = append(lines, [2]string{name, part})
	}
	return lines
}

// Fold wraps a text into lines of at most width characters. A longer word has a line to itself.
func Fold(text string, width int) []string {
	words := strings.Fields(string(visible([]byte(text))))
	lines := slices.Clone(words[:min(1, len(words))])
	for _, word := range words[len(lines):] {
		last := &lines[len(lines)-1]
		if utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, word)
		} else {
			*last += " " + word
		}
	}
	return lines
}
