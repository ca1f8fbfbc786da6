package operator

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestRunbookNamesRealCommands: every command of hapctl that the runbook and the pages
// about decisions name exists and takes the flags and arguments that it is given there.
func TestRunbookNamesRealCommands(t *testing.T) {
	t.Parallel()
	span := regexp.MustCompile("`(hapctl [^`]+)`")
	named := 0
	for _, page := range []string{"runbook.md", "decisions.md", "life.md"} {
		content, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range span.FindAllStringSubmatch(string(content), -1) {
			named++
			words := strings.Fields(command[1])[1:]
			root := newRoot(&shell{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, format: formatTable})
			cmd, rest, err := root.Find(words)
			if err != nil || cmd == root || strings.HasSuffix(cmd.Use, "COMMAND") {
				t.Errorf("%s: there is no command %q: %v", page, command[1], err)
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s: %q: %v", page, command[1], err)
			} else if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil && len(cmd.Flags().Args()) > 0 {
				t.Errorf("%s: %q: %v", page, command[1], err)
			}
		}
	}
	if named < 30 {
		t.Errorf("only %d commands were found", named)
	}
}
