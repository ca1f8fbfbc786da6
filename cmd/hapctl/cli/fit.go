package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// LineWidth is the width in characters into which tables are fitted, unless the user asks for the wide form.
	LineWidth = 80
	// leastCell is the least width of a shortened cell: enough to tell two UUIDs apart.
	leastCell = 9
	// leastText is the least width of a text in its column.
	leastText = 30
	// ColumnGap is how many blanks are between two columns.
	ColumnGap = 2
)

// Fitted writes a table. If a line would have more than LineWidth characters, it shortens cells, which then
// end with "…": first in the first column of shorten, then in the next, until the lines fit or all columns
// of shorten are at their least width. -o wide shows the cells in full. Each name in shorten must be in header.
// Name a column last or not at all if a user needs its cells in full, such as the name that the next command
// takes.
func Fitted(w io.Writer, header []string, rows [][]string, shorten ...string) {
	all := make([][]string, 0, len(rows)+1)
	for _, row := range append([][]string{header}, rows...) {
		all = append(all, oneLine(row))
	}
	widths, over := widthsOf(all)
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

// widthsOf returns the width of each column, and by how many characters the table is wider than LineWidth.
func widthsOf(rows [][]string) (widths []int, over int) {
	widths = make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	over = ColumnGap*(len(widths)-1) - LineWidth
	for _, width := range widths {
		over += width
	}
	return widths, over
}

// FittedText is Fitted for a table whose last column is a text. If the table would be too wide, the text is
// folded in its column, or below the row if the column would be too narrow; only then cells are shortened. With
// wide, each row is one line in full.
func FittedText(w io.Writer, wide bool, header []string, rows [][]string, shorten ...string) {
	last := len(header) - 1
	all, cut := [][]string{oneLine(header)}, [][]string{}
	for _, row := range rows {
		all, cut = append(all, oneLine(row)), append(cut, row[:last])
	}
	widths, over := widthsOf(all)
	if wide || over <= 0 {
		Table(w, header, rows)
		return
	}
	if room := widths[last] - over; room >= leastText {
		folded, fits := [][]string{}, true
		for _, row := range all[1:] {
			for _, part := range Fold(row[last], room) {
				folded, fits = append(folded, append(row[:last:last], part)), fits && utf8.RuneCountInString(part) <= room
				row = make([]string, last+1)
			}
		}
		if fits {
			Table(w, header, folded)
			return
		}
	}
	on, is := w.(*Sheet)
	sheet := Sheet{Headless: is && on.Headless}
	Fitted(&sheet, header[:last], cut, shorten...)
	if sheet.Headless {
		all = all[1:]
	}
	for line := range strings.Lines(sheet.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
		for _, part := range Fold(all[0][last], LineWidth-ColumnGap) {
			fmt.Fprintln(w, strings.Repeat(" ", ColumnGap)+part)
		}
		all = all[1:]
	}
}

// FittedUnless is Fitted, or Table if wide.
func FittedUnless(w io.Writer, wide bool, header []string, rows [][]string, shorten ...string) {
	if wide {
		Table(w, header, rows)
		return
	}
	Fitted(w, header, rows, shorten...)
}

// shortened returns text, or its beginning with "…" if it has more than width characters.
func shortened(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// Folded writes a name and a text, folded by Fold into lines of LineWidth characters. Lines after the first one are
// indented.
func Folded(w io.Writer, name, text string) {
	const indent = "  "
	fmt.Fprintln(w, strings.Join(Fold(name+" "+text, LineWidth-len(indent)), "\n"+indent))
}

// FoldedPair returns lines for Pairs, of at most LineWidth characters if name is the longest of the names.
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
