package page

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hap-worker/hap-worker/engine/rule"
)

const (
	maxPasted = 64 << 10 // bytes of the rules
	maxRules  = 1000     // rules, or members of the older lists
)

// parsePasted parses pasted rules, in every form that [rule.ReadFile] accepts. It also returns an error if there are
// more than maxRules.
func parsePasted(text string) (rule.File, error) {
	file, err := rule.ReadFile([]byte(text))
	if err != nil && !nothing(text) {
		return file, err
	}
	n, what := len(file.Texts), "rules"
	if file.Older != nil {
		n, what = file.Older.Count(), "members"
	}
	switch {
	case n == 0 && file.Older == nil:
		return file, errors.New("there are no rules: write hap.rule, rule, a list, one rule a line, or the four older keys")
	case n > maxRules:
		return file, fmt.Errorf("%d %s are more than the %d that can be tried here: use hapctl rules explain", n, what, maxRules)
	}
	return file, nil
}

// nothing reports whether a text has only comments and blank lines.
func nothing(text string) bool {
	for line := range strings.Lines(text) {
		if rule.WithoutComment(strings.TrimSpace(line)) != "" {
			return false
		}
	}
	return true
}
