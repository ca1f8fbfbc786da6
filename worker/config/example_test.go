package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/document"
)

const example = "../../deploy/config.example.yaml"

// TestExampleIsTheDefaults loads the example as it is, and once more with the
// sections and keys that are commented out.
func TestExampleIsTheDefaults(t *testing.T) {
	t.Parallel()
	c, err := Load(example, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.String() != Default().String() {
		t.Errorf("the example is:\n%s\nthe defaults are:\n%s", c, Default())
	}
	if len(c.Warnings()) != 0 {
		t.Errorf("the example warns: %v", c.Warnings())
	}
	whole := uncommented(t)
	if c, err = parse("example", []byte(whole), nil); err != nil {
		t.Fatal(err)
	}
	if c.String() != Default().String() {
		t.Errorf("the example without comment signs is:\n%s\nthe defaults are:\n%s", c, Default())
	}
}

// TestExampleNamesEveryKey holds that the example has every key, each below a comment of its section.
func TestExampleNamesEveryKey(t *testing.T) {
	t.Parallel()
	var r document.Reader
	tree, ok := r.One([]byte(uncommented(t)), "")
	if !ok {
		t.Fatal(r.Faults)
	}
	lines := map[string]int{}
	decode(tree, lines)
	for _, leaf := range leaves(Default()) {
		if lines[leaf.path] == 0 {
			t.Errorf("the example lacks %s", leaf.path)
		}
	}
}

// TestDocumentationNamesEveryKey holds the same for docs/configuration.md.
func TestDocumentationNamesEveryKey(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range leaves(Default()) {
		if !strings.Contains(string(text), "| `"+leaf.path+"` |") {
			t.Errorf("docs/configuration.md lacks %s", leaf.path)
		}
	}
}

var commentedKey = regexp.MustCompile(`(?m)^( *)# (( *)[a-z][a-zA-Z]*:( .*)?|  # .*)$`)

// uncommented is the example with its commented-out keys put in force.
func uncommented(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	return commentedKey.ReplaceAllString(string(content), "$1$2")
}
