package page

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hap-worker/hap-worker/engine/rule"
)

const (
	maxPasted = 64 << 10 // bytes of a request to the playground
	maxRules  = 1000     // that it compiles
)

// pasted are rules as somebody pasted them: hap.rule or rule of a configuration, a
// list alone, one rule a line, or the four keys of the older form.
type pasted struct {
	texts    []string
	older    *rule.Lists
	plans    map[string]rule.Plan
	internal []string
}

type pastedKeys struct {
	Rule           []string `yaml:"rule"`
	PlatformRegion *string  `yaml:"platformRegionRule"`
	ClusterRegion  *string  `yaml:"clusterRegionRule"`
	Shared         *string  `yaml:"sharedRule"`
	EUAccess       *string  `yaml:"euAccessRule"`
}

type pastedFile struct {
	pastedKeys `yaml:",inline"`
	HAP        struct {
		pastedKeys `yaml:",inline"`
		Plans      map[string]rule.Plan `yaml:"plans"`
		Internal   []string             `yaml:"internalGlobalAccounts"`
	} `yaml:"hap"`
}

// parsePasted reads the text. What is neither a YAML list nor a mapping is taken
// for rules, one a line.
func parsePasted(text string) (pasted, error) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(text), &root); err != nil || len(root.Content) == 0 {
		return bounded(pasted{texts: ruleLines(text)})
	}
	switch root.Content[0].Kind {
	case yaml.SequenceNode:
		var p pasted
		if err := root.Decode(&p.texts); err != nil {
			return p, fmt.Errorf("every item of the list must be the text of one rule: %s", plainYAML(err))
		}
		return bounded(p)
	case yaml.MappingNode:
		var file pastedFile
		if err := root.Decode(&file); err != nil {
			return pasted{}, fmt.Errorf("this is no configuration of rules: %s", plainYAML(err))
		}
		return file.rules()
	default:
		return bounded(pasted{texts: ruleLines(text)})
	}
}

func plainYAML(err error) string {
	said := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n")
	return strings.ReplaceAll(strings.TrimSpace(said), "\n  ", ";")
}

// ruleLines are the lines that say something, without what marks them as items.
func ruleLines(text string) []string {
	var texts []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if item, is := strings.CutPrefix(line, "- "); is {
			line = strings.Trim(strings.TrimSpace(item), `"'`)
		}
		if line != "" && !strings.HasPrefix(line, "#") {
			texts = append(texts, line)
		}
	}
	return texts
}

func bounded(p pasted) (pasted, error) {
	switch n := len(p.texts); {
	case n == 0 && p.older == nil:
		return p, errors.New("there are no rules: write hap.rule, rule, a list, one rule a line, or the four older keys")
	case n > maxRules:
		return p, fmt.Errorf("%d rules are more than the %d that can be tried here: use hapctl rules explain", n, maxRules)
	}
	return p, nil
}

// rules are those of whichever form the file has.
func (f pastedFile) rules() (pasted, error) {
	keys := f.HAP.pastedKeys
	if outside := f.pastedKeys; !outside.none() {
		if !keys.none() {
			return pasted{}, errors.New("there are rules below hap and beside it: keep one of them")
		}
		keys = outside
	}
	p := pasted{texts: keys.Rule, plans: f.HAP.Plans, internal: f.HAP.Internal}
	if keys.anyOlder() {
		if keys.Rule != nil {
			return p, errors.New("there are rule and the older keys: keep one form")
		}
		p.older = &rule.Lists{
			PlatformRegion: text(keys.PlatformRegion), ClusterRegion: text(keys.ClusterRegion),
			Shared: text(keys.Shared), EUAccess: text(keys.EUAccess),
		}
		if n := strings.Count(p.older.PlatformRegion+p.older.ClusterRegion+p.older.Shared+p.older.EUAccess, ";"); n > maxRules {
			return p, fmt.Errorf("%d members are more than the %d that can be tried here: use hapctl rules explain", n, maxRules)
		}
	}
	return bounded(p)
}

func (k pastedKeys) anyOlder() bool {
	return k.PlatformRegion != nil || k.ClusterRegion != nil || k.Shared != nil || k.EUAccess != nil
}

func (k pastedKeys) none() bool { return k.Rule == nil && !k.anyOlder() }

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// compile makes a ruleset, with the plans that the worker knows and those of the
// text above them. Nobody has to have a rule for every plan here.
func (p pasted) compile(known rule.Plans) (*rule.Ruleset, error) {
	plans, err := known.With(p.plans)
	if err != nil {
		return nil, err
	}
	opts := rule.Options{Plans: plans, Require: []string{}, InternalTenants: p.internal}
	if p.older != nil {
		return rule.CompileLists(*p.older, opts)
	}
	return rule.Compile(p.texts, opts)
}
