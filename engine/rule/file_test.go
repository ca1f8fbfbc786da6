package rule_test

import (
	"errors"
	"testing"

	"github.com/hap-worker/hap-worker/engine/rule"
)

// FuzzReadFile holds that a file has rules of one form, or faults that say why not.
func FuzzReadFile(f *testing.F) {
	for _, seed := range []string{
		"- aws\n- 'gcp -> S'", "hap:\n  rule: [aws]\n  plans: {x: {providers: [aws]}}", "sharedRule: trial;aws:eu", "rule: &a [aws, *a]",
		"- {a: 1}", "\x00", "hap: 1", "--- a\n--- b", "#", "hap: {rule: }", "hap: {rule: [aws], sharedRule: x}", "rule: [aws]\nhap: {rule: [aws]}",
		"hap: {<<: {rule: [aws]}, internalGlobalAccounts: [ga, 7]}", "euAccessRule:\nsharedRule: [a]",
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
