package rule_test

import (
	"errors"
	"slices"
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
