package document_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"go.yaml.in/yaml/v3"

	"github.com/hap-worker/hap-worker/engine/document"
)

// TestScenarios runs the stories of testdata/scenarios. Their commands:
//
//	read [private] [first=N]   prints the document as it is read, then its faults
//	under                      the same for a document, ----- and what is laid over it
//
// The fields of a document are name, list, section, number and free, where any
// name goes in free; a section has these fields again.
func TestScenarios(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		t.Parallel()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			r := document.Reader{Private: d.HasArg("private")}
			d.MaybeScanArgs(t, "first", &r.First)
			text, above, laid := strings.Cut(d.Input, "=====\n")
			n, ok := r.One([]byte(text), "write something")
			var b strings.Builder
			if ok && laid {
				var values map[string]any
				if err := yaml.Unmarshal([]byte(above), &values); err != nil {
					return err.Error()
				}
				var err error
				if n, err = n.Under(values); err != nil {
					return err.Error()
				}
			}
			if ok {
				section(&b, n)
			}
			for _, f := range r.Faults.Sorted() {
				fmt.Fprintf(&b, "%d:%d %s: %v\n", f.Line, f.Column, f.Kind, f)
			}
			return b.String()
		})
	})
}

func section(b *strings.Builder, n document.Node) {
	o, ok := n.Object("name", "list", "section", "number", "free")
	if !ok {
		return
	}
	for _, n := range o.Fields {
		switch n.Name {
		case "name":
			if text, ok := n.Text(); ok {
				fmt.Fprintf(b, "%s = %q\n", n.Path, text)
			}
		case "list":
			fmt.Fprintf(b, "%s = %q\n", n.Path, n.Texts())
		case "number":
			if number, ok := n.Whole(); ok {
				fmt.Fprintf(b, "%s = %d\n", n.Path, number)
			}
		case "section":
			section(b, n)
		case "free":
			free, _ := n.Object()
			for _, n := range free.Fields {
				fmt.Fprintf(b, "%s = %v from %s\n", n.Path, n.Value(), n.Source())
			}
		}
	}
}

// TestBounds checks that no small document takes long to read.
func TestBounds(t *testing.T) {
	t.Parallel()
	aliases := "section: &a0 {list: [a, b, c, d, e, f, g, h]}\n"
	for i := range 12 {
		aliases += fmt.Sprintf("s%d: &a%d {a: *a%d, b: *a%d, c: *a%d, d: *a%d}\n", i, i+1, i, i, i, i)
	}
	for name, text := range map[string]string{
		"aliases of aliases":       aliases,
		"an alias of itself":       "a: &a {b: *a}",
		"a merge of itself":        "a: &a {<<: *a}",
		"a list of itself":         "&a [*a, *a]",
		"a list of merges":         "a: &a {<<: [*a, *a]}",
		"too many bytes":           strings.Repeat("# a comment\n", 6<<20),
		"too deep for the library": strings.Repeat("[", 20000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r document.Reader
			for _, n := range r.All([]byte(text)) {
				n.Value()
				same := true
				rebuilt(n, 0, &same)
			}
			if len(r.Faults) == 0 || len(r.Faults) > 3 {
				t.Errorf("%d faults: %v", len(r.Faults), r.Faults)
			}
		})
	}
}

// rebuilt returns everything below n, down to a hundred levels, in the types of the YAML library; it clears
// same if the library reads a name differently.
func rebuilt(n document.Node, depth int, same *bool) any {
	switch {
	case depth == 100:
		return nil
	case n.Mapping():
		o, _ := n.Object()
		all := map[string]any{}
		for _, n := range o.Fields {
			var name any
			if err := yaml.Unmarshal([]byte(n.Name), &name); err != nil || fmt.Sprint(name) != n.Name {
				*same = false // a number such as 0x10, which the library spells another way
			}
			all[n.Name] = rebuilt(n, depth+1, same)
		}
		return all
	case n.Sequence():
		items, _ := n.List()
		all := []any{}
		for _, n := range items {
			all = append(all, rebuilt(n, depth+1, same))
		}
		return all
	}
	return n.Scalar()
}

