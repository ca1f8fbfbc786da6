package clitest

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

// FitsATerminal checks that show writes a long list, named name, in at most 80 columns with shortened cells,
// and that its wide form shortens none.
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
