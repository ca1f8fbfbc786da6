package worker_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// TestAttemptChangesByItsMethods holds that only attempt.go assigns fields of an attempt, so that its methods are all
// that can happen to one.
func TestAttemptChangesByItsMethods(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	for _, file := range files {
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			for _, at := range assignments(f) {
				if file == "attempt.go" {
					own++
				} else {
					t.Errorf("%s: %s assigns a field of an attempt: use a method of attempt.go", set.Position(at), f.Name.Name)
				}
			}
		}
	}
	if own < 10 {
		t.Errorf("found %d assignments in attempt.go, too few: the test does not see them", own)
	}
}

// assignments returns where a function assigns a field of an attempt, at any depth.
func assignments(f *ast.FuncDecl) (found []token.Pos) {
	attempts := map[string]bool{}
	fields := f.Type.Params.List
	if f.Recv != nil {
		fields = append(fields, f.Recv.List...)
	}
	for _, field := range fields {
		star, ok := field.Type.(*ast.StarExpr)
		if !ok {
			continue
		}
		if of, ok := star.X.(*ast.Ident); ok && of.Name == "attempt" {
			for _, name := range field.Names {
				attempts[name.Name] = true
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if name, ok := left.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) && makesAttempt(n.Rhs[i]) {
					attempts[name.Name] = true
				}
				if root, field := rootOf(left); field && attempts[root] {
					found = append(found, left.Pos())
				}
			}
		case *ast.IncDecStmt:
			if root, field := rootOf(n.X); field && attempts[root] {
				found = append(found, n.Pos())
			}
		}
		return true
	})
	return found
}

// makesAttempt reports whether an expression is a new attempt: of begin, beginServed, or a literal.
func makesAttempt(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		method, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (method.Sel.Name == "begin" || method.Sel.Name == "beginServed")
	case *ast.UnaryExpr:
		literal, ok := e.X.(*ast.CompositeLit)
		if !ok {
			return false
		}
		of, ok := literal.Type.(*ast.Ident)
		return ok && of.Name == "attempt"
	default:
		return false
	}
}

// rootOf returns the variable that an expression selects from, and whether it selects a field at all.
func rootOf(e ast.Expr) (name string, field bool) {
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			e, field = x.X, true
		case *ast.IndexExpr:
			e = x.X
		case *ast.Ident:
			return x.Name, field
		default:
			return "", false
		}
	}
}
