package network

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/hap-worker/hap-worker/engine/document"
)

// decoder makes a Config of a document. Beside each thing that is checked against
// others it keeps where that stands.
type decoder struct {
	document.Reader

	cidrs []placedCIDR // of all parents
	rules []placedRule // as in the Config
}

type placedCIDR struct {
	document.Node
	parent string // its id
	prefix netip.Prefix
}

type placedRule struct {
	id         document.Node
	injections []placedInjection
	unclear    bool // the selector has a fault: what it matches is unknown
}

type placedInjection struct {
	id, size document.Node
	parents  []placed
	paths    []placed // as the document has them; the pointers are in the Injection
	all      document.Object
}

type placed struct {
	document.Node
	text string
}

func (d *decoder) config(spec document.Object) *Config {
	c := &Config{}
	if n, ok := given(spec, "internalStateRefreshCycleDuration"); ok {
		c.Refresh = refresh(n)
	}
	if n, ok := given(spec, "parentCIDRs"); ok {
		for _, n := range byName(n) {
			c.Parents = append(c.Parents, Parent{ID: n.Name, CIDRs: d.parent(n)})
		}
	}
	for _, item := range items(spec, "injectionRules") {
		c.Rules = append(c.Rules, d.rule(item))
	}
	return c
}

// given is a field that has a value; null is none.
func given(o document.Object, name string) (document.Node, bool) {
	n, ok := o.Get(name)
	return n, ok && !n.Null()
}

// items are those of a list that may be left out.
func items(o document.Object, name string) []document.Node {
	n, ok := given(o, name)
	if !ok {
		return nil
	}
	list, _ := n.List()
	return list
}

// texts are those of a list that may be left out.
func texts(o document.Object, name string) []string {
	n, ok := given(o, name)
	if !ok {
		return nil
	}
	return n.Texts()
}

// byName are the fields of an object that have a value, by their names.
func byName(n document.Node) []document.Node {
	o, _ := n.Object()
	fields := slices.DeleteFunc(o.Fields, document.Node.Null)
	slices.SortFunc(fields, func(a, b document.Node) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

func refresh(n document.Node) time.Duration {
	if number, ok := n.Scalar().(int); ok {
		if number != 0 {
			n.Fault(document.Value, "%d has no unit; write a duration such as 24h, or 0 for never", number)
		}
		return 0
	}
	text, ok := n.Text()
	if !ok {
		return 0
	}
	every, err := time.ParseDuration(text)
	if err != nil || every < 0 {
		n.Fault(document.Value, "%q is no duration; write one such as 24h, or 0 for never", text)
	}
	return every
}

func (d *decoder) parent(n document.Node) []netip.Prefix {
	if n.Name == "" {
		n.Fault(document.Value, "a parent has no name")
	}
	var list []netip.Prefix
	items, ok := n.List()
	for _, item := range items {
		if text, ok := item.Text(); ok {
			if prefix, ok := cidr(item, text); ok {
				list = append(list, prefix)
				if !special(item, prefix) {
					d.cidrs = append(d.cidrs, placedCIDR{Node: item, parent: n.Name, prefix: prefix})
				}
			}
		}
	}
	if ok && len(items) == 0 {
		n.Warn(Unused, "the parent %s has no CIDR; nothing can be allotted from it", n.Name)
	}
	return list
}

func cidr(n document.Node, text string) (netip.Prefix, bool) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || !prefix.Addr().Is4() {
		n.Fault(document.Value, "%q is no IPv4 CIDR; write one such as 10.27.0.0/16", text)
		return netip.Prefix{}, false
	}
	if prefix != prefix.Masked() {
		n.Warn(document.Value, "%s is read as %s; its host bits are cleared", text, prefix.Masked())
	}
	return prefix.Masked(), true
}

// specialPurpose are the addresses that no cluster can have a network of: RFC 6890, as far
// as routers and hosts refuse them. 240.0.0.0/4 is not among them: clouds route it.
var specialPurpose = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("255.255.255.255/32"), "broadcast"},
}

// special refuses a parent with addresses that can never be right, and reports whether it did.
func special(n document.Node, parent netip.Prefix) bool {
	for _, s := range specialPurpose {
		if parent.Overlaps(s.prefix) {
			n.Fault(document.Value, "%s has addresses of %s (%s), which no cluster can use; name the range that you own", parent, s.prefix, s.what)
			return true
		}
	}
	return false
}

