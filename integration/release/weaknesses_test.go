package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// weak is a database with one weakness, of a function of the standard library.
func weak(t *testing.T, pkg, symbol string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	const id, modified = "GO-2026-9999", "2026-11-01T00:00:00Z"
	known := []map[string]any{{"id": id, "modified": modified}}
	for file, content := range map[string]any{
		"index/db.json":      map[string]any{"modified": modified},
		"index/modules.json": []map[string]any{{"path": "stdlib", "vulns": known}},
		"index/vulns.json":   known,
		"ID/" + id + ".json": map[string]any{
			"schema_version": "1.3.1", "id": id, "modified": modified, "published": modified, "summary": "made up", "details": "made up",
			"database_specific": map[string]any{"url": "https://pkg.go.dev/vuln/" + id},
			"affected": []map[string]any{{
				"package":            map[string]any{"name": "stdlib", "ecosystem": "Go"},
				"ranges":             []map[string]any{{"type": "SEMVER", "events": []map[string]any{{"introduced": "0"}}}},
				"ecosystem_specific": map[string]any{"imports": []map[string]any{{"path": pkg, "symbols": []string{symbol}}}},
			}},
		},
	} {
		text, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestWeaknesses: make vulncheck fails if a vulnerable function is called, but not if it is only linked.
// Either variable sets a mirror of its database. If the check cannot be run, make says so and fails.
func TestWeaknesses(t *testing.T) {
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args  []string
		env   string
		fails bool
		says  string
	}{
		"called":       {[]string{"VULNDB=file://" + weak(t, "strings", "ToLower")}, "", true, "Your code is affected by 1 vulnerability from the Go standard library"},
		"by the other": {nil, "GOVULNDB=file://" + weak(t, "strings", "ToLower"), true, "Your code is affected by 1 vulnerability from the Go standard library"},
		"not called":   {[]string{"VULNDB=file://" + weak(t, "strings", "Title")}, "", false, "Your code is affected by 0 vulnerabilities"},
		"no database":  {[]string{"VULNDB=file:///no/such/mirror"}, "", true, "NOT RUN: the search for known weaknesses"},
	} {
		run := exec.CommandContext(t.Context(), "make", append(c.args, "--no-print-directory", "-C", root, "vulncheck", "CHECKED=./engine/spelling")...)
		run.Env = append(os.Environ(), "GOFLAGS=", c.env)
		out, err := run.CombinedOutput()
		if (err != nil) != c.fails || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
