package integration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestDecisionsAreReal: what docs/decisions.md shows of explain equals what the command
// printed in one of the stories, but for times.
func TestDecisionsAreReal(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/decisions.md")
	if err != nil {
		t.Fatal(err)
	}
	stories, err := filepath.Glob("testdata/hapctl-why/explain-*.txtar")
	if err != nil || len(stories) == 0 {
		t.Fatalf("%d stories, %v", len(stories), err)
	}
	var printed strings.Builder
	for _, story := range stories {
		text, err := os.ReadFile(story)
		if err != nil {
			t.Fatal(err)
		}
		printed.Write(text)
	}
	blocks := strings.Split(string(page), "\n```text\n")[1:]
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "\n```\n")
		if !strings.Contains(printed.String(), "\n"+steady(block)+"\n") {
			t.Errorf("no story prints\n%s", block)
		}
	}
	if len(blocks) < 5 {
		t.Errorf("the page shows %d outputs", len(blocks))
	}
}

// TestRunbookIsReal: each section of docs/runbook.md shows one command with what the scene of the alert printed,
// and one page with texts that the scene saw there. Within an output "…" stands for anything that is left out, in
// a line or of lines.
func TestRunbookIsReal(t *testing.T) {
	t.Parallel()
	runbook, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(runbook), "\n## ")[1:]
	scenes, err := filepath.Glob("testdata/runbook/*.txtar")
	if err != nil || len(scenes) != len(sections) {
		t.Errorf("%d scenes for %d sections, %v", len(scenes), len(sections), err)
	}
	for _, section := range sections {
		alert, text, _ := strings.Cut(section, "\n")
		t.Run(alert, func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile("testdata/runbook/" + alert + ".txtar")
			if err != nil {
				t.Fatal(err)
			}
			script := string(archive.Comment)
			commands := outputBlock.FindAllStringSubmatch(text, -1)
			if len(commands) != 1 {
				t.Fatalf("%d commands", len(commands))
			}
			command, output := commands[0][1], commands[0][2]
			if want := answering(t, script); !strings.HasSuffix(command, want) {
				t.Errorf("the scene asks %s, the runbook %s", want, command)
			}
			shown := strings.Split(regexp.QuoteMeta(sameSpace(plain(output))), "…")
			for _, file := range archive.Files {
				if file.Name == "answer.txt" && !regexp.MustCompile("(?s)"+strings.Join(shown, ".*")).MatchString(sameSpace(string(file.Data))) {
					t.Errorf("the scene prints\n%s", file.Data)
				}
			}
			pages := pageLine.FindAllStringSubmatch(text, -1)
			if len(pages) != 1 {
				t.Fatalf("%d pages", len(pages))
			}
			quoted := quotation.FindAllStringSubmatch(pages[0][2], -1)
			for _, quote := range quoted {
				if path := pages[0][1]; !strings.Contains(script, "shows "+path+" '"+quote[1]+"'") && !strings.Contains(script, "shows '"+path+"' '"+quote[1]+"'") {
					t.Errorf("the scene does not see %q at %s", quote[1], path)
				}
			}
			if len(quoted) == 0 {
				t.Error("nothing is said to stand on the page")
			}
		})
	}
}

var (
	outputBlock = regexp.MustCompile("(?s)\n```text\n\\$ ([^\n]+)\n(.*?)\n```\n")
	pageLine    = regexp.MustCompile("(?s)\\*\\*Page\\*\\* `([^`]+)`(.*?)\n\n")
	quotation   = regexp.MustCompile(`(?s)\*([^*]+)\*`)
	sceneAnswer = regexp.MustCompile(`(?m)^(prints \d+|worker \d+|logs) (.+)\n(?:cmp stdout answer.txt)$`)
)

// answering returns the command of a scene whose output answers its alert.
func answering(t *testing.T, script string) string {
	t.Helper()
	found := sceneAnswer.FindAllStringSubmatch(script, -1)
	if len(found) != 1 {
		t.Fatalf("the scene asks %d times", len(found))
	}
	kind, _, _ := strings.Cut(found[0][1], " ")
	words := strings.ReplaceAll(found[0][2], "$CONFIG", "hap-worker.yaml")
	switch kind {
	case "worker":
		return "hap-worker " + words
	case "logs":
		return "| grep " + words
	}
	return words
}

// sameSpace collapses the spaces of each line, whose columns are as wide as the times in them.
func sameSpace(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}
