package wire_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
)

// TestMessagesPageHasTheCodes compares docs/messages.md with the table. With UPDATE_DOCS set, as in make
// docs, it writes the page.
func TestMessagesPageHasTheCodes(t *testing.T) {
	t.Parallel()
	const path = "../../docs/messages.md"
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
	for _, info := range contract.Codes() {
		answers, fate, retryable := "-", "-", "no"
		if len(info.Answers) > 0 {
			answers = "`" + strings.Join(info.Answers, "`, `") + "`"
		}
		if len(info.Answers) > 0 || info.Fate == contract.FateRedelivered {
			fate = string(info.Fate)
		}
		if info.Retryable {
			retryable = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %d | %s |\n", info.Code, info.Means, answers, fate, info.Exit, retryable)
	}
	return b.String()
}

// TestMessagesPageHasTheTypes compares docs/messages.md with the table. With UPDATE_DOCS set, as in
// make docs, it rewrites the page.
func TestMessagesPageHasTheTypes(t *testing.T) {
	t.Parallel()
	const path = "../../docs/messages.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	place := regexp.MustCompile(`(?m)^\| Type \| Subject \|.*\n(\|.*\n)+`)
	if len(place.FindAll(page, -1)) != 1 {
		t.Fatalf("%s must have one table of types", path)
	}
	want := place.ReplaceAllLiteral(page, []byte(typesTable()))
	switch {
	case slices.Equal(page, want):
	case os.Getenv("UPDATE_DOCS") != "":
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the types in %s are out of date; make docs writes them anew", path)
	}
}

func typesTable() string {
	var b strings.Builder
	b.WriteString("| Type | Subject | Published by | Answered by | Allots |\n|---|---|---|---|---|\n")
	for _, info := range events.Types() {
		allots := "no"
		if info.Allots {
			allots = "yes"
		}
		var statuses []string
		for _, status := range info.Statuses() {
			statuses = append(statuses, string(status))
		}
		fmt.Fprintf(&b, "| `%s` | `%s.%s.<%s>` | %s | `%s` | %s |\n", info.Type, events.DefaultPrefix, info.Type, info.Token,
			info.Publisher, strings.Join(statuses, "`, `"), allots)
	}
	return b.String()
}
