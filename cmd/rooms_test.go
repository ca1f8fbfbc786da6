package cmd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/hap-worker/hap-worker/"

// rooms are the top-level folders, with the rooms or packages of the product that each may import. See
// docs/CONTRIBUTING.md.
var rooms = map[string][]string{
	"engine":   {"engine", "events/contract"},
	"events":   {"events"},
	"ledger":   {"ledger", "events", "engine"},
	"counters": {"counters", "engine"},
	"gardener": {"gardener", "engine"},
	"worker":   {"worker", "engine", "events", "ledger"},
	"deploy":   {},
	"cmd":      {"cmd", "worker", "engine", "events", "ledger", "counters", "gardener"},
}

// pure are the libraries that an engine may import in addition to the standard library's: they only compute.
// The engine uses context to tell of failed attempts, package contract only for the deadline error.
var pure = map[string][]string{
	"engine":                  {"context"},
	"events/contract":         {"context"},
	"engine/account/inmemory": {"context"},                               // its methods are those of stores, and refuse a context that has ended
	"engine/capacity":         {"context", "golang.org/x/sync/errgroup"}, // it computes many futures at once, and can be stopped
	"engine/coalesce":         {"context"},                               // it passes a caller's context to the caller's function
	"engine/network":          {"k8s.io/apimachinery/pkg/labels", "k8s.io/apimachinery/pkg/selection"},
	"engine/policy":           {"github.com/Masterminds/semver/v3"},
	"engine/compact":          {"github.com/google/uuid"},
	"engine/document":         {"go.yaml.in/yaml/v3"},
	"engine/spelling":         {"golang.org/x/text/unicode/norm", "golang.org/x/text/unicode/runenames"},
}

// vague are names that do not say what a package is for.
var vague = []string{"util", "utils", "common", "helpers", "types", "misc", "base", "lib"}

// maxLines bounds the Go files of a package, without its tests: in a larger package a newcomer has too many
// places to look in.
const maxLines = 3500

type listed struct {
	ImportPath, Dir                    string
	GoFiles                            []string
	Imports, TestImports, XTestImports []string
	Standard                           bool
}

func TestRoomsImportOnlyWhatTheyMay(t *testing.T) {
	t.Parallel()
	packages := list(t, module+"...")
	if len(packages) < len(rooms) {
		t.Fatalf("go list found %d packages, fewer than there are rooms", len(packages))
	}
	for _, p := range packages {
		room := roomOf(p.ImportPath)
		allowed, known := rooms[room]
		if !known {
			t.Errorf("%s is in no room: the folders are %v", p.ImportPath, rooms)
			continue
		}
		for _, imported := range append(append(p.Imports, p.TestImports...), p.XTestImports...) {
			if strings.HasPrefix(imported, module) && !slices.Contains(allowed, roomOf(imported)) && !slices.Contains(allowed, strings.TrimPrefix(imported, module)) {
				t.Errorf("%s imports %s: room %s may import only %v", p.ImportPath, imported, room, allowed)
			}
		}
		if slices.Contains(vague, path.Base(p.ImportPath)) {
			t.Errorf("%s: the name says nothing of what the package is for", p.ImportPath)
		}
	}
}

// If this fails, move a coherent part of the package into a new package below it.
func TestPackagesStaySmall(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, module+"...") {
		lines := 0
		for _, file := range p.GoFiles {
			content, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			lines += bytes.Count(content, []byte("\n"))
		}
		if lines > maxLines {
			t.Errorf("%s has %d lines, the bound is %d", strings.TrimPrefix(p.ImportPath, module), lines, maxLines)
		}
	}
}

// The engine only decides: it does not connect, wait or log.
func TestEngineIsPure(t *testing.T) {
	t.Parallel()
	for _, p := range append(list(t, module+"engine/..."), list(t, module+"events/contract")...) {
		if strings.HasSuffix(p.ImportPath, "test") {
			continue // suites are run by tests, and read their stories from files
		}
		for _, imported := range p.Imports {
			switch first, _, _ := strings.Cut(imported, "/"); {
			case imported == "net/netip", slices.Contains(pure[strings.TrimPrefix(p.ImportPath, module)], imported):
			case imported == "os", imported == "net", imported == "log", imported == "log/slog", imported == "context", first == "net":
				t.Errorf("%s imports %s: the engine has no I/O, no logging and nothing to cancel", p.ImportPath, imported)
			case strings.Contains(first, ".") && !strings.HasPrefix(imported, module):
				t.Errorf("%s imports %s: the engine uses the standard library", p.ImportPath, imported)
			}
		}
	}
}

func list(t *testing.T, pattern string) []listed {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,Imports,TestImports,XTestImports,Standard", pattern)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func roomOf(importPath string) string {
	room, _, _ := strings.Cut(strings.TrimPrefix(importPath, module), "/")
	return room
}
