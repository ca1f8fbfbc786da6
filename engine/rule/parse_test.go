package rule_test

import (
	"errors"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine/rule"
)

// FuzzParse: no text makes the parser panic. A rule that parses prints as a text that parses to the same
// entry and prints the same. Every fault points into the text or just behind it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", " ", "aws", "aws()", "aws(PR=cf-eu11)", "aws(PR=cf-eu11, HR=eu-central-1) -> PR, HR, S, EU",
		"sap-converged-cloud -> HR, S", "aws(HR=*) -> EU", "\taws\r\n(\fPR = x )->S", "aws(", "aws(PR", "aws(PR=", "aws(PR=x",
		"aws(PR=x,", "aws(PR=x)foo", "aws(,)", "aws -> ", "aws -> S,", "aws -> S, S", "aws(PR=x, PR=y)", "aws-->S", "aws->->S",
		"aws(PR=-)", "aws(PR=\xff)", "aws(PR=ü)", "\u00a0aws", "PR(PR=PR)->PR", "aws(pr=x)", "a;b", "*:*",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entry, err := rule.Parse(text)
		if err != nil {
			checkFaults(t, text, err)
			return
		}
		printed := entry.String()
		again, err := rule.Parse(printed)
		if err != nil || again != entry || again.String() != printed {
			t.Fatalf("%q prints %q, which parses to %+v and not %+v (%v)", text, printed, again, entry, err)
		}
	})
}

func checkFaults(t *testing.T, text string, err error) {
	var faults rule.Faults
	if !errors.As(err, &faults) || len(faults) == 0 {
		t.Fatalf("%q: the error is no list of faults: %v", text, err)
	}
	before := 0
	for _, f := range faults {
		if f.Column <= before || f.Column > utf8.RuneCountInString(text)+1 {
			t.Fatalf("%q: column %d after column %d", text, f.Column, before)
		}
		if f.Rule != 1 || f.Kind != rule.Syntax || f.Message == "" || f.Text != text {
			t.Fatalf("%q: incomplete fault %+v", text, f)
		}
		before = f.Column
	}
}

// TestSpellings: white space, the order of attributes and a star for an absent
// input change nothing.
func TestSpellings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		entry := drawEntry(t)
		text := spell(t, entry)
		got, err := rule.Parse(text)
		if err != nil || got != entry {
			t.Fatalf("%q parses to %v, %v; want %v", text, got, err, entry)
		}
	})
}

func spell(t *rapid.T, e rule.Entry) string {
	gap := func() string { return rapid.StringOfN(rapid.RuneFrom([]rune(" \t\r\n\f")), 0, 2, -1).Draw(t, "gap") }
	text := gap() + e.Plan + gap()
	inputs := map[string]string{"PR": e.PlatformRegion, "HR": e.HyperscalerRegion}
	separator := "("
	for _, name := range rapid.Permutation([]string{"PR", "HR"}).Draw(t, "inputs") {
		value := inputs[name]
		if value == "" && rapid.Bool().Draw(t, "star") {
			value = "*"
		}
		if value != "" {
			text += separator + gap() + name + gap() + "=" + gap() + value + gap()
			separator = ","
		}
	}
	if separator == "," {
		text += ")" + gap()
	}
	separator = "->"
	for _, name := range rapid.Permutation(e.Outputs.Names()).Draw(t, "outputs") {
		text += separator + gap() + name + gap()
		separator = ","
	}
	return text
}

func drawEntry(t *rapid.T) rule.Entry {
	region := rapid.SampledFrom([]string{"", "a", "b", "cf-eu11"})
	return rule.Entry{
		Plan:              rapid.SampledFrom([]string{"aws", "azure"}).Draw(t, "plan"),
		PlatformRegion:    region.Draw(t, "platform region"),
		HyperscalerRegion: region.Draw(t, "hyperscaler region"),
		Outputs:           rule.Outputs(rapid.IntRange(0, 15).Draw(t, "outputs")),
	}
}
