package policy

import (
	"strings"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"
)

// Policy is what a cluster admin prefers: a rule for each interface, or for all
// that have none of their own.
type Policy struct {
	Rules []Rule // in the order of the document

	byKey map[string]*Rule
}

// Rule lists the alternatives for one key, the preferred one first. A rule
// without alternatives denies.
type Rule struct {
	Key   string // path, path:revision or cap.*
	Line  int
	OneOf []Alternative
}

// Alternative is a set of constraints, and what is injected into an
// Implementation that meets all of them.
type Alternative struct {
	Constraints Constraints
	Inject      []Injection
}

// Constraints narrow the Implementations of an Interface. The zero value takes
// every one that the system satisfies.
type Constraints struct {
	Path       string // of the Implementation, in any revision; "" for any
	Attributes []Ref  // the Implementation has every one
	Requires   []Ref  // the Implementation lists every one in its requirements
}

// Injection is a TypeInstance that an Implementation gets if it requires its
// Type under an alias.
type Injection struct {
	ID   string
	Type Ref
}

// supported are the versions of the policy document, no pre-releases.
var supported = func() *semver.Constraints {
	c, err := semver.NewConstraint("^0.1")
	if err != nil {
		panic(err)
	}
	return c
}()

// Parse reads a policy. The error is a Faults that has everything that is wrong
// with it.
func Parse(content []byte) (*Policy, error) {
	var r reader
	p := r.policy(content)
	if err := r.faults.orNil(); err != nil {
		return nil, err
	}
	p.byKey = make(map[string]*Rule, len(p.Rules))
	for i := range p.Rules {
		p.byKey[p.Rules[i].Key] = &p.Rules[i]
	}
	return p, nil
}

func (r *reader) policy(content []byte) *Policy {
	p := &Policy{}
	root := r.document(content, "apiVersion and rules")
	if root == nil {
		return p
	}
	o, ok := r.object(root, "", "apiVersion", "rules")
	if !ok {
		return p
	}
	r.apiVersion(o)
	rules, ok := o.fields["rules"]
	if !ok {
		r.fault(o.line, "rules", Missing, "is missing; write rules: {} for a policy that has none")
		return p
	}
	entries, _ := r.mapping(rules, "rules")
	for _, e := range entries {
		p.Rules = append(p.Rules, r.rule(e))
	}
	return p
}

func (r *reader) apiVersion(o object) {
	const at = "apiVersion"
	n, ok := o.fields[at]
	if !ok {
		r.fault(o.line, at, Missing, `is missing; write apiVersion: "0.1.0"`)
		return
	}
	if n = r.follow(n, at); n == nil {
		return
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		r.fault(n.Line, at, Version, `is %s; write it as a string, "0.1.0"`, r.describe(n))
		return
	}
	version, err := semver.NewVersion(n.Value)
	if err != nil || !supported.Check(version) {
		r.fault(n.Line, at, Version, `%q is not supported; write "0.1.0", or another release of 0.1`, n.Value)
	}
}

func (r *reader) rule(e entry) Rule {
	at := item("rules", e.key)
	if fault := keyFault(e.key); fault != "" {
		r.fault(e.line, at, Syntax, "%s", fault)
	}
	rule := Rule{Key: e.key, Line: e.line}
	o, ok := r.object(e.value, at, "oneOf")
	if !ok {
		return rule
	}
	oneOf, ok := o.fields["oneOf"]
	if !ok {
		r.fault(e.line, below(at, "oneOf"), Missing, "is missing; list the alternatives, or write oneOf: [] to deny")
		return rule
	}
	items, _ := r.list(oneOf, below(at, "oneOf"))
	for i, n := range items {
		rule.OneOf = append(rule.OneOf, r.alternative(n, item(below(at, "oneOf"), i)))
	}
	return rule
}

// keyFault says what is wrong with the key of a rule, or "".
func keyFault(key string) string {
	if key == Anything {
		return ""
	}
	path, revision, revised := strings.Cut(key, ":")
	switch {
	case strings.Contains(key, "*"):
		return "the only key with a * is cap.*; write that, or the path of one interface"
	case !pathForm.MatchString(path):
		return "is no rule key; write the path of an interface, path:revision, or cap.*"
	case revised && !revisionForm.MatchString(revision):
		return "its revision is not of three numbers; write one such as " + path + ":0.1.0, or no revision for any"
	}
	return ""
}

