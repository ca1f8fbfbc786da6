package cmd_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// grouped is the prefix of the modules that share one row of docs/dependencies.md.
const grouped = "go.opentelemetry.io/otel"

// requirement is a line of a go.mod, without the path of the module.
type requirement struct {
	version  string
	indirect bool
}

// requirements returns the modules that a go.mod requires, except those of this repository.
func requirements(t *testing.T, path string) map[string]requirement {
	t.Helper()
	found := map[string]requirement{}
	for line := range strings.Lines(read(t, path)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		version, comment, _ := strings.Cut(rest, " ")
		if strings.HasPrefix(version, "v") && !strings.HasPrefix(name, module) {
			found[name] = requirement{version, comment == "// indirect"}
		}
	}
	return found
}

// TestDependenciesAreReviewed: docs/dependencies.md lists exactly the modules that go.mod and events/go.mod require
// directly.
func TestDependenciesAreReviewed(t *testing.T) {
	t.Parallel()
	page := read(t, "../docs/dependencies.md")
	required := map[string]bool{}
	for _, file := range []string{"../go.mod", "../events/go.mod"} {
		for path, r := range requirements(t, file) {
			if r.indirect {
				continue
			}
			required[path] = true
			if !strings.Contains(page, "`"+path+"`") && !strings.HasPrefix(path, grouped+"/") {
				t.Errorf("docs/dependencies.md does not have %s", path)
			}
		}
	}
	if len(required) < 20 {
		t.Fatalf("go.mod requires %d modules", len(required))
	}
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		modules, _, _ := strings.Cut(line[2:], "|")
		for i, part := range strings.Split(modules, "`") {
			if i%2 == 1 && !required[part] {
				t.Errorf("docs/dependencies.md has %s, which go.mod does not require", part)
			}
		}
	}
}

// TestClientVersions: the client is tested with the versions that a broker gets, those of events/go.mod.
func TestClientVersions(t *testing.T) {
	t.Parallel()
	product := requirements(t, "../go.mod")
	for path, r := range requirements(t, "../events/go.mod") {
		if product[path].version != r.version {
			t.Errorf("events/go.mod requires %s %s, go.mod %q", path, r.version, product[path].version)
		}
	}
}

// compiledByClient are the modules whose packages a publisher compiles that imports events/requests. Those after
// nats.go are what nats.go imports.
var compiledByClient = []string{
	module + "events", "github.com/cenkalti/backoff/v4", "github.com/go-json-experiment/json", "golang.org/x/sync", "golang.org/x/time",
	"github.com/nats-io/nats.go", "github.com/nats-io/nkeys", "github.com/nats-io/nuid", "github.com/klauspost/compress", "golang.org/x/crypto", "golang.org/x/sys",
}

// selectedByClient are the further modules of which Go selects a version for that publisher: one of tests, and those
// that golang.org/x/crypto requires.
var selectedByClient = []string{"pgregory.net/rapid", "golang.org/x/net", "golang.org/x/term", "golang.org/x/text"}

// TestClientImportsLittle: a publisher in Go compiles NATS, a JSON codec and the messages, and nothing else of the
// product has a part in the versions that it gets.
func TestClientImportsLittle(t *testing.T) {
	t.Parallel()
	const broker = "broker.example"
	dir := t.TempDir()
	events, err := filepath.Abs("../events")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod":  "module " + broker + "\n\ngo 1.26.0\n\nrequire " + module + "events v0.0.0\n\nreplace " + module + "events => " + events + "\n",
		"go.sum":  read(t, "../events/go.sum"),
		"main.go": "package main\n\nimport _ \"" + module + "events/requests\"\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inBroker := func(args ...string) []string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "go", args...)
		// The checksums of what is compiled are those of events; of the others only go.mod is read.
		c.Dir, c.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOSUMDB=off")
		out, err := c.Output()
		if err != nil {
			t.Fatalf("go %s: %v", strings.Join(args, " "), err)
		}
		found := slices.Sorted(slices.Values(strings.Fields(string(out))))
		return slices.DeleteFunc(slices.Compact(found), func(path string) bool { return path == broker })
	}
	inBroker("mod", "tidy")
	for what, c := range map[string]struct{ found, want []string }{
		"compiles": {inBroker("list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "."), compiledByClient},
		"selects":  {inBroker("list", "-m", "-f", "{{.Path}}", "all"), slices.Concat(compiledByClient, selectedByClient)},
	} {
		if want := slices.Sorted(slices.Values(c.want)); !slices.Equal(c.found, want) {
			t.Errorf("a publisher %s packages of\n%q, want\n%q", what, c.found, want)
		}
	}
	required := slices.Sorted(maps.Keys(requirements(t, filepath.Join(dir, "go.mod"))))
	if want := slices.Sorted(slices.Values(compiledByClient[1:])); !slices.Equal(required, want) {
		t.Errorf("go mod tidy of a publisher requires\n%q, want\n%q", required, want)
	}
}
