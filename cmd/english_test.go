package cmd_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// englishFile says how often comments and documents may use each phrase. The numbers only fall:
// UPDATE_ENGLISH=1 lowers them to the present counts.
const englishFile = "testdata/english.txt"

// phrase is a phrase that makes a sentence hard to read, and how often it may occur.
type phrase struct {
	words, instead string
	comments, docs int // at most
}

// place is where a phrase was found.
type place struct{ at, text string }

// TestEnglish counts phrases in the comments of all Go files and in all documents. A comment
// that has a phrase for a reason ends in the line "//english:allow WHY"; in a document the first
// line of the paragraph is "<!-- english:allow WHY -->".
func TestEnglish(t *testing.T) {
	t.Parallel()
	phrases := readPhrases(t)
	var comments, docs []place
	visit := func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "testdata" || name == "bin" || name == "dist" || strings.HasPrefix(name, ".") && name != ".."):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go"):
			comments = append(comments, commentsOf(t, path)...)
		case strings.HasSuffix(name, ".md") && name != "CHANGELOG.md":
			docs = append(docs, paragraphsOf(t, path)...)
		}
		return nil
	}
	if err := filepath.WalkDir("..", visit); err != nil {
		t.Fatal(err)
	}
	if len(comments) < 1000 || len(docs) < 100 {
		t.Fatalf("found %d comments and %d paragraphs: the tree is not here", len(comments), len(docs))
	}
	for i := range phrases {
		p := &phrases[i]
		p.comments = p.hold(t, "comments", comments, p.comments)
		p.docs = p.hold(t, "documents", docs, p.docs)
	}
	if os.Getenv("UPDATE_ENGLISH") != "" {
		writePhrases(t, phrases)
	}
}

// hold compares how often a phrase occurs with its bound, and returns the lower of the two.
func (p phrase) hold(t *testing.T, where string, in []place, most int) int {
	t.Helper()
	pattern := regexp.MustCompile(`(?i)\b` + p.words + `\b`)
	var found []string
	for _, one := range in {
		for range pattern.FindAllString(one.text, -1) {
			found = append(found, one.at)
		}
	}
	t.Logf("%-11s %4d in %s, at most %d", p.words, len(found), where, most)
	if len(found) > most {
		t.Errorf("%q occurs %d times in %s, more than the %d of %s. %s. It is in:\n  %s",
			p.words, len(found), where, most, englishFile, p.instead, strings.Join(slices.Compact(found), "\n  "))
	}
	return min(most, len(found))
}

// commentsOf returns the comments of a Go file, except the allowed ones.
func commentsOf(t *testing.T, path string) (found []place) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Comments {
		allowed := slices.ContainsFunc(group.List, func(line *ast.Comment) bool { return strings.HasPrefix(line.Text, "//english:allow ") })
		if !allowed {
			at := files.Position(group.Pos())
			found = append(found, place{fmt.Sprintf("%s:%d", strings.TrimPrefix(path, "../"), at.Line), oneLine(group.Text())})
		}
	}
	return found
}

var (
	fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	code   = regexp.MustCompile("`[^`]*`")
	linked = regexp.MustCompile(`\]\([^)]*\)`)
)

// paragraphsOf returns the paragraphs of a document, without code, link targets and allowed paragraphs.
func paragraphsOf(t *testing.T, path string) (found []place) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range strings.Split(fenced.ReplaceAllString(string(content), ""), "\n\n") {
		if !strings.Contains(text, "<!-- english:allow ") {
			text = linked.ReplaceAllString(code.ReplaceAllString(text, ""), "]")
			found = append(found, place{fmt.Sprintf("%s, paragraph %d", strings.TrimPrefix(path, "../"), i+1), oneLine(text)})
		}
	}
	return found
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func readPhrases(t *testing.T) (phrases []phrase) {
	t.Helper()
	content, err := os.ReadFile(englishFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(strings.TrimSuffix(line, "\n"), " | ")
		if len(parts) != 4 {
			t.Fatalf("%s: %q does not have four parts", englishFile, line)
		}
		p := phrase{words: strings.TrimSpace(parts[0]), instead: parts[3]}
		if _, err := fmt.Sscan(parts[1]+" "+parts[2], &p.comments, &p.docs); err != nil {
			t.Fatalf("%s: %q: %v", englishFile, line, err)
		}
		phrases = append(phrases, p)
	}
	return phrases
}

func writePhrases(t *testing.T, phrases []phrase) {
	t.Helper()
	var text strings.Builder
	text.WriteString("# phrase | at most in comments | at most in documents | what to write instead. UPDATE_ENGLISH=1 go test ./cmd -run TestEnglish lowers the numbers.\n")
	for _, p := range phrases {
		fmt.Fprintf(&text, "%-10s | %4d | %4d | %s\n", p.words, p.comments, p.docs, p.instead)
	}
	if err := os.WriteFile(englishFile, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
