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

// TestMessagesPage compares two tables of docs/messages.md with the code. With UPDATE_DOCS set, as in make docs, it
// writes the page, with both.
func TestMessagesPage(t *testing.T) {
	t.Parallel()
	const path = "../../docs/messages.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := page
	for heading, table := range map[string]string{`\| Code \|`: codesTable(), `\| Type \| Subject \|`: typesTable()} {
		place := regexp.MustCompile(`(?m)^` + heading + `.*\n(\|.*\n)+`)
		if len(place.FindAll(want, -1)) != 1 {
			t.Fatalf("%s must have one table that begins with %s", path, heading)
		}
		want = place.ReplaceAllLiteral(want, []byte(table))
	}
	switch {
	case slices.Equal(page, want):
	case os.Getenv("UPDATE_DOCS") != "":
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the tables of codes and types in %s are out of date; make docs writes them anew", path)
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
