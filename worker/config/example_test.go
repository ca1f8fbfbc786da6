package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/document"
)

const example = "../../deploy/config.example.yaml"

// TestExampleIsTheDefaults: the example has the default values, both as it is and with its commented-out keys.
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

// TestExampleNamesEveryKey: the example has every key, below a comment of its section.
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

// TestDocumentationNamesEveryKey: docs/configuration.md has every key.
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

// uncommented returns the example with its commented-out keys.
func uncommented(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	return commentedKey.ReplaceAllString(string(content), "$1$2")
}
