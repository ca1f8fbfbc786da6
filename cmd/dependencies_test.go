package cmd_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// grouped is the prefix of the modules that share one row of docs/dependencies.md.
const grouped = "go.opentelemetry.io/otel"

// TestDependenciesAreReviewed: docs/dependencies.md lists exactly the modules that go.mod requires directly.
func TestDependenciesAreReviewed(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	required := map[string]bool{}
	for line := range strings.Lines(string(mod)) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(version, "v") && !strings.Contains(version, "// indirect") {
			required[path] = true
			if !strings.Contains(string(page), "`"+path+"`") && !strings.HasPrefix(path, grouped+"/") {
				t.Errorf("docs/dependencies.md does not have %s", path)
			}
		}
	}
	if len(required) < 20 {
		t.Fatalf("go.mod requires %d modules", len(required))
	}
	for line := range strings.Lines(string(page)) {
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

// ofTheClient are the modules whose packages a publisher compiles that imports events/requests. Those after
// nats.go are what nats.go imports.
var ofTheClient = []string{
	"github.com/cenkalti/backoff/v4", "github.com/go-json-experiment/json", "golang.org/x/sync",
	"github.com/nats-io/nats.go", "github.com/nats-io/nkeys", "github.com/nats-io/nuid", "github.com/klauspost/compress", "golang.org/x/crypto", "golang.org/x/sys", "golang.org/x/time",
}

// TestClientImportsLittle: a publisher in Go compiles NATS, a JSON codec and the messages.
func TestClientImportsLittle(t *testing.T) {
	t.Parallel()
	c := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", module+"events/requests")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	found := slices.Compact(slices.Sorted(slices.Values(strings.Fields(string(out)))))
	want := slices.Sorted(slices.Values(append([]string{strings.TrimSuffix(module, "/")}, ofTheClient...)))
	if !slices.Equal(found, want) {
		t.Errorf("events/requests imports of\n%q, want\n%q", found, want)
	}
}
