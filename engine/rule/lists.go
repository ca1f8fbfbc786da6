package rule

import (
	"fmt"
	"strings"
)

// Lists are the older form of rules: four independent lists. The members of a list are separated by
// semicolons,
//
//	member = plan | plan ":" region | plan ":" "*" | "*" ":" region
//
// and a list with a member that is true for a request has its effect on the pool. An empty text is an empty
// list. Without any member, every request of an existing plan gets the plain pool of its provider.
type Lists struct {
	// PlatformRegion is platformRegionRule: the platform region becomes part of the
	// hyperscaler type. As in Shared and EUAccess, the region of a member is compared
	// with the platform region.
	PlatformRegion string
	// ClusterRegion is clusterRegionRule: the hyperscaler region becomes part of the
	// hyperscaler type. The region of a member is compared with both regions.
	ClusterRegion string
	// Shared is sharedRule: the bindings are shared between tenants.
	Shared string
	// EUAccess is euAccessRule: the bindings have euAccess.
	EUAccess string
}

// The keys of the four lists in a configuration, in the order of the outputs.
const (
	KeyPlatformRegion = "platformRegionRule"
	KeyClusterRegion  = "clusterRegionRule"
	KeyShared         = "sharedRule"
	KeyEUAccess       = "euAccessRule"
)

// olderName is the name of the openstack plan in the older lists, newerName its name today.
const (
	olderName = "openstack"
	newerName = "sap-converged-cloud"
)

// list is one of the four lists.
type list struct {
	key    string
	text   string
	output Outputs // the effect, in the words of the rule list
}

func (l Lists) each() [4]list {
	return [4]list{
		{KeyPlatformRegion, l.PlatformRegion, OutputPlatformRegion},
		{KeyClusterRegion, l.ClusterRegion, OutputHyperscalerRegion},
		{KeyShared, l.Shared, OutputShared},
		{KeyEUAccess, l.EUAccess, OutputEUAccess},
	}
}

// Member is one member of one of the four lists.
type Member struct {
	Plan   string // "" is any plan
	Region string // "" is any region
}

// String returns the canonical text of the member: "trial", "trial:eu" or "*:eu".
func (m Member) String() string {
	plan := m.Plan
	if plan == "" {
		plan = "*"
	}
	if m.Region == "" {
		return plan
	}
	return plan + ":" + m.Region
}

// Listed is a member with its place.
type Listed struct {
	Member
	Key    string // of its list
	Number int    // in its list, counted from 1
	Text   string // as it was given, without white space around it
}

// String returns the list and the member, as answers show them.
func (l Listed) String() string { return l.Key + " " + l.Member.String() }

