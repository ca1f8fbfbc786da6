package cmd_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityIsTested: each test that docs/SECURITY.md names exists.
func TestSecurityIsTested(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, name := range declared.FindAllStringSubmatch(string(content), -1) {
			there[name[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(page), -1)
	for _, name := range named {
		if !there[name[1]] {
			t.Errorf("docs/SECURITY.md names %s, which is no test", name[1])
		}
	}
	if len(named) < 20 {
		t.Errorf("docs/SECURITY.md names %d tests", len(named))
	}
}