// FuzzReader compares the reader with the YAML library: a document that the library decodes is read to the
// same values, and every fault has a place.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"", "a: 1", "a: {b: [1, x, null, true, 1.5]}", "a: &a {b: 1}\nc: {<<: *a, b: 2}", "a: 1\na: 2",
		"- 2020-01-01\n- !!str 7", "? [a]\n: b", "a: &a [*a]", "{\n\t\"a\": 1\n}", "---\n---\na: 1\n---\nb: 2", "a: !!int x",
		"&a {a: *a}", "x: &m {a: 1}\ny: {<<: [*m, {a: 2, b: 3}]}", "~: 1\n1: 2",
		"\xef\xbb\xbfa: 1", "\xff\xfea\x00:\x00\n\x00", "\xfe\xff\x00a", "a:\n\tb: 1", "a: \x01", "a: g\xe4", "n\u0430me: b\u200bc",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		r := document.Reader{}
		n, ok := r.One(content, "write something")
		if !ok && len(r.Faults) == 0 {
			t.Fatal("nothing is read, and nothing is said of it")
		}
		if ok {
			same := true
			read := rebuilt(n, 0, &same)
			if want := n.Value(); same && len(r.Faults) == 0 && fmt.Sprint(read) != fmt.Sprint(want) {
				t.Fatalf("%v is read as %v", want, read)
			}
			section(&strings.Builder{}, n)
		}
		lines := strings.Count(string(content), "\n") + strings.Count(string(content), "\r") + 2
		for _, fault := range r.Faults {
			if fault.Kind == "" || fault.Message == "" || fault.Line < 0 || fault.Line > lines || fault.Column < 0 {
				t.Fatalf("%+v of %d lines", fault, lines)
			}
		}
	})
}

// secrets are documents that have the word hunter2, most of them by mistake, where the library quotes it or could.
var secrets = []string{
	"value: *hunter2", "value: [a, *hunter2, b]", "a: &hunter2 1\nb: *hunter2x", "&hunter2 [*hunter2]", "value: &hunter2", "{<<: *hunter2}",
	"value: !hunter2 x", "value: !hunter2!x 1", "value: !<hunter2> {a: 1}", "value: !!int hunter2", "value: !!binary hunter2!", "value: !!hunter2",
	"%TAG !hunter2! x\n---\na: 1", "%hunter2\n---\na: 1", "%YAML hunter2\n---\na: 1", "--- hunter2\n...hunter2\n...",
	"value: |\nhunter2", "value: |\n    a\n  hunter2\n b", "value: >hunter2\n  a", "value:\n  a: 1\n hunter2", "value:\n\thunter2", "\tvalue: hunter2",
	"value: hunter2: x", "value: \"hunter2", "value: 'hunter2", "value: \"\\hunter2\"", "value: @hunter2", "value: `hunter2`", "value: hunter2\x01", "value: [hunter2",
	"value: {a: hunter2", "value: {hunter2: 1, hunter2: 2}", "value: \"\\xffhunter2\"", "? {hunter2: 1}\n: x", "value: {? [hunter2] : x}",
}

// FuzzPrivate checks that a reader of secrets does not quote them. Names are no secrets.
func FuzzPrivate(f *testing.F) {
	for _, content := range secrets {
		before, after, _ := strings.Cut(content, "hunter2")
		f.Add(before, after)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		r := document.Reader{Private: true}
		for _, n := range r.All([]byte(before + "hunter2" + after)) {
			n.Value()
			n.Expected("something else")
		}
		if strings.Contains(r.Faults.Error(), "hunter2") {
			t.Fatal(r.Faults)
		}
	})
}

// TestPrivate puts the secrets below a field, which the worker's files have.
func TestPrivate(t *testing.T) {
	t.Parallel()
	joined := []string{"value: {url:redis://:hunter2@x}", "value: {authorization=hunter2}", "value: {password hunter2}", "value: {pw:hunter2, pw:hunter2}"}
	for _, content := range slices.Concat(secrets, joined) {
		if strings.Contains(content, "{hunter2: ") {
			continue // names are shown
		}
		for _, text := range []string{content, "free: {a: 1}\n" + content, "free:\n  " + strings.ReplaceAll(content, "\n", "\n  ")} {
			r := document.Reader{Private: true}
			n, ok := r.One([]byte(strings.ReplaceAll(text, "value", "section")), "write something")
			if ok {
				section(&strings.Builder{}, n)
			}
			for _, fault := range r.Faults {
				if strings.Contains(fault.Error(), "hunter2") {
					t.Errorf("%q: %v", text, fault)
				}
			}
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	all := document.Faults{{File: "b", Message: "is wrong"}, {Line: 2, Path: "p", Message: "is wrong"}, {File: "b", Line: 7, Message: "too"}}
	if got, want := all.Sorted().Error(), "line 2: p: is wrong\nb: is wrong\nb:7: too"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if err := (document.Faults{}).OrNil(); err != nil {
		t.Errorf("no fault is %v", err)
	}
	if _, is := errors.AsType[document.Faults](fmt.Errorf("in passing: %w", all.OrNil())); !is {
		t.Error("faults are not found in an error")
	}
}
