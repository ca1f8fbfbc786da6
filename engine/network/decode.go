package network

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/hap-worker/hap-worker/engine/spelling"
)

// decoder makes a Config of a document. Beside each thing that is checked against
// others it keeps where that stands.
type decoder struct {
	*reader

	cidrs []placedCIDR // of all parents
	rules []placedRule // as in the Config
}

type placedCIDR struct {
	node
	prefix netip.Prefix
}

type placedRule struct {
	id         node
	injections []placedInjection
	unclear    bool // the selector has a fault, so nobody knows what it matches
}

type placedInjection struct {
	id, size node
	parents  []placed
	paths    []placed // as the document has them; the pointers are in the Injection
	all      node
}

type placed struct {
	node
	text string
}

func (d *decoder) config(spec fields) *Config {
	c := &Config{}
	if n, ok := spec["internalStateRefreshCycleDuration"]; ok {
		c.Refresh = d.refresh(n)
	}
	if n, ok := spec["parentCIDRs"]; ok {
		parents := d.mapping(n)
		for _, id := range slices.Sorted(maps.Keys(parents)) {
			c.Parents = append(c.Parents, Parent{ID: id, CIDRs: d.parent(parents[id], id)})
		}
	}
	if n, ok := spec["injectionRules"]; ok {
		for _, item := range d.list(n) {
			c.Rules = append(c.Rules, d.rule(item))
		}
	}
	return c
}

func (d *decoder) refresh(n node) time.Duration {
	if number, ok := n.value.(int); ok {
		if number != 0 {
			d.fault(n, Value, "%d has no unit; write a duration such as 24h, or 0 for never", number)
		}
		return 0
	}
	text, ok := d.text(n)
	if !ok {
		return 0
	}
	every, err := time.ParseDuration(text)
	if err != nil || every < 0 {
		d.fault(n, Value, "%q is no duration; write one such as 24h, or 0 for never", text)
	}
	return every
}

func (d *decoder) parent(n node, id string) []netip.Prefix {
	if id == "" {
		d.fault(n, Value, "a parent has no name")
	}
	var list []netip.Prefix
	for _, item := range d.list(n) {
		if text, ok := d.text(item); ok {
			if prefix, ok := d.cidr(item, text); ok {
				list = append(list, prefix)
				d.cidrs = append(d.cidrs, placedCIDR{node: item, prefix: prefix})
			}
		}
	}
	if items, ok := n.value.([]any); ok && len(items) == 0 {
		d.warn(n, Unused, "the parent %s has no CIDR; nothing can be allotted from it", id)
	}
	return list
}

func (d *decoder) cidr(n node, text string) (netip.Prefix, bool) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || !prefix.Addr().Is4() {
		d.fault(n, Value, "%q is no IPv4 CIDR; write one such as 10.27.0.0/16", text)
		return netip.Prefix{}, false
	}
	if prefix != prefix.Masked() {
		d.warn(n, Value, "%s is read as %s; its host bits are cleared", text, prefix.Masked())
	}
	return prefix.Masked(), true
}

func (d *decoder) rule(n node) Rule {
	all := d.object(n, "id", "matchIdentities", "matchIdentity", "matchLabels", "matchExpressions", "matchPurposes", "injections")
	where := placedRule{id: n.field("id")}
	rule := Rule{ID: d.required(n, all, "id")}
	before := len(d.faults)
	rule.Selector = d.selector(n, all)
	where.unclear = len(d.faults) > before
	if list, ok := all["injections"]; ok {
		for _, item := range d.list(list) {
			injection, at := d.injection(item)
			rule.Injections, where.injections = append(rule.Injections, injection), append(where.injections, at)
		}
	}
	if len(rule.Injections) == 0 {
		d.warn(n.field("injections"), Unused, "the rule has no injections and does nothing")
	}
	d.rules = append(d.rules, where)
	return rule
}

// required is a text that must be there.
func (d *decoder) required(n node, all fields, name string) string {
	if _, ok := all[name]; !ok && all != nil {
		d.fault(n.field(name), Syntax, "this is missing")
	}
	return d.optional(all, name)
}

func (d *decoder) injection(n node) (Injection, placedInjection) {
	all := d.object(n, "id", "path", "paths", "parents", "subnetSize")
	where := placedInjection{id: n.field("id"), size: n.field("subnetSize"), all: n}
	in := Injection{ID: d.optional(all, "id"), Size: -1}
	if all == nil {
		return in, where
	}
	if path, ok := all["path"]; ok {
		d.path(&in, &where, path)
	}
	if list, ok := all["paths"]; ok {
		for _, item := range d.list(list) {
			d.path(&in, &where, item)
		}
	}
	if len(where.paths) == 0 {
		d.fault(n.field("path"), Syntax, "this is missing; write path, or a list as paths")
	}
	if list, ok := all["parents"]; ok {
		for _, item := range d.list(list) {
			if id, ok := d.text(item); ok {
				in.Parents, where.parents = append(in.Parents, id), append(where.parents, placed{item, id})
			}
		}
	}
	if size, ok := all["subnetSize"]; !ok {
		d.fault(where.size, Syntax, "this is missing; write the prefix length of the block, 0 to 32")
	} else if ok {
		in.Size = d.size(size)
	}
	return in, where
}

// size is -1 where it is none.
func (d *decoder) size(n node) int {
	size, ok := d.whole(n)
	if !ok {
		return -1
	}
	if size < 0 || size > 32 {
		d.fault(n, Value, "%d is no prefix length of IPv4; write one from 0 to 32", size)
		return -1
	}
	return size
}

func (d *decoder) path(in *Injection, where *placedInjection, n node) {
	text, ok := d.text(n)
	if !ok {
		text = "" // told already; it is not missing as well
	}
	where.paths = append(where.paths, placed{n, text})
	pointer, err := Pointer(text)
	if err != nil {
		d.fault(n, Value, "%v", err)
		ok = false
	}
	if !ok {
		in.Paths = append(in.Paths, unreadPath)
		return
	}
	if pointer == "" {
		d.warn(n, Value, "this is the root: the CIDR would stand in place of the whole manifest")
	}
	in.Paths = append(in.Paths, pointer)
}

// unreadPath stands for a path that is no path, so that it is compared with none.
const unreadPath = "unread"

func (d *decoder) selector(n node, all fields) Selector {
	s := Selector{}
	s.ByIdentity, s.Identities = d.identities(n, all)
	if m, ok := all["matchLabels"]; ok {
		pairs := d.mapping(m)
		for _, key := range slices.Sorted(maps.Keys(pairs)) {
			if value, ok := d.text(pairs[key]); ok {
				d.require(&s, pairs[key], key, selection.Equals, []string{value})
			}
		}
	}
	if list, ok := all["matchExpressions"]; ok {
		for _, item := range d.list(list) {
			d.expression(&s, item)
		}
	}
	if list, ok := all["matchPurposes"]; ok {
		for _, item := range d.list(list) {
			if p, ok := d.purposes(item); ok {
				s.Purposes = append(s.Purposes, p)
			}
		}
	}
	if s.ByIdentity && len(s.Labels)+len(s.Purposes) > 0 {
		d.warn(n, Unused, "matchIdentities outrules the other selectors; they have no effect")
	}
	return s
}

// identities reads either spelling; both at once is a fault.
func (d *decoder) identities(n node, all fields) (bool, []Identity) {
	list, plural := all["matchIdentities"]
	one, singular := all["matchIdentity"]
	switch {
	case plural && singular:
		d.fault(n.field("matchIdentity"), Duplicate, "matchIdentities says the same; keep one of them")
		return true, nil
	case singular:
		list = one
	case !plural:
		return false, nil
	}
	items := []node{list}
	if _, object := list.value.(map[string]any); !object {
		items = d.list(list)
	}
	var identities []Identity
	for _, item := range items {
		f := d.object(item, "name", "namespace")
		id := Identity{Name: d.optional(f, "name"), Namespace: d.optional(f, "namespace")}
		switch {
		case id.Name != "":
			identities = append(identities, id)
			if id.Namespace == "" {
				d.warn(item, Value, "without a namespace this matches a cluster without one only")
			}
		case id.Namespace != "":
			d.fault(item.field("name"), Syntax, "this is missing; a namespace alone names no cluster")
		}
	}
	if len(identities) == 0 {
		d.warn(list, Unused, "this names no cluster, so the rule matches none; leave it out to match by the other selectors")
	}
	return true, identities
}

// expressionOperators are those of matchExpressions, as Kubernetes has them.
var expressionOperators = map[string]selection.Operator{
	"In": selection.In, "NotIn": selection.NotIn, "Exists": selection.Exists, "DoesNotExist": selection.DoesNotExist,
}

func (d *decoder) expression(s *Selector, n node) {
	all := d.object(n, "key", "operator", "values")
	key, name := d.required(n, all, "key"), d.required(n, all, "operator")
	var values []string
	if list, ok := all["values"]; ok {
		values = d.texts(list)
	}
	operator, ok := expressionOperators[name]
	if !ok {
		d.noOperator(n.field("operator"), name, slices.Sorted(maps.Keys(expressionOperators)))
		return
	}
	takes := operator == selection.In || operator == selection.NotIn
	switch {
	case takes && len(values) == 0:
		d.fault(n.field("values"), Value, "%s needs values", name)
	case !takes && len(values) > 0:
		d.fault(n.field("values"), Value, "%s must have no values", name)
	default:
		d.require(s, n, key, operator, values)
	}
}

// noOperator tells of one that does not exist; none at all is told elsewhere.
func (d *decoder) noOperator(n node, name string, known []string) {
	if name == "" && n.value == nil {
		return
	}
	hint := "the operators are " + strings.Join(known, ", ")
	if meant := spelling.Closest(name, known); meant != "" {
		hint = "did you mean " + meant + "?"
	}
	d.fault(n, Value, "there is no operator %q; %s", name, hint)
}

func (d *decoder) require(s *Selector, n node, key string, operator selection.Operator, values []string) {
	requirement, err := labels.NewRequirement(key, operator, values)
	if err != nil {
		if key != "" || operator == selection.Equals {
			d.fault(n, Value, "no label: %v", err)
		}
		return
	}
	s.Labels = append(s.Labels, *requirement)
}

func (d *decoder) purposes(n node) (Purposes, bool) {
	all := d.object(n, "operator", "values")
	name := d.required(n, all, "operator")
	p := Purposes{Operator: Operator(name)}
	if list, ok := all["values"]; ok {
		p.Values = d.texts(list)
	}
	known := []string{string(ContainsAll), string(ContainsAny), string(ContainsNone), string(Equals)}
	if !slices.Contains(known, name) {
		d.noOperator(n.field("operator"), name, known)
		return p, false
	}
	return p, true
}