func (d *decoder) rule(n document.Node) Rule {
	all, _ := n.Object("id", "matchIdentities", "matchIdentity", "matchLabels", "matchExpressions", "matchPurposes", "injections")
	where := placedRule{}
	where.id, _ = all.Get("id")
	rule := Rule{ID: required(all, "id")}
	before := len(d.Faults)
	rule.Selector = selector(all)
	where.unclear = len(d.Faults) > before
	for _, item := range items(all, "injections") {
		injection, at := injection(item)
		rule.Injections, where.injections = append(rule.Injections, injection), append(where.injections, at)
	}
	if len(rule.Injections) == 0 {
		n.Field("injections").Warn(Unused, "the rule has no injections and does nothing")
	}
	d.rules = append(d.rules, where)
	return rule
}

// required is a text that must be there.
func required(o document.Object, name string) string {
	if _, ok := given(o, name); !ok && o.Mapping() {
		o.Field(name).Fault(document.Missing, "is missing")
	}
	return optional(o, name)
}

// optional is a text that may be left out.
func optional(o document.Object, name string) string {
	n, ok := given(o, name)
	if !ok {
		return ""
	}
	text, _ := n.Text()
	return text
}

func injection(n document.Node) (Injection, placedInjection) {
	all, isObject := n.Object("id", "path", "paths", "parents", "subnetSize")
	where := placedInjection{all: all}
	where.id, _ = all.Get("id")
	where.size, _ = all.Get("subnetSize")
	in := Injection{ID: optional(all, "id"), Size: -1}
	if !isObject {
		return in, where
	}
	if path, ok := given(all, "path"); ok {
		injectedAt(&in, &where, path)
	}
	for _, item := range items(all, "paths") {
		injectedAt(&in, &where, item)
	}
	if len(where.paths) == 0 {
		n.Field("path").Fault(document.Missing, "is missing; write path, or a list as paths")
	}
	for _, item := range items(all, "parents") {
		if id, ok := item.Text(); ok {
			in.Parents, where.parents = append(in.Parents, id), append(where.parents, placed{item, id})
		}
	}
	if size, ok := given(all, "subnetSize"); !ok {
		where.size.Fault(document.Missing, "is missing; write the prefix length of the block, 0 to 32")
	} else {
		in.Size = prefixLength(size)
	}
	return in, where
}

// prefixLength is -1 where it is none.
func prefixLength(n document.Node) int {
	size, ok := n.Whole()
	if !ok {
		return -1
	}
	if size < 0 || size > 32 {
		n.Fault(document.Value, "%d is no prefix length of IPv4; write one from 0 to 32", size)
		return -1
	}
	return size
}

func injectedAt(in *Injection, where *placedInjection, n document.Node) {
	text, ok := n.Text()
	if !ok {
		text = "" // told already; it is not missing as well
	}
	where.paths = append(where.paths, placed{n, text})
	pointer, err := Pointer(text)
	if err != nil {
		n.Fault(document.Value, "%v", err)
		ok = false
	}
	if !ok {
		in.Paths = append(in.Paths, unreadPath)
		return
	}
	if pointer == "" {
		n.Warn(document.Value, "is the root: the CIDR would stand in place of the whole manifest")
	}
	in.Paths = append(in.Paths, pointer)
}

// unreadPath stands for a path that is no path, so that it is compared with none.
const unreadPath = "unread"

func selector(all document.Object) Selector {
	s := Selector{}
	s.ByIdentity, s.Identities = identities(all)
	if labels, ok := given(all, "matchLabels"); ok {
		for _, n := range byName(labels) {
			if value, ok := n.Text(); ok {
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
		all.Warn(Unused, "matchIdentities outrules the other selectors; they have no effect")
	}
	return s
}

// identities reads either spelling; both at once is a fault.
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
				item.Warn(document.Value, "without a namespace this matches a cluster without one only")
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

// expressionOperators are those of matchExpressions, as Kubernetes has them.
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
	requirement, err := labels.NewRequirement(key, operator, values)
	if err != nil {
		if key != "" || operator == selection.Equals {
			n.Fault(document.Value, "no label: %v", err)
		}
		return
	}
	s.Labels = append(s.Labels, *requirement)
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
