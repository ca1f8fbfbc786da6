package integration_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
