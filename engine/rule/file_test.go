package rule_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/rule"
)

func TestReadFileOfLines(t *testing.T) {
	t.Parallel()
	for content, want := range map[string][]string{
		"aws": {"aws"},
		"# all of them\n\n  aws\t# one\r\naws(PR=cf-eu11) -> EU\n#gcp\ngcp -> S": {"aws", "aws(PR=cf-eu11) -> EU", "gcp -> S"},
		"aws#1\n- gcp\nx: y": {"aws#1", "- gcp", "x: y"}, // each a rule with its own fault
		"- aws\n- gcp":       {"aws", "gcp"},
		"[aws]":              {"aws"},
		"rule: [aws] # x":    {"aws"},
	} {
		if file, err := rule.ReadFile([]byte(content)); err != nil || file.Older != nil || !slices.Equal(file.Texts, want) {
			t.Errorf("%q has %q, %v, want %q", content, file.Texts, err, want)
		}
	}
	for _, content := range []string{"", "# aws", "\n", "aws: x", "aws:", "'aws'", "*a", "\x00"} {
		if file, err := rule.ReadFile([]byte(content)); err == nil {
			t.Errorf("%q has %q", content, file.Texts)
		}
	}
}

// TestReadFileOfBothForms: as for a worker, a key without a rule or member is no second form.
func TestReadFileOfBothForms(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"{rule: [], sharedRule: trial}":                 "older",
		"{rule: , sharedRule: trial, euAccessRule: ''}": "older",
		"{platformRegionRule: ''}":                      "older",
		"{rule: [aws], sharedRule: ''}":                 "list",
		"{rule: [aws], sharedRule: , euAccessRule: ''}": "list",
		"{rule: [], sharedRule: ''}":                    "list",
		"{rule: [aws], sharedRule: trial}":              "both",
		"{rule: '', sharedRule: trial}":                 "both",
		"{rule: [aws], sharedRule: [trial]}":            "both",
		"{rule: {}, sharedRule: trial}":                 "both",
	} {
		file, err := rule.ReadFile([]byte("hap: " + content))
		got := "list"
		switch {
		case err != nil && strings.Contains(err.Error(), "has both rule and the older "):
			got = "both"
		case err != nil:
			got = err.Error()
		case file.Older != nil:
			got = "older"
		}
		if got != want {
			t.Errorf("%s is %s, want %s", content, got, want)
		}
	}
	if _, err := rule.ReadFile([]byte("{hap: {rule: []}, sharedRule: trial}")); err == nil {
		t.Error("an empty key below hap lets another stand beside it")
	}
}

// TestCompileWithoutPlans: the plans that exist by default are those of a file that has further ones, too.
func TestCompileWithoutPlans(t *testing.T) {
	t.Parallel()
	file, err := rule.ReadFile([]byte("hap: {rule: [aws, x], plans: {x: {providers: [gcp]}}}"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := file.Compile(rule.Options{Require: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	for plan, want := range map[string]string{"aws": "aws", "x": "gcp"} {
		if result, err := set.Match(rule.Request{Plan: plan}); err != nil || result.Pool.HyperscalerType != want {
			t.Errorf("plan %s leads to %v, %v", plan, result.Pool, err)
		}
	}
}

// FuzzReadFile: a file has rules of one form, or faults that say why it has none.
func FuzzReadFile(f *testing.F) {
	for _, seed := range []string{
		"- aws\n- 'gcp -> S'", "hap:\n  rule: [aws]\n  plans: {x: {providers: [aws]}}", "sharedRule: trial;aws:eu", "rule: &a [aws, *a]",
		"- {a: 1}", "\x00", "hap: 1", "--- a\n--- b", "#", "hap: {rule: }", "hap: {rule: [aws], sharedRule: x}", "rule: [aws]\nhap: {rule: [aws]}",
		"hap: {<<: {rule: [aws]}, internalGlobalAccounts: [ga, 7]}", "euAccessRule:\nsharedRule: [a]",
		"# all\naws\n\ngcp -> S # shared\r\nx: y", "aws#", "aws: x",
		"\xef\xbb\xbfaws", "\xff\xfea\x00w\x00s\x00", "\u0430ws", "h\u0430p: {rule: [aws]}", "rule:\n\t- aws", "a\x00w\x00s\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		file, err := rule.ReadFile(content)
		if err != nil {
			if faults, is := errors.AsType[rule.Faults](err); !is || len(faults) == 0 || faults[0].Message == "" {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		if (file.Texts != nil) == (file.Older != nil) {
			t.Fatalf("%+v has both forms or neither", file)
		}
		set, err := file.Compile(rule.Options{Plans: rule.BuiltinPlans(), Require: []string{}})
		if (set == nil) == (err == nil) {
			t.Fatalf("%v and %v", set, err)
		}
	})
}
