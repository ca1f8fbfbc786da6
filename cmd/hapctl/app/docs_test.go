package app

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
)

// TestRunbookNamesRealCommands: the runbook, the task pages and the pages about decisions
// name only hapctl commands that exist, with flags and arguments that these accept. It
// reads commands in sentences and in indented blocks.
func TestRunbookNamesRealCommands(t *testing.T) {
	t.Parallel()
	span := regexp.MustCompile("(?m)`(hapctl [^`]+)`|^ {4,}(hapctl [^#|\n\\\\]+)")
	named := 0
	tasks, err := filepath.Glob("../../../docs/tasks/*.md")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("%d task pages, %v", len(tasks), err)
	}
	for _, page := range append(tasks, "../../../docs/runbook.md", "../../../docs/decisions.md", "../../../docs/life.md") {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range span.FindAllStringSubmatch(string(content), -1) {
			named++
			line := command[1] + command[2]
			words := strings.Fields(line)[1:]
			root := newRoot(cli.New(strings.NewReader(""), io.Discard, io.Discard))
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

// TestDocumentsShowWhatScriptsPrint: the output that these pages show below a command is the output of a
// script, here or in folder integration, except for times.
func TestDocumentsShowWhatScriptsPrint(t *testing.T) {
	t.Parallel()
	var printed strings.Builder
	for _, pattern := range []string{"testdata/script/*.txtar", "../../../integration/testdata/*/*.txtar"} {
		scripts, err := filepath.Glob(pattern)
		if err != nil || len(scripts) == 0 {
			t.Fatalf("%s: %d scripts, %v", pattern, len(scripts), err)
		}
		for _, script := range scripts {
			text, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			printed.Write(text)
		}
	}
	told := timeless.ReplaceAllString(printed.String(), "TIME")
	for page, least := range map[string]int{"migration": 8, "network": 4, "policy": 3, "rules": 4} {
		content, err := os.ReadFile("../../../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		shown := shownOutputs(string(content))
		for command, output := range shown {
			if !strings.Contains(told, "\n"+timeless.ReplaceAllString(output, "TIME")+"\n") {
				t.Errorf("docs/%s.md: no script prints for %s\n%s", page, command, output)
			}
		}
		if len(shown) < least {
			t.Errorf("docs/%s.md shows %d outputs, want at least %d", page, len(shown), least)
		}
	}
}

// timeless matches times, which differ between runs.
var timeless = regexp.MustCompile(`20[0-9-]+T[0-9:.]+Z`)

// shownOutputs returns the outputs that a page shows, by the command above them.
func shownOutputs(page string) map[string]string {
	shown, command := map[string]string{}, ""
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		text, indented := strings.CutPrefix(line, "    ")
		between := line == "" && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ")
		switch {
		case strings.HasPrefix(text, "$ ") && indented:
			if command = text[2:]; strings.HasPrefix(command, "echo ") || strings.HasPrefix(command, "cat ") {
				command = ""
			}
		case command != "" && strings.HasSuffix(command, "\\"):
			command = command[:len(command)-1] + strings.TrimSpace(text)
		case command != "" && (indented || between):
			if shown[command] != "" {
				text = shown[command] + "\n" + text
			}
			shown[command] = text
		default:
			command = ""
		}
	}
	for command, output := range shown {
		shown[command] = strings.TrimRight(output, "\n")
	}
	return shown
}
