package network

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/spelling"
)

// decoder reads a Config. It also keeps the places of the values that validate compares with each other.
type decoder struct {
	document.Reader

	cidrs []placedCIDR // of all parents, without those that are at fault
	rules []placedRule // in the order of Config.Rules
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

// given returns a field, and whether it has a value. null is no value.
func given(o document.Object, name string) (document.Node, bool) {
	n, ok := o.Get(name)
	return n, ok && !n.Null()
}

// items returns the items of an optional list.
func items(o document.Object, name string) []document.Node {
	n, ok := given(o, name)
	if !ok {
		return nil
	}
	list, _ := n.List()
	return list
}

// texts returns the strings of an optional list, nil if the list is absent.
func texts(o document.Object, name string) []string {
	n, ok := given(o, name)
	if !ok {
		return nil
	}
	all := []string{}
	list, _ := n.List()
	for _, item := range list {
		if text, ok := item.Text(); ok {
			all = append(all, text)
			item.Strange(spelling.Deceptive)
		}
	}
	return all
}

// byName returns the fields of an object that have a value, sorted by name.
func byName(n document.Node) []document.Node {
	o, _ := n.Object()
	fields := slices.DeleteFunc(o.Fields, document.Node.Null)
	for _, n := range fields {
		n.StrangeName(spelling.Deceptive)
	}
	slices.SortFunc(fields, func(a, b document.Node) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

// leastRefresh is the shortest refresh cycle: in each, every worker reads all blocks and the whole ledger.
const leastRefresh = time.Second

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
		n.Fault(document.Value, "%q is no positive duration; write one such as 24h, or 0 for never", text)
	}
	if every > 0 {
		every = max(every, leastRefresh)
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
	if n.Strange(spelling.Foreign) {
		return netip.Prefix{}, false
	}
	if err != nil || !prefix.Addr().Is4() {
		n.Fault(document.Value, "%q is no IPv4 CIDR; write one such as 10.27.0.0/16", text)
		return netip.Prefix{}, false
	}
	if prefix != prefix.Masked() {
		n.Warn(document.Value, "%s is read as %s; its host bits are cleared", text, prefix.Masked())
	}
	return prefix.Masked(), true
}

// specialPurpose lists the addresses that no cluster can use for a network: multicast, and the addresses of
// RFC 6890 that routers and hosts refuse. It leaves out 240.0.0.0/4, which clouds route.
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

// special reports whether the parent has addresses that no cluster can use, which is a fault.
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

// required returns the text of a required field. A missing field is a fault.
func required(o document.Object, name string) string {
	if _, ok := given(o, name); !ok && o.Mapping() {
		o.Field(name).Fault(document.Missing, "is missing")
	}
	return optional(o, name)
}

// optional returns the text of an optional field, "" if it is absent.
func optional(o document.Object, name string) string {
	n, ok := given(o, name)
	if !ok {
		return ""
	}
	text, _ := n.Text()
	n.Strange(spelling.Deceptive)
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
		if id, ok := item.Text(); ok && !item.Strange(spelling.Deceptive) {
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

// prefixLength returns -1 if the value is no prefix length of IPv4, which is a fault.
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
		text = "" // the fault is reported already; the path counts, so that no second fault says it is missing
	}
	where.paths = append(where.paths, placed{n, text})
	ok = ok && !n.Strange(spelling.Deceptive)
	var pointer string
	if ok {
		var err error
		if pointer, err = Pointer(text); err != nil {
			n.Fault(document.Value, "%v", err)
			ok = false
		}
	}
	if ok && pointer == "" { // a Shoot's patch has no such path
		n.Fault(document.Value, "is the root: the CIDR would stand in place of the whole manifest; name a field")
		ok = false
	}
	if !ok {
		in.Paths = append(in.Paths, unreadPath)
		return
	}
	in.Paths = append(in.Paths, pointer)
}

// unreadPath stands for an invalid path. It is never compared with other paths.
const unreadPath = "unread"
