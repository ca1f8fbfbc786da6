package network

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/spelling"
)

func selector(all document.Object) Selector {
	s := Selector{}
	s.ByIdentity, s.Identities = identities(all)
	if labels, ok := given(all, "matchLabels"); ok {
		for _, n := range byName(labels) {
			if value, ok := n.Text(); ok {
				n.Strange(spelling.Deceptive)
				require(&s, n, n.Name, selection.Equals, []string{value})
			}
		}
	}
	for _, item := range items(all, "matchExpressions") {
		expression(&s, item)
	}
	for _, item := range items(all, "matchPurposes") {
		if p, ok := purposes(item); ok {
			s.Purposes = append(s.Purposes, p)
		}
	}
	if s.ByIdentity && len(s.Labels)+len(s.Purposes) > 0 {
		all.Warn(Unused, "matchIdentities overrides the other selectors; they have no effect")
	}
	return s
}

// identities reads matchIdentities or matchIdentity, and reports whether one of them is there. Both at once
// are a fault.
func identities(all document.Object) (bool, []Identity) {
	list, plural := given(all, "matchIdentities")
	one, singular := given(all, "matchIdentity")
	switch {
	case plural && singular:
		one.Fault(document.Duplicate, "matchIdentities says the same; keep one of them")
		return true, nil
	case singular:
		list = one
	case !plural:
		return false, nil
	}
	items := []document.Node{list}
	if !list.Mapping() {
		items, _ = list.List()
	}
	var identities []Identity
	for _, item := range items {
		f, _ := item.Object("name", "namespace")
		id := Identity{Name: optional(f, "name"), Namespace: optional(f, "namespace")}
		switch {
		case id.Name != "":
			identities = append(identities, id)
			if id.Namespace == "" {
				item.Warn(document.Value, "there is no namespace: this matches only a cluster without a namespace")
			}
		case id.Namespace != "":
			item.Field("name").Fault(document.Missing, "is missing; a namespace alone names no cluster")
		}
	}
	if len(identities) == 0 {
		list.Warn(Unused, "this names no cluster, so the rule matches none; leave it out to match by the other selectors")
	}
	return true, identities
}

// expressionOperators are the operators of matchExpressions, named as in Kubernetes.
var expressionOperators = map[string]selection.Operator{
	"In": selection.In, "NotIn": selection.NotIn, "Exists": selection.Exists, "DoesNotExist": selection.DoesNotExist,
}

func expression(s *Selector, n document.Node) {
	all, _ := n.Object("key", "operator", "values")
	key, name := required(all, "key"), required(all, "operator")
	values := texts(all, "values")
	operator, ok := expressionOperators[name]
	if !ok {
		noOperator(all, name, slices.Sorted(maps.Keys(expressionOperators)))
		return
	}
	takes := operator == selection.In || operator == selection.NotIn
	switch {
	case takes && len(values) == 0:
		n.Field("values").Fault(document.Value, "%s needs values", name)
	case !takes && len(values) > 0:
		n.Field("values").Fault(document.Value, "%s must have no values", name)
	default:
		require(s, n, key, operator, values)
	}
}

// noOperator reports an operator that does not exist; a missing one is reported already.
func noOperator(o document.Object, name string, known []string) {
	if n, ok := given(o, "operator"); ok {
		n.Fault(document.Value, "there is no operator %q; %s", name, document.Meant(name, known))
	}
}

func require(s *Selector, n document.Node, key string, operator selection.Operator, values []string) {
	if slices.ContainsFunc(append([]string{key}, values...), deceptive) {
		return // reported already
	}
	requirement, err := labels.NewRequirement(key, operator, values)
	if err != nil {
		if key != "" || operator == selection.Equals {
			noLabel(n, key, values, err)
		}
		return
	}
	s.Labels = append(s.Labels, *requirement)
}

func deceptive(name string) bool {
	_, found := spelling.Deceptive(name)
	return found
}

// noLabel reports a requirement that Kubernetes refuses, with the first character that is not ASCII, if there
// is one.
func noLabel(n document.Node, key string, values []string, err error) {
	note := spelling.Note(key)
	for _, value := range values {
		note = cmp.Or(note, spelling.Note(value))
	}
	n.Fault(document.Value, "is no valid requirement of a label%s: %v", note, err)
}

func purposes(n document.Node) (Purposes, bool) {
	all, _ := n.Object("operator", "values")
	name := required(all, "operator")
	p := Purposes{Operator: Operator(name), Values: texts(all, "values")}
	known := []string{string(ContainsAll), string(ContainsAny), string(ContainsNone), string(Equals)}
	if !slices.Contains(known, name) {
		noOperator(all, name, known)
		return p, false
	}
	return p, true
}
