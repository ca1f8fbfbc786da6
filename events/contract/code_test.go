package contract_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/events/contract"
)

// Every constant Code… of the package has its row, and no row is there twice.
func TestTheTableHasEveryCode(t *testing.T) {
	t.Parallel()
	var rows []contract.Code
	for _, info := range contract.Codes() {
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
func declaredCodes(t *testing.T) []contract.Code {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []contract.Code
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
				found = append(found, contract.Code(value))
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
	for _, info := range contract.Codes() {
		switch {
		case info.Means == "" || strings.HasSuffix(info.Means, "."):
			t.Errorf("%s means %q, which must be a clause without a full stop", info.Code, info.Means)
		case !slices.Contains([]int{contract.ExitFailure, contract.ExitNothing, contract.ExitConflict, contract.ExitTimeout}, info.Exit):
			t.Errorf("%s has the exit code %d", info.Code, info.Exit)
		case info.Fate == contract.FateDeadLettered && (info.Retryable || len(info.Answers) == 0):
			t.Errorf("%s is a dead letter, which is the answer to an event and not retryable: %+v", info.Code, info)
		case info.Fate == contract.FateRedelivered && len(info.Answers) > 0:
			t.Errorf("%s answers %v and is redelivered", info.Code, info.Answers)
		case info.AfterWaiting && (info.Fate != contract.FateAcknowledged || !info.Retryable):
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
	info := contract.Code("OfANewerVersion").Info()
	if info.Fate != contract.FateAcknowledged || info.Exit != contract.ExitFailure || info.Retryable {
		t.Errorf("%+v", info)
	}
}
