package cmd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// mostPorts bounds the exported interfaces of a package: one that asks for more does several things.
const mostPorts = 5

// pathOfAnEvent are the packages that each event meets, and beside them nothing of the program's configuration
// or of its page.
var pathOfAnEvent = []string{"worker", "worker/ranges", "worker/dispatch", "worker/source", "worker/serving", "worker/waitlist", "worker/dirtying", "worker/bulkhead", "worker/fence"}

// TestPorts: a package has few exported interfaces, and each of them is asked for by itself, not only as a part
// of another one.
func TestPorts(t *testing.T) {
	t.Parallel()
	packages := list(t, module+"...")
	ports, embedded, used := map[string][]string{}, map[string]bool{}, map[string]bool{}
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module)
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, port := range portsOf(f) {
				ports[name] = append(ports[name], name+"."+port)
			}
			references(f, name, embedded, used)
		}
	}
	if len(ports) < 15 {
		t.Fatalf("found exported interfaces in %d packages: the tree is not here", len(ports))
	}
	for name, all := range ports {
		if len(all) > mostPorts {
			t.Errorf("%s has %d exported interfaces, the bound is %d", name, len(all), mostPorts)
		}
		for _, port := range all {
			if embedded[port] && !used[port] {
				t.Errorf("%s is only a part of other interfaces: fold it into them", port)
			}
		}
	}
}

// TestThePathKnowsNoConfiguration: what an event meets is told its terms, and does not read the program's
// configuration.
func TestThePathKnowsNoConfiguration(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range list(t, module+"worker/...") {
		for _, on := range pathOfAnEvent {
			if p.ImportPath != module+on {
				continue
			}
			found++
			for _, imported := range p.Imports {
				if imported == module+"worker/config" || imported == module+"worker/page" {
					t.Errorf("%s imports %s", on, imported)
				}
			}
		}
	}
	if found != len(pathOfAnEvent) {
		t.Errorf("found %d of %d packages", found, len(pathOfAnEvent))
	}
}

// portsOf returns the names of the exported interfaces that a file declares.
func portsOf(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		g, is := d.(*ast.GenDecl)
		if !is {
			continue
		}
		for _, spec := range g.Specs {
			if s, is := spec.(*ast.TypeSpec); is && s.Name.IsExported() {
				if _, is := s.Type.(*ast.InterfaceType); is {
					names = append(names, s.Name.Name)
				}
			}
		}
	}
	return names
}

// references notes which names a file of a package embeds in interfaces, and which it uses otherwise, each
// with the path of its package.
func references(f *ast.File, of string, embedded, used map[string]bool) {
	imported := map[string]string{}
	for _, i := range f.Imports {
		from := strings.Trim(i.Path.Value, `"`)
		if rest, is := strings.CutPrefix(from, module); is {
			name := path.Base(rest)
			if i.Name != nil {
				name = i.Name.Name
			}
			imported[name] = rest
		}
	}
	full := func(e ast.Expr) string {
		switch x := e.(type) {
		case *ast.Ident:
			return of + "." + x.Name
		case *ast.SelectorExpr:
			if from, is := x.X.(*ast.Ident); is && imported[from.Name] != "" {
				return imported[from.Name] + "." + x.Sel.Name
			}
		}
		return ""
	}
	parts := map[ast.Node]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.TypeSpec:
			parts[x.Name] = true
		case *ast.InterfaceType:
			for _, m := range x.Methods.List {
				if len(m.Names) == 0 {
					embedded[full(m.Type)] = true
					parts[m.Type] = true
					if s, is := m.Type.(*ast.SelectorExpr); is {
						parts[s.Sel], parts[s.X] = true, true
					}
				}
			}
		case *ast.SelectorExpr:
			if !parts[x] {
				used[full(x)] = true
			}
			parts[x.Sel] = true // it is no name of this package
		case *ast.Ident:
			if !parts[x] {
				used[full(x)] = true
			}
		}
		return true
	})
}
