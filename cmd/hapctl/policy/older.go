package policy

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/policy"
)

// convertPolicy converts the rules of an older installation to a policy document. content is a chart's values
// with clusterPolicyRules, below engine or at the top, or a policy, or only the rules. The rules are a map by
// interface, as in [policy.Parse], or a list whose items name their interface. Comments stay. If content is
// invalid, the error is a [document.Faults]. Faults of a list's items have their line in content; faults of a
// converted rule have their line in the converted document.
func convertPolicy(content []byte) (policyConvertView, error) {
	var r document.Reader
	r.One(content, "write engine.clusterPolicyRules")
	if err := r.Faults.Sorted().OrNil(); err != nil {
		return policyConvertView{}, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(content, &root); err != nil {
		return policyConvertView{}, fmt.Errorf("read the rules: %w", err)
	}
	rules := olderRules(root.Content[0])
	if rules.Kind == yaml.SequenceNode {
		var faults document.Faults
		if rules, faults = byInterface(rules); len(faults) > 0 {
			return policyConvertView{}, faults
		}
	}
	rules.Style, rules.Anchor = 0, ""
	version := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "0.1.0"}
	out := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar("apiVersion"), version, scalar("rules"), rules}}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(out); err != nil {
		return policyConvertView{}, fmt.Errorf("write the policy: %w", err)
	}
	checked, err := policy.Parse(text.Bytes())
	if err != nil {
		return policyConvertView{}, err
	}
	return policyConvertView{Document: text.String(), Rules: len(checked.Rules)}, nil
}

// olderRules goes from n through the keys engine, clusterPolicyRules and rules, skipping those that are missing. It
// returns the node that it reaches: the rules in a chart's values or in a policy, or n itself.
func olderRules(n *yaml.Node) *yaml.Node {
	for _, key := range []string{"engine", "clusterPolicyRules", "rules"} {
		if found := member(n, key); found != nil {
			n = found
		}
	}
	return n
}

// byInterface turns a list of rules into a map by interface. Items that name no interface, or that of an earlier
// item, are left out and are faults. So are unknown fields of an interface.
func byInterface(list *yaml.Node) (*yaml.Node, document.Faults) {
	var faults document.Faults
	fault := func(n *yaml.Node, kind document.Kind, message string) {
		faults = append(faults, document.Fault{Line: n.Line, Kind: kind, Message: message})
	}
	all := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, item := range list.Content {
		of := member(item, "interface")
		path, revision := member(of, "path"), member(of, "revision")
		if path == nil || path.Value == "" {
			fault(item, document.Missing, "the rule has no interface; write interface: {path: …}")
			continue
		}
		for i := 0; i < len(of.Content); i += 2 {
			if key := of.Content[i]; key.Value != "path" && key.Value != "revision" {
				fault(key, document.Unknown, fmt.Sprintf("interface.%s is no field here; there are path and revision", key.Value))
			}
		}
		key := path.Value
		if revision != nil && revision.Value != "" {
			key += ":" + revision.Value
		}
		rest := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for i := 0; i+1 < len(item.Content); i += 2 {
			if item.Content[i].Value != "interface" {
				rest.Content = append(rest.Content, item.Content[i], item.Content[i+1])
			}
		}
		if member(all, key) != nil {
			fault(item, document.Duplicate, fmt.Sprintf("%s has a rule already", key))
			continue
		}
		name := scalar(key)
		name.HeadComment = item.HeadComment
		all.Content = append(all.Content, name, rest)
	}
	return all, faults
}

// member returns the value of a key of a mapping, nil for none.
func member(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			found := n.Content[i+1]
			if found.Kind == yaml.AliasNode {
				return found.Alias
			}
			return found
		}
	}
	return nil
}

func scalar(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }
