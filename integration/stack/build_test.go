package stack

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBuildIsCached builds a small program. It sets the cache directory, so it
// cannot run beside others.
func TestBuildIsCached(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir()) // the cache directory where there is no XDG
	t.Setenv("GOCACHE", goCache)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module tiny\n\ngo 1.26.0\n")
	write("main.go", "package main\n\nfunc main() {}\n")
	p := program{name: "tiny", module: dir, target: ".", sources: []string{"."}, hint: "small"}

	var talk bytes.Buffer
	first, err := p.build(t.Context(), &talk)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(talk.String(), "building tiny (small)") {
		t.Errorf("said %q", talk.String())
	}
	talk.Reset()
	write("main_test.go", "package main\n")
	again, err := p.build(t.Context(), &talk)
	if err != nil || again != first || talk.Len() > 0 {
		t.Errorf("unchanged: %s, %v, said %q; want %s in silence", again, err, talk.String(), first)
	}

	write("main.go", "package main\n\nfunc main() { println() }\n")
	old := time.Now().Add(-2 * unused)
	if err := os.Chtimes(first, old, old); err != nil {
		t.Fatal(err)
	}
	changed, err := p.build(t.Context(), &talk)
	if err != nil || changed == first {
		t.Errorf("changed: %s, %v", changed, err)
	}
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("a binary that nobody used is still there: %v", err)
	}

	write("main.go", "package main\n\nfunc main() { wrong }\n")
	if _, err := p.build(t.Context(), &talk); err == nil || !strings.Contains(err.Error(), "undefined: wrong") {
		t.Errorf("a program that does not compile: %v", err)
	}
}

func TestLockExcludes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), file, func() { t.Error("waited for a free lock") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lock(ctx, file, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("a held lock: %v, want to wait until the context ends", err)
	}
	unlock()
	unlock, err = lock(t.Context(), file, func() { t.Error("waited for a lock that was given up") })
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
