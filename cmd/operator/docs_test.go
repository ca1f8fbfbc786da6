package operator

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRunbookNamesRealCommands: the runbook, the task pages and the pages about decisions
// name only hapctl commands that exist, with flags and arguments that these accept. It
// reads commands in sentences and in indented blocks.
func TestRunbookNamesRealCommands(t *testing.T) {
	t.Parallel()
	span := regexp.MustCompile("(?m)`(hapctl [^`]+)`|^ {4,}(hapctl [^#|\n\\\\]+)")
	named := 0
	tasks, err := filepath.Glob("../../docs/tasks/*.md")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("%d task pages, %v", len(tasks), err)
	}
	for _, page := range append(tasks, "../../docs/runbook.md", "../../docs/decisions.md", "../../docs/life.md") {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range span.FindAllStringSubmatch(string(content), -1) {
			named++
			line := command[1] + command[2]
			words := strings.Fields(line)[1:]
			root := newRoot(&shell{stdin: strings.NewReader(""), stdout: stream{io.Discard}, stderr: stream{io.Discard}, format: formatTable})
			cmd, rest, err := root.Find(words)
			if err != nil || cmd == root || strings.HasSuffix(cmd.Use, "COMMAND") {
				t.Errorf("%s: there is no command %q: %v", page, line, err)
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s: %q: %v", page, line, err)
			} else if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil && len(cmd.Flags().Args()) > 0 {
				t.Errorf("%s: %q: %v", page, line, err)
			}
		}
	}
	if named < 30 {
		t.Errorf("only %d commands were found", named)
	}
}
