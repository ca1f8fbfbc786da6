package worker_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// functions returns the names of the functions and methods in a file of this package.
func functions(t *testing.T, file string) []string {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

var (
	pathRow = regexp.MustCompile("(?m)^\\| [a-z]+ \\| `([a-z]+\\.go)` \\| ([^|]+) \\|")
	code    = regexp.MustCompile("`([A-Za-z.]+)`")
)

// The functions that handle a provision are the table of docs/architecture.md, and their number is bounded.
func TestPathIsThatOfTheDocument(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "\n### Where each step is\n")
	table, claims, found := strings.Cut(section, "\nA new claim also runs")
	if !found {
		t.Fatal("there is no table")
	}
	files, steps := map[string]bool{}, 0
	for _, row := range pathRow.FindAllStringSubmatch(table, -1) {
		files[row[1]] = true
		there := functions(t, row[1])
		for _, name := range code.FindAllStringSubmatch(row[2], -1) {
			steps++
			if !slices.Contains(there, name[1]) {
				t.Errorf("%s has no function %s", row[1], name[1])
			}
		}
	}
	if len(files) != 12 || steps != 44 {
		t.Errorf("the table has %d functions in %d files; the text says 44 in 12, and at most 45 in 12 is the goal", steps, len(files))
	}
	claims, _, _ = strings.Cut(claims, "\n\n")
	there := slices.Concat(functions(t, "claim.go"), functions(t, "provision.go"), functions(t, "record.go"))
	for _, name := range code.FindAllStringSubmatch(claims, -1) {
		if !strings.HasSuffix(name[1], ".go") && !slices.Contains(there, name[1]) {
			t.Errorf("a new claim has no function %s", name[1])
		}
	}
}
