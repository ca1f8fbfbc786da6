package cmd_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// measured is the line above a table of docs/performance.md: command, commits, machine.
var measured = regexp.MustCompile("^Measured: `((?:make|go test) [^`]+)`, commits? [0-9a-f]{7,}(?: (?:to|and) [0-9a-f]{7,})?, .+\\.$")

// TestFiguresNameTheirOrigin: above each table of docs/performance.md stand the command that measures its
// figures, the commit and the machine. What make is to run is a target of the Makefile.
func TestFiguresNameTheirOrigin(t *testing.T) {
	t.Parallel()
	page, makefile := read(t, "../docs/performance.md"), read(t, "../Makefile")
	tables, above := 0, "" // the last line with text
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "|") && !strings.HasPrefix(above, "|") {
			tables++
			found := measured.FindStringSubmatch(above)
			if found == nil {
				t.Errorf("above the table %q stands %q, and not what measures it: want %s", line, above, measured)
			} else if target, is := strings.CutPrefix(found[1], "make "); is && !strings.Contains(makefile, "\n"+target+":") {
				t.Errorf("the Makefile has no target %q, which docs/performance.md names", target)
			}
		}
		if line != "" {
			above = line
		}
	}
	if tables < 8 {
		t.Errorf("docs/performance.md has %d tables", tables)
	}
	for line, fits := range map[string]bool{
		"Measured: `make bench`, commit 7e9396c, two cores.":              true,
		"Measured: `go test ./events`, commits 7e9396c to b4dd6fa, busy.": true,
		"Measured: `make bench`, two cores.":                              false,
		"Measured: commit 7e9396c, two cores.":                            false,
		"Measured: `make bench`, commit 7e9396c.":                         false,
		"Medians of seven rounds (`make bench-system`):":                  false,
	} {
		if measured.MatchString(line) != fits {
			t.Errorf("%q fits: %v", line, !fits)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