func (r *reader) alternative(n *yaml.Node, at string) Alternative {
	var a Alternative
	o, ok := r.object(n, at, "implementationConstraints", "injectTypeInstances")
	if !ok {
		return a
	}
	if constraints, ok := o.fields["implementationConstraints"]; ok {
		a.Constraints = r.constraints(constraints, below(at, "implementationConstraints"))
	}
	if inject, ok := o.fields["injectTypeInstances"]; ok {
		at := below(at, "injectTypeInstances")
		items, _ := r.list(inject, at)
		for i, n := range items {
			a.Inject = append(a.Inject, r.injection(n, item(at, i)))
		}
	}
	return a
}

func (r *reader) constraints(n *yaml.Node, at string) Constraints {
	var c Constraints
	o, ok := r.object(n, at, "path", "attributes", "requires")
	if !ok {
		return c
	}
	if _, ok := o.fields["path"]; ok {
		c.Path = r.path(o, "path", "cap.implementation.bitnami.postgresql.install")
	}
	c.Attributes = r.refs(o, "attributes", "cap.attribute.cloud.provider.gcp")
	c.Requires = r.refs(o, "requires", "cap.type.gcp.auth.service-account")
	return c
}

// refs reads a list of paths with or without revision.
func (r *reader) refs(o object, field, example string) []Ref {
	n, ok := o.fields[field]
	if !ok {
		return nil
	}
	at := below(o.at, field)
	items, _ := r.list(n, at)
	var refs []Ref
	for i, n := range items {
		if o, ok := r.object(n, item(at, i), "path", "revision"); ok {
			refs = append(refs, Ref{Path: r.path(o, "path", example), Revision: r.revision(o, false)})
		}
	}
	return refs
}

func (r *reader) injection(n *yaml.Node, at string) Injection {
	var in Injection
	o, ok := r.object(n, at, "id", "typeRef")
	if !ok {
		return in
	}
	in.ID, _ = r.need(o, "id", "that of a TypeInstance")
	in.Type = r.typeRef(o, false)
	return in
}

// typeRef reads the field typeRef, which must be there.
func (r *reader) typeRef(o object, revised bool) Ref {
	const field, example = "typeRef", "cap.type.gcp.auth.service-account"
	n, ok := o.fields[field]
	if !ok {
		r.fault(o.line, below(o.at, field), Missing, "is missing; write typeRef: {path: %s}", example)
		return Ref{}
	}
	ref, ok := r.object(n, below(o.at, field), "path", "revision")
	if !ok {
		return Ref{}
	}
	return Ref{Path: r.path(ref, "path", example), Revision: r.revision(ref, revised)}
}

// Warnings are what is worth a look although the policy is valid: alternatives
// that are never reached, because one before them takes all that they would.
func (p *Policy) Warnings() []Fault {
	var all Faults
	for _, rule := range p.Rules {
		for i := range rule.OneOf {
			for j := range i {
				if rule.OneOf[j].Constraints.contain(rule.OneOf[i].Constraints) {
					all = append(all, Fault{
						Line: rule.Line, Path: item(below(item("rules", rule.Key), "oneOf"), i), Kind: Redundant,
						Message: "is never reached: " + item("oneOf", j) + " takes every implementation that it would; put it first, or leave it out",
					})
					break
				}
			}
		}
	}
	return all.sorted()
}

// contain reports whether whatever meets d meets c.
func (c Constraints) contain(d Constraints) bool {
	return (c.Path == "" || c.Path == d.Path) && coverEach(c.Attributes, d.Attributes) && coverEach(c.Requires, d.Requires)
}

// coverEach reports whether each of wide covers at least one of narrow.
func coverEach(wide, narrow []Ref) bool {
	for _, w := range wide {
		covered := false
		for _, n := range narrow {
			covered = covered || w.covers(n)
		}
		if !covered {
			return false
		}
	}
	return true
}
