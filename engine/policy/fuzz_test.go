package policy_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/policy"
)

// seeds are the inputs of a command in the scenarios.
func seeds(f *testing.F, command string) {
	f.Helper()
	files, err := filepath.Glob("testdata/scenarios/*")
	if err != nil || len(files) == 0 {
		f.Fatalf("no scenarios: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "\n\n") {
			first, rest, _ := strings.Cut(part, "\n")
			if input, _, found := strings.Cut(rest, "\n----"); found && first == command {
				f.Add([]byte(input))
			}
		}
	}
}

// told checks that an error is a list of faults with their places, each on one line.
func told(t *testing.T, content []byte, err error) {
	t.Helper()
	faults, is := errors.AsType[document.Faults](err)
	if !is || len(faults) == 0 {
		t.Fatalf("%T: %v", err, err)
	}
	lines := strings.Count(string(content), "\n") + strings.Count(string(content), "\r") + 2
	for _, fault := range faults {
		if fault.Kind == "" || fault.Line < 0 || fault.Line > lines {
			t.Fatalf("%+v of %d lines", fault, lines)
		}
		if strings.ContainsFunc(fault.Error(), func(r rune) bool { return r == '\n' || unicode.IsControl(r) && r != '\t' }) {
			t.Fatalf("not on one line: %q", fault.Error())
		}
	}
}

func FuzzPolicy(f *testing.F) {
	seeds(f, "policy")
	catalog := crowd(f, 100)
	f.Fuzz(func(t *testing.T, content []byte) {
		p, err := policy.Parse(content)
		if err != nil {
			told(t, content, err)
			return
		}
		p.Warnings()
		if d, err := policy.NewSnapshot(p, catalog, available).Resolve(wanted); err == nil && (d.RuleKey == "" || d.Matching[0] != d.Picked.Ref) {
			t.Fatalf("%+v", d)
		}
	})
}

func FuzzManifest(f *testing.F) {
	seeds(f, "catalog")
	seeds(f, "tree")
	anything, err := policy.Parse([]byte("apiVersion: 0.1.0\nrules: {cap.*: {oneOf: [{}]}}"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		tree := fstest.MapFS{"implementation/a.yaml": {Data: content}}
		if _, err := policy.LoadTree(tree); err != nil {
			told(t, content, err)
		}
		catalog, err := policy.LoadFile("catalog.yaml", content)
		if err != nil {
			told(t, content, err)
			return
		}
		snapshot := policy.NewSnapshot(anything, catalog, nil)
		for _, i := range catalog.Interfaces() {
			d, err := snapshot.Resolve(i)
			if err != nil {
				_ = err.Error()
				continue
			}
			if im, found := catalog.Implementation(d.Picked.Ref); !found || im != d.Picked {
				t.Fatalf("%s is not found", d.Picked)
			}
		}
	})
}

func FuzzTypeInstances(f *testing.F) {
	seeds(f, "instances")
	f.Fuzz(func(t *testing.T, content []byte) {
		if _, err := policy.ParseTypeInstances(content); err != nil {
			told(t, content, err)
		}
	})
}
