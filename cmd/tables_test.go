package cmd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/events"
)

// Everything that depends on an error code or an event type is in the tables of packages contract and events.
// Elsewhere, a switch over codes may act on one code only. A switch over types must name all types, or all
// that allot.
func TestSwitchesLookUpInTheTables(t *testing.T) {
	t.Parallel()
	var all, allotting []string
	for _, info := range events.Types() {
		all = append(all, string(info.Type))
		if info.Allots {
			allotting = append(allotting, string(info.Type))
		}
	}
	slices.Sort(all)
	slices.Sort(allotting)
	decides := 0
	eachSwitch(t, func(at token.Position, cases []ast.Expr) {
		if codes := append(constants(cases, "engine", "Code"), constants(cases, "contract", "Code")...); len(codes) > 1 {
			t.Errorf("%s lists the codes %v: make it a column of contract.Codes", at, codes)
		}
		types := constants(cases, "events", "Type")
		for i := range types {
			types[i] = strings.ToLower(types[i])
		}
		if len(types) < 2 {
			return
		}
		decides++
		if slices.Sort(types); !slices.Equal(types, all) && !slices.Equal(types, allotting) {
			t.Errorf("%s lists the types %v, neither all (%v) nor all that allot (%v)", at, types, all, allotting)
		}
	})
	if decides < 1 {
		t.Error("no switch over types was found; the worker has one")
	}
}

// eachSwitch visits every switch of the module, except in tests, with all its cases.
func eachSwitch(t *testing.T, visit func(at token.Position, cases []ast.Expr)) {
	t.Helper()
	positions := token.NewFileSet()
	for room := range rooms {
		err := filepath.WalkDir(filepath.Join("..", room), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(positions, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, is := n.(*ast.SwitchStmt); is {
					var cases []ast.Expr
					for _, clause := range s.Body.List {
						cases = append(cases, clause.(*ast.CaseClause).List...)
					}
					visit(positions.Position(s.Pos()), cases)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// constants returns the constants of a package that the expressions name, without their common prefix.
func constants(in []ast.Expr, of, begin string) []string {
	var found []string
	for _, e := range in {
		ast.Inspect(e, func(n ast.Node) bool {
			s, is := n.(*ast.SelectorExpr)
			if !is {
				return true
			}
			if from, is := s.X.(*ast.Ident); is && from.Name == of {
				if name, is := strings.CutPrefix(s.Sel.Name, begin); is && name != "Of" && !slices.Contains(found, name) {
					found = append(found, name)
				}
			}
			return true
		})
	}
	return found
}
