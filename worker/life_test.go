package worker_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/worker/observe"
)

// constants are the values of all constants of a type in files.
func constants(t *testing.T, pattern, typeName string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != typeName || len(spec.Values) != 1 {
				return true
			}
			if text, ok := spec.Values[0].(*ast.BasicLit); ok {
				value, err := strconv.Unquote(text.Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, value)
			}
			return true
		})
	}
	slices.Sort(values)
	return values
}

var transition = regexp.MustCompile(`(?m)^  (\S+) --> ([^\s:]+)`)

// TestLifeNamesTheStates holds the diagrams of docs/life.md to the states of the
// code: none is missing, none is invented, and each can be reached.
func TestLifeNamesTheStates(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../docs/life.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := []string{}
	for _, s := range observe.Steps() {
		steps = append(steps, string(s))
	}
	slices.Sort(steps)
	for heading, want := range map[string][]string{
		"An account": constants(t, "../engine/account/account.go", "State"),
		"A runtime":  constants(t, "../engine/account/account.go", "RuntimeState"),
		"An event":   steps,
	} {
		_, text, found := strings.Cut(string(content), "\n## "+heading+"\n")
		text, _, closed := strings.Cut(text, "\n```\n")
		if !found || !closed {
			t.Errorf("there is no diagram under %q", heading)
			continue
		}
		named, reached := map[string]bool{}, map[string]bool{}
		for _, arrow := range transition.FindAllStringSubmatch(text, -1) {
			named[arrow[1]], named[arrow[2]], reached[arrow[2]] = true, true, true
		}
		delete(named, "[*]")
		if got := slices.Sorted(maps.Keys(named)); !slices.Equal(got, want) {
			t.Errorf("%s: the diagram has %v, the code %v", heading, got, want)
		}
		for _, state := range want {
			if !reached[state] {
				t.Errorf("%s: nothing leads to %s", heading, state)
			}
		}
	}
	outcomes := []observe.Outcome{
		observe.Ack, observe.DeadLetter, observe.Lost, observe.NakWithDelay, observe.Nak, observe.Served, observe.Unsettled,
	}
	for _, outcome := range outcomes {
		if !strings.Contains(string(content), "\n| `"+string(outcome)+"` |") {
			t.Errorf("the outcome %s is not told", outcome)
		}
	}
}
