package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestEveryFieldSaysItsDefault reads the package's source: each key has to document its default.
func TestEveryFieldSaysItsDefault(t *testing.T) {
	t.Parallel()
	fields := 0
	for _, file := range []string{"config.go", "sections.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			field, is := n.(*ast.Field)
			if !is || field.Tag == nil {
				return true
			}
			fields++
			if !strings.Contains(field.Doc.Text(), "Defaults to ") {
				t.Errorf("%s: %s does not say its default", file, field.Names[0])
			}
			return true
		})
	}
	if fields < len(leaves(Default())) {
		t.Errorf("%d fields were found, and there are %d keys", fields, len(leaves(Default())))
	}
}

// TestVariablesAreDistinct: each variable sets one key only.
func TestVariablesAreDistinct(t *testing.T) {
	t.Parallel()
	table := envKeys()
	if len(table.paths) != len(table.names) {
		t.Errorf("%d variables for %d keys", len(table.paths), len(table.names))
	}
	for i, name := range table.names {
		path, _ := table.find(name)
		want := append(leaves(Default()), leaf{path: "gardener.labels"})[i].path
		if path != want {
			t.Errorf("%s sets %q, want %q", name, path, want)
		}
	}
}
