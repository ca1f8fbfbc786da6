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

// reference is the folder of the generated pages, relative to this package.
const reference = "../../../docs/cli"

// TestReference compares the committed reference with the commands. With UPDATE_DOCS set, as in make docs,
// it writes the reference.
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
	want, have := pages(t, written, "*.md"), pages(t, reference, "*.md")
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

// TestManPages writes a man page of each command, for a release to the folder HAP_MAN_PAGES.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("HAP_MAN_PAGES")
	if dir == "" {
		dir = t.TempDir()
	}
	root, commands := documentedRoot(), 0
	every(root, func(*cobra.Command) { commands++ })
	undated := time.Time{}.AddDate(1969, 0, 0)
	header := doc.GenManHeader{Section: "1", Source: "hap-worker", Manual: "hap-worker", Date: &undated}
	if err := doc.GenManTree(root, &header, dir); err != nil {
		t.Fatal(err)
	}
	if written := pages(t, dir, "hapctl*.1"); len(written) != commands {
		t.Errorf("%d man pages of %d commands", len(written), commands)
	}
}

// generate writes a page of each command in Markdown.
func generate(t *testing.T, dir string) {
	t.Helper()
	if err := doc.GenMarkdownTree(documentedRoot(), dir); err != nil {
		t.Fatal(err)
	}
}

func documentedRoot() *cobra.Command {
	root := newRoot(cli.New(strings.NewReader(""), io.Discard, io.Discard))
	every(root, func(cmd *cobra.Command) { cmd.DisableAutoGenTag = true })
	return root
}

func every(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, below := range cmd.Commands() {
		every(below, do)
	}
}

// pages returns the files in dir whose names match the pattern, by name.
func pages(t *testing.T, dir, pattern string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(name)] = text
	}
	return found
}
