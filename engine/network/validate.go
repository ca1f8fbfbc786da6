package network

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/spelling"
)

// validate checks the parts of a configuration against each other.
func (d *decoder) validate(c *Config) {
	d.parentsDisjoint()
	parents := map[string][]netip.Prefix{}
	for _, p := range c.Parents {
		parents[p.ID] = p.CIDRs
	}
	ids := map[string]document.Node{}
	for i, rule := range c.Rules {
		at := d.rules[i]
		d.ruleID(rule.ID, at.id, ids)
		d.injections(rule, at, parents)
		d.pathsOnce(rule, at)
	}
	d.pathsAcross(c)
}

// parentsDisjoint compares each CIDR with the innermost one around it: two CIDRs overlap only if one contains
// the other.
func (d *decoder) parentsDisjoint() {
	order := make([]int, len(d.cidrs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := d.cidrs[i].prefix, d.cidrs[j].prefix
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var around []int // the CIDRs around the present one, outermost first
	var pairs [][2]int
	for _, i := range order {
		for len(around) > 0 && !covers(d.cidrs[around[len(around)-1]].prefix, d.cidrs[i].prefix) {
			around = around[:len(around)-1]
		}
		if len(around) > 0 {
			outer := around[len(around)-1]
			pairs = append(pairs, [2]int{max(i, outer), min(i, outer)})
		}
		around = append(around, i)
	}
	slices.SortFunc(pairs, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	for _, pair := range pairs {
		later, earlier := d.cidrs[pair[0]], d.cidrs[pair[1]]
		todo := "no two parents may have addresses in common"
		if later.prefix == earlier.prefix && later.parent != earlier.parent {
			todo = "give it one id, and list that id in the parents of every injection that may use it"
		}
		later.Fault(Overlap, "%s overlaps %s of %s; %s", later.prefix, earlier.prefix, earlier.Path, todo)
	}
}

var ruleID = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func (d *decoder) ruleID(id string, at document.Node, seen map[string]document.Node) {
	first, twice := seen[id]
	_, isText := at.Scalar().(string)
	switch {
	case !isText || deceptive(id): // reported already
	case spelling.Fold(id) != id && at.Strange(spelling.Foreign):
	case !ruleID.MatchString(id):
		at.Fault(document.Value, "%q is no id of a rule; it has small letters, digits and -, and begins and ends with a letter or digit", id)
	case twice:
		at.Fault(document.Duplicate, "%s is the id of %s; ids are unique", id, strings.TrimSuffix(first.Path, ".id"))
	default:
		seen[id] = at
	}
}

// source is a parent or an earlier injection that an injection may slice from.
type source struct {
	name     string
	prefixes []int // lengths
}

// injections checks ids, parents and sizes of one rule.
func (d *decoder) injections(rule Rule, at placedRule, parents map[string][]netip.Prefix) {
	sizes := map[string]int{} // of earlier injections by id
	for i, in := range rule.Injections {
		where := at.injections[i]
		_, twice := sizes[in.ID]
		_, global := parents[in.ID]
		switch {
		case in.ID == "":
		case global:
			where.id.Fault(document.Duplicate, "%s is the id of a parent; an injection needs another", in.ID)
		case twice:
			where.id.Fault(document.Duplicate, "%s is the id of an earlier injection of this rule; ids are unique in it", in.ID)
		}
		d.room(in, where, d.sources(rule, i, where, parents, sizes), parents)
		if in.ID != "" && !twice && !global {
			sizes[in.ID] = in.Size
		}
	}
}

// sources returns what the i-th injection of a rule may slice from: the parents that it names, which are in
// parentCIDRs or are earlier injections of the rule. Any other name is a fault.
func (d *decoder) sources(rule Rule, i int, where placedInjection, parents map[string][]netip.Prefix, sizes map[string]int) []source {
	var found []source
	for _, p := range where.parents {
		if cidrs, ok := parents[p.text]; ok {
			s := source{name: p.text}
			for _, c := range cidrs {
				s.prefixes = append(s.prefixes, c.Bits())
			}
			found = append(found, s)
			continue
		}
		if size, ok := sizes[p.text]; ok {
			found = append(found, source{name: p.text, prefixes: []int{size}})
			continue
		}
		p.Fault(Reference, "%q %s", p.text, whyNoParent(rule, i, p.text, parents))
	}
	return found
}

func whyNoParent(rule Rule, i int, id string, parents map[string][]netip.Prefix) string {
	var known []string
	for name := range parents {
		known = append(known, name)
	}
	for j, in := range rule.Injections {
		switch {
		case in.ID == "":
		case j < i:
			known = append(known, in.ID)
		case in.ID == id && j == i:
			return "is this injection itself; only an earlier one can be a parent"
		case in.ID == id:
			return "is a later injection of this rule; only an earlier one can be a parent"
		}
	}
	slices.Sort(known)
	if meant := spelling.Closest(id, known); meant != "" {
		return "is neither a parent nor an earlier injection of this rule; did you mean " + meant + "?"
	}
	return "is neither a parent nor an earlier injection of this rule; add it to parentCIDRs"
}

// room checks that the block is smaller than every CIDR of the named parents or, if none is named, than at
// least one CIDR.
func (d *decoder) room(in Injection, where placedInjection, sources []source, parents map[string][]netip.Prefix) {
	if in.Size < 0 {
		return
	}
	for _, s := range sources {
		for _, bits := range s.prefixes {
			if bits >= in.Size {
				where.size.Fault(Size, "a /%d is not smaller than %s, which has a /%d; subnetSize must be larger than the prefix of every parent", in.Size, s.name, bits)
				break
			}
		}
	}
	if len(where.parents) > 0 {
		return
	}
	widest := 33
	for _, cidrs := range parents {
		for _, c := range cidrs {
			widest = min(widest, c.Bits())
		}
	}
	switch {
	case widest == 33:
		where.all.Field("parents").Fault(Reference, "there is no parent to slice from; add one to parentCIDRs")
	case widest >= in.Size:
		where.size.Fault(Size, "a /%d is not smaller than the widest parent, a /%d; subnetSize must be larger than the prefix of at least one", in.Size, widest)
	}
}

// pathsOnce reports a path that occurs twice in a rule.
func (d *decoder) pathsOnce(rule Rule, at placedRule) {
	seen := map[string]document.Node{}
	for i, in := range rule.Injections {
		for j, path := range in.Paths {
			where := at.injections[i].paths[j].Node
			if first, twice := seen[path]; twice && path != unreadPath {
				where.Fault(document.Duplicate, "%q is the path of %s, too", path, first.Path)
				continue
			}
			seen[path] = where
		}
	}
}

// use is a rule with a path, and the place of the path.
type use struct {
	rule int
	at   document.Node
}

// pathsAcross reports paths that are in two rules which one cluster can match, and warns where that is not known.
func (d *decoder) pathsAcross(c *Config) {
	users := map[string][]use{}
	for i, rule := range c.Rules {
		if d.rules[i].unclear {
			continue
		}
		here := map[string]bool{}
		for j, in := range rule.Injections {
			for k, path := range in.Paths {
				at := d.rules[i].injections[j].paths[k].Node
				if path == unreadPath || here[path] {
					continue
				}
				here[path] = true
				for _, other := range users[path] {
					d.shared(path, at, other.at, c.Rules[other.rule], meet(c.Rules[other.rule].Selector, rule.Selector))
				}
				users[path] = append(users[path], use{rule: i, at: at})
			}
		}
	}
}

func (d *decoder) shared(path string, at, other document.Node, earlier Rule, a answer) {
	switch a {
	case yes:
		at.Fault(Conflict, "%q is a path of rule %s (%s), too, and one cluster can match both", path, earlier.ID, other.Path)
	case maybe:
		at.Warn(Conflict, "%q is a path of rule %s (%s), too; a cluster that turns out to match both gets it from the first that is applied to it", path, earlier.ID, other.Path)
	case no:
	}
}
