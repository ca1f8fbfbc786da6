package cli

import (
	"bytes"
	"strings"
	"testing"
)

// TestWhatIsShortened: the named columns are shortened in this order, and each keeps enough to tell two names
// apart.
func TestWhatIsShortened(t *testing.T) {
	t.Parallel()
	header := []string{"NAME", "SHORT", "FIRST", "SECOND"}
	long := strings.Repeat("n", 40)
	for _, c := range []struct {
		name, first, second string
		want                string
	}{
		{"n", "f", "s", "n     -      f      s\n"},
		{long, strings.Repeat("f", 20), "s", long + "  -      " + strings.Repeat("f", 20) + "  s\n"},
		{long, strings.Repeat("f", 20), strings.Repeat("s", 12), long + "  -      " + strings.Repeat("f", 16) + "…  " + strings.Repeat("s", 12) + "\n"},
		{long, strings.Repeat("f", 20), strings.Repeat("s", 40), long + "  -      ffffffff…  " + strings.Repeat("s", 19) + "…\n"},
		{strings.Repeat("n", 70), strings.Repeat("f", 20), strings.Repeat("s", 40), strings.Repeat("n", 70) + "  -      ffffffff…  ssssssss…\n"},
		{"n", "\u202e" + strings.Repeat("f", 20), "ä" + strings.Repeat("s", 60), `n     -      \u202eff…  ä` + strings.Repeat("s", 54) + "…\n"},
	} {
		var out bytes.Buffer
		Fitted(&out, header, [][]string{Dashed([]string{c.name, "", c.first, c.second})}, "FIRST", "SECOND")
		if _, row, _ := strings.Cut(out.String(), "\n"); row != c.want {
			t.Errorf("the row is\n%swant\n%s", row, c.want)
		}
	}
}

// TestDifferencesBelowATable: they are wrapped between words.
func TestDifferencesBelowATable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	Folded(&out, "aws-7:", "its labels put it into pool aws_cf-eu11+eu+shared,\nRedis\u202e has it in gcp_cf-sa30 with 4 clusters")
	if want := "aws-7: its labels put it into pool aws_cf-eu11+eu+shared, Redis\\u202e has it\n  in gcp_cf-sa30 with 4 clusters\n"; out.String() != want {
		t.Errorf("told\n%swant\n%s", &out, want)
	}
}

// TestTextsBelowATable: a table that fits stays as it is. In one that is too wide, the text of each row is
// folded in its column or below it, and -o wide has a line for each.
func TestTextsBelowATable(t *testing.T) {
	t.Parallel()
	header := []string{"KIND", "RUNTIME", "WHAT"}
	text := strings.TrimSpace(strings.Repeat("it differs ", 8))
	name := strings.Repeat("r", 60)
	for _, c := range []struct {
		name     string
		wide     bool
		headless bool
		rows     [][]string
		want     string
	}{
		{"short", false, false, [][]string{{"a", "rt-1", "it differs"}}, "KIND  RUNTIME  WHAT\na     rt-1     it differs\n"},
		{"in its column", false, false, [][]string{{"a", "rt-1", text}, {"b", "rt-2", "or\tnot"}}, "KIND  RUNTIME  WHAT\na     rt-1     it differs it differs it differs it differs it differs it differs\n" +
			"               it differs it differs\nb     rt-2     or not\n"},
		{"below", false, false, [][]string{{"a", name, text}, {"b", "", "not"}}, "KIND  RUNTIME\n  WHAT\na     " + name + "\n  " + text[:7*11-1] + "\n  it differs\nb\n  not\n"},
		{"headless", false, true, [][]string{{"a", name, text}}, "a  " + name + "\n  " + text[:7*11-1] + "\n  it differs\n"},
		{"wide", true, false, [][]string{{"a", name, text}}, "KIND  RUNTIME" + strings.Repeat(" ", 55) + "WHAT\na     " + name + "  " + text + "\n"},
		{"long name", false, false, [][]string{{"a", strings.Repeat("r", 90), "x"}}, "KIND  RUNTIME\n  WHAT\na     " + strings.Repeat("r", 73) + "…\n  x\n"},
	} {
		out := Sheet{Headless: c.headless}
		FittedText(&out, c.wide, header, c.rows, "RUNTIME")
		if got := out.String(); got != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.name, got, c.want)
		}
	}
}
