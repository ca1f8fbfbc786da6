package page

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/rule"
)

const (
	maxPasted = 64 << 10 // bytes of a request to the playground
	maxRules  = 1000     // that it compiles
)

// parsePasted reads rules as they are pasted: a file of rules, or one rule a line
// where the text is neither a YAML list nor a mapping.
func parsePasted(text string) (rule.File, error) {
	var r document.Reader
	docs := r.All([]byte(text))
	file := rule.File{Texts: ruleLines(text)}
	if len(r.Faults) == 0 && len(docs) > 0 && (docs[0].Sequence() || docs[0].Mapping()) {
		var err error
		if file, err = rule.ReadFile([]byte(text)); err != nil {
			return file, err
		}
	}
	n, what := len(file.Texts), "rules"
	if file.Older != nil {
		n, what = strings.Count(file.Older.PlatformRegion+file.Older.ClusterRegion+file.Older.Shared+file.Older.EUAccess, ";"), "members"
	}
	switch {
	case n == 0 && file.Older == nil:
		return file, errors.New("there are no rules: write hap.rule, rule, a list, one rule a line, or the four older keys")
	case n > maxRules:
		return file, fmt.Errorf("%d %s are more than the %d that can be tried here: use hapctl rules explain", n, what, maxRules)
	}
	return file, nil
}

// ruleLines are the lines that say something, without what marks them as items.
func ruleLines(text string) []string {
	var texts []string
	for line := range strings.Lines(text) {
		line = rule.WithoutComment(strings.TrimSpace(line))
		if item, is := strings.CutPrefix(line, "- "); is {
			line = strings.Trim(strings.TrimSpace(item), `"'`)
		}
		if line != "" {
			texts = append(texts, line)
		}
	}
	return texts
}