func (l Listed) fault(kind Kind, format string, args ...any) Fault {
	return Fault{Key: l.Key, Rule: l.Number, Text: l.Text, Column: 1, Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// covers reports whether l makes o superfluous. Both must be of the same list.
func (l Listed) covers(o Listed) bool {
	return (l.Plan == "" || l.Plan == o.Plan) && (l.Region == "" || l.Region == o.Region)
}

// Members returns the members of the four lists that can be parsed, and the faults of the others. It does not
// check whether their plans exist.
func (l Lists) Members() ([]Listed, Faults) {
	var members []Listed
	var faults Faults
	for _, of := range l.each() {
		found, wrong := parseList(of.key, of.text)
		members, faults = append(members, found...), append(faults, wrong...)
	}
	return members, faults
}

// Count returns the number of members of the four lists, valid or not.
func (l Lists) Count() int {
	n := 0
	for _, of := range l.each() {
		if strings.Trim(of.text, space) != "" {
			n += strings.Count(of.text, ";") + 1
		}
	}
	return n
}

// ParseList parses one list. The error is a Faults with the faults of all members. A fault's column is counted
// from the first character of its member; white space before the member does not count.
func ParseList(text string) ([]Member, error) {
	listed, faults := parseList("", text)
	members := make([]Member, len(listed))
	for i := range listed {
		members[i] = listed[i].Member
	}
	return members, faults.orNil()
}

func parseList(key, text string) ([]Listed, Faults) {
	if strings.Trim(text, space) == "" {
		return nil, nil
	}
	var members []Listed
	var faults Faults
	number := 0
	for item := range strings.SplitSeq(text, ";") {
		number++
		p := memberParser{scanner: newScanner(strings.Trim(item, space)), Listed: Listed{Key: key, Number: number, Text: strings.Trim(item, space)}}
		if p.read(); len(p.faults) > 0 {
			faults = append(faults, p.faults...)
			continue
		}
		members = append(members, p.Listed)
	}
	return members, faults
}

// memberParser parses one member.
type memberParser struct {
	*scanner
	Listed
	token  token
	faults Faults
}

func (p *memberParser) read() {
	p.token = p.next()
	if p.token.kind == tokenEnd {
		p.fail("nothing", "a plan; every semicolon stands between two members")
		return
	}
	anyPlan := p.token.kind == tokenStar
	p.Plan = p.part("a plan")
	if p.token.kind != tokenColon {
		p.end(`":" or the end of the member`)
		if anyPlan && len(p.faults) == 0 {
			p.fail("the end of the member", `":" and a region: "*" alone is every request`)
		}
		return
	}
	p.token = p.next()
	anyRegion := p.token.kind == tokenStar
	at := p.token
	p.Region = p.part("a region")
	p.end("the end of the member")
	if anyPlan && anyRegion && len(p.faults) == 0 {
		p.token = at
		p.fail(`"*"`, `a region: "*:*" is every request`)
	}
}

// part reads a name or a star. It returns "" for a star and, after adding a fault, for any other token.
func (p *memberParser) part(what string) string {
	t := p.token
	switch t.kind {
	case tokenStar:
		p.token = p.next()
		return ""
	case tokenName:
		if flaw := t.flaw(); flaw != "" {
			p.fail(t.String(), "a name "+flaw)
		}
		p.token = p.next()
		return t.text
	case tokenEnd:
		p.fail("the end of the member", what+` or "*"`)
	case tokenColon:
		p.fail(t.String(), what+` or "*"`)
	default:
		p.fail(t.String(), what+` or "*"`)
		p.token = p.next()
	}
	return ""
}

// end reports the next token as a fault if there is one and the member has no fault yet. expected says what may
// stand there.
func (p *memberParser) end(expected string) {
	if p.token.kind != tokenEnd && len(p.faults) == 0 {
		p.fail(p.token.String(), expected)
	}
}

func (p *memberParser) fail(found, expected string) {
	p.faults = append(p.faults, Fault{
		Key: p.Key, Rule: p.Number, Text: p.Text, Column: column(p.Text, p.token.offset), Kind: Syntax,
		Message: fmt.Sprintf("found %s, expected %s", found, expected),
	})
}

// CheckLists returns the faults and warnings of all four lists, without compiling them.
func CheckLists(l Lists, opts Options) (faults Faults, warnings []Fault) {
	_, faults, warnings = checkLists(l, opts.withDefaults())
	return faults, warnings
}

// checkLists returns the members that can be parsed, and all faults and warnings. It replaces a plan's older name
// by its newer one if only the newer one exists. A member whose plan does not exist is returned too, and is a
// fault (with AnyPlan, a warning). So is a required plan that does not exist, but not a plan that no member names.
func checkLists(l Lists, opts Options) (members []Listed, faults Faults, warnings []Fault) {
	members, faults = l.Members()
	for i := range members {
		m := &members[i]
		if _, exists := opts.Plans[m.Plan]; exists || m.Plan == "" {
			continue
		}
		if _, exists := opts.Plans[newerName]; m.Plan == olderName && exists {
			m.Plan = newerName
			warnings = append(warnings, m.fault(PlanFault, "%s is read as the plan %s; write %s", olderName, newerName, m.Member))
			continue
		}
		unknown := m.fault(PlanFault, "plan %q does not exist; %s", m.Plan, opts.Plans.advice(m.Plan))
		if opts.AnyPlan {
			warnings = append(warnings, unknown)
		} else {
			faults = append(faults, unknown)
		}
	}
	for _, plan := range opts.Require {
		if _, exists := opts.Plans[plan]; !exists {
			faults = append(faults, Fault{Kind: PlanFault, Message: fmt.Sprintf("plan %q is required and does not exist; %s", plan, opts.Plans.advice(plan))})
		}
	}
	return members, faults, append(warnings, covered(members)...)
}

// covered warns of members that another member of the same list makes superfluous.
func covered(members []Listed) []Fault {
	type scope struct {
		key string
		Member
	}
	first := make(map[scope]Listed, len(members))
	for _, m := range members {
		if _, there := first[scope{m.Key, m.Member}]; !there {
			first[scope{m.Key, m.Member}] = m
		}
	}
	var warnings []Fault
	for _, m := range members {
		for _, wider := range []Member{m.Member, {Plan: m.Plan}, {Region: m.Region}} {
			if by, there := first[scope{m.Key, wider}]; there && by.Number != m.Number && by.covers(m) {
				warnings = append(warnings, m.fault(Redundant, "member %d (%s) has the same effect; this one changes nothing", by.Number, by.Member))
				break
			}
		}
	}
	return warnings
}
