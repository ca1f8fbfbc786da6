package engine_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
)

// Every constant Code… of the package has its row, and no row is there twice.
func TestTheTableHasEveryCode(t *testing.T) {
	t.Parallel()
	var rows []engine.Code
	for _, info := range engine.Codes() {
		rows = append(rows, info.Code)
	}
	declared := declaredCodes(t)
	slices.Sort(rows)
	slices.Sort(declared)
	if !slices.Equal(rows, declared) {
		t.Errorf("the table has   %v\nthe package has %v", rows, declared)
	}
}

// declaredCodes returns the values of all constants of type Code in the source.
func declaredCodes(t *testing.T) []engine.Code {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []engine.Code
	for _, file := range files {
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(source, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is {
				return true
			}
			if kind, is := spec.Type.(*ast.Ident); !is || kind.Name != "Code" {
				return true
			}
			for i, name := range spec.Names {
				literal, is := spec.Values[i].(*ast.BasicLit)
				if !is {
					t.Fatalf("%s is no literal", name)
				}
				value, err := strconv.Unquote(literal.Value)
				if err != nil || "Code"+value != name.Name {
					t.Errorf("%s is %q (%v)", name, value, err)
				}
				found = append(found, engine.Code(value))
			}
			return true
		})
	}
	if len(found) < 13 {
		t.Fatalf("only %v were found", found)
	}
	return found
}

// A row says everything, and its parts agree.
func TestTheTableIsConsistent(t *testing.T) {
	t.Parallel()
	for _, info := range engine.Codes() {
		switch {
		case info.Means == "" || strings.HasSuffix(info.Means, "."):
			t.Errorf("%s means %q, which must be a clause without a full stop", info.Code, info.Means)
		case !slices.Contains([]int{engine.ExitFailure, engine.ExitNothing, engine.ExitConflict, engine.ExitTimeout}, info.Exit):
			t.Errorf("%s has the exit code %d", info.Code, info.Exit)
		case info.Fate == engine.FateDeadLettered && (info.Retryable || len(info.Answers) == 0):
			t.Errorf("%s is a dead letter, which is the answer to an event and not retryable: %+v", info.Code, info)
		case info.Fate == engine.FateRedelivered && len(info.Answers) > 0:
			t.Errorf("%s answers %v and is redelivered", info.Code, info.Answers)
		case info.AfterWaiting && (info.Fate != engine.FateAcknowledged || !info.Retryable):
			t.Errorf("%s ends a waiting time: the event is acknowledged and may be tried again", info.Code)
		}
		if info.Code.Retryable() != info.Retryable {
			t.Errorf("%s: Retryable differs from the table", info.Code)
		}
	}
}

// An unknown code from a newer version ends its event, and is a failure in hapctl.
func TestAnUnknownCodeIsFinal(t *testing.T) {
	t.Parallel()
	info := engine.Code("OfANewerVersion").Info()
	if info.Fate != engine.FateAcknowledged || info.Exit != engine.ExitFailure || info.Retryable {
		t.Errorf("%+v", info)
	}
}

// TestMessagesPageHasTheCodes compares docs/messages.md with the table. With UPDATE_DOCS set, as in make
// docs, it writes the page.
func TestMessagesPageHasTheCodes(t *testing.T) {
	t.Parallel()
	const path = "../docs/messages.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	place := regexp.MustCompile(`(?m)^\| Code \|.*\n(\|.*\n)+`)
	if len(place.FindAll(page, -1)) != 1 {
		t.Fatalf("%s must have one table of codes", path)
	}
	want := place.ReplaceAllLiteral(page, []byte(codesTable()))
	switch {
	case slices.Equal(page, want):
	case os.Getenv("UPDATE_DOCS") != "":
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the codes in %s are out of date; make docs writes them anew", path)
	}
}

func codesTable() string {
	var b strings.Builder
	b.WriteString("| Code | When | Answers | The message | Exit | Retryable |\n|---|---|---|---|---|---|\n")
	for _, info := range engine.Codes() {
		answers, fate, retryable := "-", "-", "no"
		if len(info.Answers) > 0 {
			answers = "`" + strings.Join(info.Answers, "`, `") + "`"
		}
		if len(info.Answers) > 0 || info.Fate == engine.FateRedelivered {
			fate = string(info.Fate)
		}
		if info.Retryable {
			retryable = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %d | %s |\n", info.Code, info.Means, answers, fate, info.Exit, retryable)
	}
	return b.String()
}
