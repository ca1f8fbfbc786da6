package policy

import (
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/spelling"
)

// Policy has the preferences of a cluster admin: rules for single interfaces, and at most one
// rule for all other interfaces.
type Policy struct {
	Rules []Rule // in the order of the document
}

// Rule lists the alternatives for one key, the preferred one first. A rule without alternatives denies its
// interfaces: requests for them are refused.
type Rule struct {
	Key   string // path, path:revision or cap.*
	Line  int
	OneOf []Alternative
}

// Alternative is a set of constraints, and the injections for an Implementation that meets
// all of them.
type Alternative struct {
	Constraints Constraints
	Inject      []Injection
}

// Constraints select Implementations of an Interface. The zero value selects every
// Implementation whose requirements the system satisfies.
type Constraints struct {
	Path       string // of the Implementation, in any revision; "" selects any path
	Attributes []Ref  // the Implementation must have all of them
	Requires   []Ref  // the Implementation must require all of them
}

// Injection names a TypeInstance and its Type. An Implementation receives the TypeInstance if
// it requires that Type under an alias.
type Injection struct {
	ID   string
	Type Ref
}

// supported lists the supported versions of the policy document. It has no pre-releases.
var supported = func() *semver.Constraints {
	c, err := semver.NewConstraint("^0.1")
	if err != nil {
		panic(err)
	}
	return c
}()

// Parse reads a policy. The error is a [document.Faults].
func Parse(content []byte) (*Policy, error) {
	var r document.Reader
	p := &Policy{}
	if root, ok := r.One(content, "write apiVersion and rules"); ok {
		p.read(root)
	}
	if err := r.Faults.Sorted().OrNil(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Policy) read(root document.Node) {
	o, ok := root.Object("apiVersion", "rules")
	if !ok {
		return
	}
	apiVersion(o)
	rules, ok := o.Get("rules")
	if !ok {
		o.Missing("rules", "write rules: {} for a policy that has none")
		return
	}
	all, _ := rules.Object()
	for _, n := range all.Fields {
		p.Rules = append(p.Rules, ruleOf(n))
	}
}

func apiVersion(o document.Object) {
	n, ok := o.Get("apiVersion")
	if !ok {
		o.Missing("apiVersion", `write apiVersion: "0.1.0"`)
		return
	}
	text, ok := n.Scalar().(string)
	if !ok {
		n.Fault(Version, `%s; write it as a string, "0.1.0"`, n.Is())
		return
	}
	version, err := semver.NewVersion(text)
	if err != nil || !supported.Check(version) {
		if n.Strange(spelling.Foreign) {
			return
		}
		n.Fault(Version, `%q is not supported; write "0.1.0", or another release of 0.1`, text)
	}
}

func ruleOf(n document.Node) Rule {
	if fault := keyFault(n.Name); fault != "" && !n.StrangeName(spelling.Foreign) {
		n.KeyFault(document.Syntax, "%s", fault)
	}
	rule := Rule{Key: n.Name, Line: n.KeyLine}
	o, ok := n.Object("oneOf")
	if !ok {
		return rule
	}
	oneOf, ok := o.Get("oneOf")
	if !ok {
		n.Field("oneOf").KeyFault(document.Missing, "is missing; list the alternatives, or write oneOf: [] to deny")
		return rule
	}
	items, _ := oneOf.List()
	for _, n := range items {
		rule.OneOf = append(rule.OneOf, alternative(n))
	}
	return rule
}

// keyFault returns the error in the key of a rule, or "".
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

func alternative(n document.Node) Alternative {
	var a Alternative
	o, ok := n.Object("implementationConstraints", "injectTypeInstances")
	if !ok {
		return a
	}
	if n, ok := o.Get("implementationConstraints"); ok && !n.Null() {
		a.Constraints = constraints(n)
	}
	if inject, ok := o.Get("injectTypeInstances"); ok {
		items, _ := inject.List()
		for _, n := range items {
			a.Inject = append(a.Inject, injection(n))
		}
	}
	return a
}

func constraints(n document.Node) Constraints {
	var c Constraints
	o, ok := n.Object("path", "attributes", "requires")
	if !ok {
		return c
	}
	if _, ok := o.Get("path"); ok {
		c.Path = pathOf(o, "path", "cap.implementation.bitnami.postgresql.install")
	}
	if n, ok := o.Get("attributes"); ok {
		c.Attributes = refs(n, false, "cap.attribute.cloud.provider.gcp", "path", "revision")
	}
	if n, ok := o.Get("requires"); ok {
		c.Requires = refs(n, false, "cap.type.gcp.auth.service-account", "path", "revision")
	}
	return c
}

func injection(n document.Node) Injection {
	var in Injection
	o, ok := n.Object("id", "typeRef")
	if !ok {
		return in
	}
	in.ID, _ = need(o, "id", "that of a TypeInstance")
	in.Type = typeRef(o, false)
	return in
}

// typeRef reads the required field typeRef.
func typeRef(o document.Object, revised bool) Ref {
	const example = "cap.type.gcp.auth.service-account"
	n, ok := o.Get("typeRef")
	if !ok {
		o.Missing("typeRef", "write typeRef: {path: %s}", example)
		return Ref{}
	}
	ref, ok := n.Object("path", "revision")
	if !ok {
		return Ref{}
	}
	return Ref{Path: pathOf(ref, "path", example), Revision: revisionOf(ref, revised)}
}

// Warnings lists alternatives of a valid policy that can never be chosen, because one earlier
// alternative of their rule takes every Implementation that they would.
func (p *Policy) Warnings() document.Faults {
	var all document.Faults
	for _, rule := range p.Rules {
		for i := range rule.OneOf {
			for j := range i {
				if rule.OneOf[j].Constraints.contain(rule.OneOf[i].Constraints) {
					all = append(all, document.Fault{
						Line: rule.Line, Path: document.Item(document.Field(document.Field("rules", rule.Key), "oneOf"), i), Kind: Redundant,
						Message: "is never reached: " + document.Item("oneOf", j) + " takes every implementation that it would; put it first, or leave it out",
					})
					break
				}
			}
		}
	}
	return all.Sorted()
}

// contain reports whether every Implementation that meets d also meets c, by the constraints alone.
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
