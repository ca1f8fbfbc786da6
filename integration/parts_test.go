package integration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each test belongs to one part of parts.txt, by which `make integration OF=<part>` runs it.
func TestParts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("parts.txt")
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]*regexp.Regexp{}
	for line := range strings.Lines(string(text)) {
		name, tests, _ := strings.Cut(strings.TrimSpace(line), " ")
		parts[name] = regexp.MustCompile(tests)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range regexp.MustCompile(`(?m)^func (Test\w+)\(t `).FindAllStringSubmatch(string(source), -1) {
			var of []string
			for name, tests := range parts {
				if tests.MatchString(test[1]) {
					of = append(of, name)
				}
			}
			if len(of) != 1 && test[1] != "TestParts" {
				t.Errorf("%s of %s is in the parts %q of parts.txt, not in one", test[1], file, of)
			}
		}
	}
}
