package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReadme runs the demo, and finds the lines that the README shows in its output, in the same order.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, found := strings.Cut(string(readme), "```text\n")
	shown, _, ended := strings.Cut(shown, "```\n")
	if !found || !ended {
		t.Fatal("the README shows no output")
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, false); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	printed := strings.Split(steady(out.String()), "\n")
	at, lines := 0, 0
	for line := range strings.SplitSeq(steady(shown), "\n") {
		if line == "" {
			continue
		}
		lines++
		for at < len(printed) && printed[at] != line {
			at++
		}
		if at == len(printed) {
			t.Fatalf("the demo does not print, or not in this order:\n%s\n\nIt printed:\n%s", line, out.String())
		}
	}
	if lines < 15 {
		t.Errorf("the README shows %d lines of the demo", lines)
	}
}

// varying matches what differs from run to run: the number of an account, durations, and the width of columns, which
// depends on the accounts.
var varying = []*regexp.Regexp{
	regexp.MustCompile(`\b(azure|gcp-sa30)-\d+\b`),
	regexp.MustCompile(`\b\d+(\.\d+)? m?s\b`),
	regexp.MustCompile(` {2,}`),
}

func steady(text string) string {
	text = varying[0].ReplaceAllString(text, "$1-N")
	text = varying[1].ReplaceAllString(text, "N s")
	return varying[2].ReplaceAllString(text, "  ")
}
