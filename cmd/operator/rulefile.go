package operator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hap-worker/hap-worker/engine/rule"
)

// ruleFile is what a file of rules says: hap.rule of a configuration or of a
// chart's values, rule alone, or a list and nothing else; or the four lists of the
// older form, below hap or alone.
type ruleFile struct {
	texts    []string
	older    *rule.Lists // nil where the file has a rule list
	plans    rule.Plans  // the built-in table with hap.plans above it
	internal []string
}

// ruleKeys are the keys of either form of the rules.
type ruleKeys struct {
	Rule               yaml.Node `yaml:"rule"`
	PlatformRegionRule yaml.Node `yaml:"platformRegionRule"`
	ClusterRegionRule  yaml.Node `yaml:"clusterRegionRule"`
	SharedRule         yaml.Node `yaml:"sharedRule"`
	EUAccessRule       yaml.Node `yaml:"euAccessRule"`
}

// olderKey is a key of the older form that is there.
type olderKey struct {
	name string
	node *yaml.Node
	list func(*rule.Lists) *string
}

// older are the keys of the older form that are there.
func (k *ruleKeys) older() []olderKey {
	all := []olderKey{
		{rule.KeyPlatformRegion, &k.PlatformRegionRule, func(l *rule.Lists) *string { return &l.PlatformRegion }},
		{rule.KeyClusterRegion, &k.ClusterRegionRule, func(l *rule.Lists) *string { return &l.ClusterRegion }},
		{rule.KeyShared, &k.SharedRule, func(l *rule.Lists) *string { return &l.Shared }},
		{rule.KeyEUAccess, &k.EUAccessRule, func(l *rule.Lists) *string { return &l.EUAccess }},
	}
	return slices.DeleteFunc(all, func(key olderKey) bool { return key.node.IsZero() })
}

type ruleDocument struct {
	ruleKeys `yaml:",inline"`
	HAP      struct {
		ruleKeys `yaml:",inline"`
		Plans    map[string]rule.Plan `yaml:"plans"`
		Internal []string             `yaml:"internalGlobalAccounts"`
	} `yaml:"hap"`
}

// readRules reads a file of rules, standard input for "-". A file that is no
// file of rules is a rule.Faults.
func (s *shell) readRules(path string) (ruleFile, error) {
	var content []byte
	var err error
	if path == "-" {
		content, err = io.ReadAll(s.stdin)
	} else {
		content, err = os.ReadFile(path)
	}
	if err != nil {
		return ruleFile{}, fmt.Errorf("read the rules: %w", err)
	}
	return parseRuleFile(content)
}

func parseRuleFile(content []byte) (ruleFile, error) {
	root, err := onlyDocument(content)
	if err != nil {
		return ruleFile{}, err
	}
	file := ruleFile{plans: rule.BuiltinPlans()}
	if root.Kind == yaml.SequenceNode {
		file.texts, err = ruleTexts(root)
		return file, err
	}
	var doc ruleDocument
	if err := root.Decode(&doc); err != nil {
		return ruleFile{}, fileFault("%s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := doc.rules(&file); err != nil {
		return ruleFile{}, err
	}
	file.internal = doc.HAP.Internal
	file.plans, err = file.plans.With(doc.HAP.Plans)
	return file, err
}

// onlyDocument is the content of the one YAML document of a file.
func onlyDocument(content []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var doc, second yaml.Node
	err := decoder.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, noRules("the file is empty")
	case err != nil:
		return nil, fileFault("the file is no YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, fileFault("the file has something after its first YAML document; keep one document")
	}
	root := doc.Content[0]
	if root.Kind != yaml.SequenceNode && root.Kind != yaml.MappingNode {
		return nil, noRules("the file has no rules")
	}
	return root, nil
}

// rules reads whichever of the forms the document has.
func (d *ruleDocument) rules(file *ruleFile) (err error) {
	older, inHAP, alone := d.HAP.older(), !d.HAP.Rule.IsZero(), !d.Rule.IsZero()
	if outside := d.older(); len(older) > 0 && len(outside) > 0 {
		return fileFault("the file has both hap.%s and %s; keep one of them", older[0].name, outside[0].name)
	} else if len(older) == 0 {
		older = outside
	}
	switch {
	case inHAP && alone:
		return fileFault("the file has both hap.rule and rule; keep one of them")
	case (inHAP || alone) && len(older) > 0:
		return fileFault("the file has both rule and the older %s; keep one form", olderNames(older))
	case len(older) > 0:
		file.older, err = ruleLists(older)
	case inHAP:
		file.texts, err = ruleTexts(&d.HAP.Rule)
	case alone:
		file.texts, err = ruleTexts(&d.Rule)
	default:
		err = noRules("the file has no rules")
	}
	return err
}

func olderNames(keys []olderKey) string {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = key.name
	}
	return strings.Join(names, ", ")
}

// ruleLists are the lists of the older form. An empty value is an empty list.
func ruleLists(keys []olderKey) (*rule.Lists, error) {
	var lists rule.Lists
	for _, key := range keys {
		node := key.node
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		switch {
		case node.Tag == "!!null":
		case node.Kind != yaml.ScalarNode:
			return nil, fileFault("line %d: %s is no text; write its members with semicolons between them", node.Line, key.name)
		default:
			*key.list(&lists) = node.Value
		}
	}
	return &lists, nil
}

// compile compiles whichever form the file has.
func (f ruleFile) compile(opts rule.Options) (*rule.Ruleset, error) {
	opts.Plans, opts.InternalTenants = f.plans, f.internal
	if f.older != nil {
		return rule.CompileLists(*f.older, opts)
	}
	return rule.Compile(f.texts, opts)
}

// check finds every fault of whichever form the file has, and counts what it has.
func (f ruleFile) check(opts rule.Options) (faults rule.Faults, warnings []rule.Fault, has string) {
	if f.older == nil {
		faults, warnings = rule.Check(f.texts, opts)
		return faults, warnings, count(len(f.texts), "rule")
	}
	faults, warnings = rule.CheckLists(*f.older, opts)
	members, _ := f.older.Members()
	return faults, warnings, count(len(members), "member") + " of the older lists"
}

// ruleTexts are the items of the list. One that is no text is taken as it stands
// in the file, so that the parser of rules finds fault with it like with any other.
func ruleTexts(node *yaml.Node) ([]string, error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch {
	case node.Tag == "!!null":
		return nil, noRules("rule is empty")
	case node.Kind != yaml.SequenceNode:
		return nil, fileFault("line %d: rule is no list; write each rule as an item of its own", node.Line)
	}
	texts := make([]string, len(node.Content))
	for i, item := range node.Content {
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		switch {
		case item.Tag == "!!null":
		case item.Kind == yaml.ScalarNode:
			texts[i] = item.Value
		default:
			item.Style = yaml.FlowStyle
			source, err := yaml.Marshal(item)
			if err != nil {
				return nil, fileFault("line %d: %v", item.Line, err)
			}
			texts[i] = strings.TrimSpace(string(source))
		}
	}
	return texts, nil
}

func fileFault(text string, args ...any) error {
	return rule.Faults{{Kind: rule.Syntax, Message: fmt.Sprintf(text, args...)}}
}

func noRules(what string) error {
	return rule.Faults{{Kind: rule.PlanFault, Message: what + "; write them as hap.rule, as rule, or as a list"}}
}
