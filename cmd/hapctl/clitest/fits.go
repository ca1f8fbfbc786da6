package clitest

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

// FitsATerminal holds the form that show writes of a long list, named name, to 80 columns with the beginnings
// of what is longer, and its wide form to whole words.
func FitsATerminal(t *testing.T, name string, show func(w io.Writer, wide bool)) {
	t.Helper()
	var narrow, wide bytes.Buffer
	show(&narrow, false)
	for line := range strings.Lines(narrow.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > 80 {
			t.Errorf("%s: %d columns: %s", name, n, line)
		}
	}
	show(&wide, true)
	if strings.Contains(wide.String(), "…") || !strings.Contains(narrow.String(), "…") {
		t.Errorf("%s: narrow\n%s\nwide\n%s", name, &narrow, &wide)
	}
}
