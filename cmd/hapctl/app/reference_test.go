package app

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
)

// reference is the folder of the generated pages, from here.
const reference = "../../../docs/cli"

// TestReference holds the committed reference and man pages against the commands.
// With UPDATE_DOCS set, as in make docs, it writes them anew.
func TestReference(t *testing.T) {
	t.Parallel()
	written := t.TempDir()
	generate(t, written)
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.RemoveAll(reference); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(reference, os.DirFS(written)); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, have := pages(t, written), pages(t, reference)
	for name, text := range want {
		if !bytes.Equal(text, have[name]) {
			t.Errorf("docs/cli/%s is out of date; make docs writes it anew", name)
		}
	}
	for name := range have {
		if want[name] == nil {
			t.Errorf("docs/cli/%s belongs to no command; make docs removes it", name)
		}
	}
}

// generate writes a page of each command: markdown, and a man page.
func generate(t *testing.T, dir string) {
	t.Helper()
	root := newRoot(cli.New(strings.NewReader(""), io.Discard, io.Discard))
	every(root, func(cmd *cobra.Command) { cmd.DisableAutoGenTag = true })
	man := filepath.Join(dir, "man")
	if err := os.MkdirAll(man, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := doc.GenMarkdownTree(root, dir); err != nil {
		t.Fatal(err)
	}
	undated := time.Time{}.AddDate(1969, 0, 0)
	header := doc.GenManHeader{Section: "1", Source: "hap-worker", Manual: "hap-worker", Date: &undated}
	if err := doc.GenManTree(root, &header, man); err != nil {
		t.Fatal(err)
	}
}

func every(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, below := range cmd.Commands() {
		every(below, do)
	}
}

// pages are the files below dir, by name.
func pages(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for _, pattern := range []string{"*.md", "man/*.1"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			short, err := filepath.Rel(dir, name)
			if err != nil {
				t.Fatal(err)
			}
			found[short] = text
		}
	}
	return found
}
