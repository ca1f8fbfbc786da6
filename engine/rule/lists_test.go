package rule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/rule"
)

// lists runs the commands about the older form.
func (s *story) lists(t *testing.T, d *datadriven.TestData) string {
	l := readLists(t, d)
	switch d.Cmd {
	case "check-lists":
		faults, warnings := rule.CheckLists(l, s.options(d))
		return found(faults, warnings)
	case "convert":
		c, err := rule.Convert(l, s.options(d))
		if err != nil {
			return err.Error()
		}
		text := strings.Join(c.Rules, "\n") + "\n"
		for _, i := range c.Inexpressible {
			text += fmt.Sprintf("inexpressible: plan %s: %s\n", i.Plan, i.Why)
		}
		return text
	}
	set, err := rule.CompileLists(l, s.options(d))
	if err != nil {
		return err.Error()
	}
	s.set = set
	return fmt.Sprintf("%d members\n", set.Len()) + found(nil, set.Warnings())
}

func readLists(t *testing.T, d *datadriven.TestData) rule.Lists {
	var l rule.Lists
	keys := map[string]*string{
		rule.KeyPlatformRegion: &l.PlatformRegion, rule.KeyClusterRegion: &l.ClusterRegion,
		rule.KeyShared: &l.Shared, rule.KeyEUAccess: &l.EUAccess,
	}
	for line := range strings.Lines(d.Input) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		if keys[key] == nil {
			d.Fatalf(t, "no list %q", key)
		}
		if text = strings.TrimSpace(text); strings.HasPrefix(text, `"`) {
			if _, err := fmt.Sscanf(text, "%q", &text); err != nil {
				d.Fatalf(t, "%q: %v", text, err)
			}
		}
		*keys[key] = text
	}
	return l
}

func (s *story) unserved(d *datadriven.TestData) string {
	var pools []engine.Pool
	for name := range strings.FieldsSeq(d.Input) {
		pools = append(pools, engine.ParsePool(name))
	}
	return strings.Join(s.set.Unserved(pools), "\n") + "\n"
}

// FuzzLists: no text makes the parser panic. A member that parses prints as a text that parses to the same
// member. Every fault points into the text of its member or just behind it.
func FuzzLists(f *testing.F) {
	for _, seed := range []string{
		"", " ", "trial", "trial:*", "trial:eu", "*:eu", "trial;trial", "gcp:cf-sa30;gcp:cf-jp30;aws:cf-eu11;openstack",
		"*:*", "*", ":eu", "a:b:c", ";", "a;", ";a", "a;;b", "a:", "a b", " a : b ; c ", "a:*:b", "a,b", "-a", "a:-", "a->S", "a(PR=x)", "ü:\xff", "**", "*:",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		members, err := rule.ParseList(text)
		if err != nil {
			checkListFaults(t, text, err)
			return
		}
		printed := make([]string, len(members))
		for i, m := range members {
			printed[i] = m.String()
		}
		again, err := rule.ParseList(strings.Join(printed, ";"))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(members) {
			t.Fatalf("%q prints %q, which parses to %v and not %v (%v)", text, printed, again, members, err)
		}
	})
}

func checkListFaults(t *testing.T, text string, err error) {
	var faults rule.Faults
	if !errors.As(err, &faults) || len(faults) == 0 {
		t.Fatalf("%q: the error is no list of faults: %v", text, err)
	}
	texts := strings.Split(text, ";")
	for _, f := range faults {
		if f.Rule < 1 || f.Rule > len(texts) || f.Text != strings.Trim(texts[f.Rule-1], " \t\r\n\f") {
			t.Fatalf("%q: fault of no member: %+v", text, f)
		}
		if f.Column < 1 || f.Column > utf8.RuneCountInString(f.Text)+1 || f.Kind != rule.Syntax || f.Message == "" {
			t.Fatalf("%q: incomplete fault %+v", text, f)
		}
	}
}

// listRegions are the regions in the members and requests that are drawn. Platforms and hyperscalers share
// them, since clusterRegionRule compares both.
var listRegions = []string{"a", "b", "cf-eu11", "x"}

func drawLists(t *rapid.T) (rule.Lists, [4][]rule.Member) {
	var drawn [4][]rule.Member
	var texts [4]string
	for i := range drawn {
		drawn[i] = rapid.SliceOfN(rapid.Custom(drawMember), 0, 5).Draw(t, "list")
		members := make([]string, len(drawn[i]))
		for n, m := range drawn[i] {
			members[n] = m.String()
			if m.Region == "" && rapid.Bool().Draw(t, "star") {
				members[n] += ":*"
			}
		}
		texts[i] = strings.Join(members, rapid.SampledFrom([]string{";", " ; ", ";\n"}).Draw(t, "separator"))
	}
	return rule.Lists{PlatformRegion: texts[0], ClusterRegion: texts[1], Shared: texts[2], EUAccess: texts[3]}, drawn
}

func drawMember(t *rapid.T) rule.Member {
	m := rule.Member{
		Plan:   rapid.SampledFrom([]string{"", "aws", "azure", "gcp", "trial", "sap-converged-cloud"}).Draw(t, "plan"),
		Region: rapid.SampledFrom(append([]string{""}, listRegions...)).Draw(t, "region"),
	}
	if m.Plan == "" && m.Region == "" {
		m.Plan = "aws"
	}
	return m
}

// asked returns requests of every built-in plan with every pair of regions.
func asked() []rule.Request {
	var all []rule.Request
	for plan, p := range rule.BuiltinPlans() {
		for _, pr := range append([]string{"", "elsewhere"}, listRegions...) {
			for _, hr := range append([]string{"", "elsewhere"}, listRegions...) {
				for _, provider := range p.Providers {
					all = append(all, rule.Request{Plan: plan, PlatformRegion: pr, HyperscalerRegion: hr, Provider: provider, Tenant: "ga-1"})
				}
			}
		}
	}
	return all
}

// TestListsAreIndependent compares the compiled search with its definition: every list with a member that is
// true has its effect.
func TestListsAreIndependent(t *testing.T) {
	t.Parallel()
	requests := asked()
	rapid.Check(t, func(t *rapid.T) {
		lists, drawn := drawLists(t)
		set, err := rule.CompileLists(lists, rule.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			want, wantErr := byTheSentences(drawn, r)
			m, err := set.Match(r)
			if wantErr != (engine.CodeOf(err) == engine.CodeInvalidEvent && err != nil) || err == nil && m.Pool != want {
				t.Fatalf("%+v of %+v: %+v, %v; want %+v", r, lists, m.Pool, err, want)
			}
		}
	})
}

func byTheSentences(lists [4][]rule.Member, r rule.Request) (pool engine.Pool, missing bool) {
	var is [4]bool
	for i, members := range lists {
		for _, m := range members {
			region := m.Region == "" || m.Region == r.PlatformRegion || i == 1 && m.Region == r.HyperscalerRegion
			is[i] = is[i] || region && (m.Plan == "" || m.Plan == r.Plan)
		}
	}
	pool = engine.Pool{HyperscalerType: r.Provider, Shared: is[2], EUAccess: is[3]}
	if is[0] {
		pool.HyperscalerType += "_" + r.PlatformRegion
	}
	if is[1] {
		pool.HyperscalerType += "_" + r.HyperscalerRegion
	}
	return pool, is[0] && r.PlatformRegion == "" || is[1] && r.HyperscalerRegion == ""
}

// TestConvertedListsAreEqual: the rule list that replaces the four lists compiles, and leads every request to
// the same pool or the same error code.
func TestConvertedListsAreEqual(t *testing.T) {
	t.Parallel()
	requests := asked()
	rapid.Check(t, func(t *rapid.T) {
		lists, _ := drawLists(t)
		older, err := rule.CompileLists(lists, rule.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := rule.Convert(lists, rule.Options{})
		if err != nil || len(c.Inexpressible) > 0 {
			t.Fatal(c.Inexpressible, err)
		}
		newer, err := rule.Compile(c.Rules, rule.Options{})
		if err != nil {
			t.Fatalf("%+v: %v", lists, err)
		}
		for _, r := range requests {
			mustAgree(t, older, newer, r)
		}
	})
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func mustAgree(t fataler, older, newer *rule.Ruleset, r rule.Request) {
	a, errA := older.Match(r)
	b, errB := newer.Match(r)
	if a.Pool != b.Pool || a.Provider != b.Provider || (errA == nil) != (errB == nil) ||
		errA != nil && engine.CodeOf(errA) != engine.CodeOf(errB) ||
		errA == nil && (a.TenantSelector() != b.TenantSelector() || a.ClaimSelector() != b.ClaimSelector()) {
		t.Fatalf("%+v: the lists give %+v (%v), the rules %+v (%v)", r, a, errA, b, errB)
	}
}

// TestInitialFormsAreEqual: the two initial configurations select the same pool for every plan that needs a
// rule.
func TestInitialFormsAreEqual(t *testing.T) {
	t.Parallel()
	older, err := rule.CompileLists(rule.Lists{
		PlatformRegion: "gcp:cf-sa30", ClusterRegion: "sap-converged-cloud",
		Shared: "trial;sap-converged-cloud", EUAccess: "azure:cf-ch20;aws:cf-eu11",
	}, rule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	newer, err := rule.Compile([]string{
		"aws", "aws(PR=cf-eu11) -> EU", "azure", "azure(PR=cf-ch20) -> EU", "gcp", "gcp(PR=cf-sa30) -> PR", "trial -> S",
		"sap-converged-cloud -> HR, S", "azure_lite", "preview", "free",
	}, rule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pools := map[string]bool{}
	for _, plan := range rule.BuiltinPlans().Required() {
		for _, provider := range append([]string{""}, rule.BuiltinPlans()[plan].Providers...) {
			for _, pr := range []string{"", "cf-eu10", "cf-eu11", "cf-ch20", "cf-sa30", "cf-jp30", "eu-de-1"} {
				for _, hr := range []string{"", "eu-central-1", "eu-de-1", "me-central2", "switzerlandnorth", "cf-sa30"} {
					r := rule.Request{Plan: plan, Provider: provider, PlatformRegion: pr, HyperscalerRegion: hr, Tenant: "ga-1"}
					mustAgree(t, older, newer, r)
					if m, err := older.Match(r); err == nil {
						pools[m.Pool.Name()] = true
					}
				}
			}
		}
	}
	for _, pool := range []string{"aws", "aws+eu", "azure", "azure+eu", "gcp", "gcp_cf-sa30", "aws+shared", "azure+shared", "openstack_eu-de-1+shared"} {
		if !pools[pool] {
			t.Errorf("no request leads to %s, only to %v", pool, pools)
		}
	}
}

// TestListsAllocateOnlyTheirText: a match allocates one string if the hyperscaler type contains a region,
// another one if the hyperscaler region adds a member to those of other lists, and nothing otherwise.
func TestListsAllocateOnlyTheirText(t *testing.T) {
	set, err := rule.CompileLists(rule.Lists{PlatformRegion: "gcp;azure:cf-eu11", ClusterRegion: "azure:eu-central-1;alicloud", EUAccess: "aws"}, rule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for plan, want := range map[string]float64{"aws": 0, "preview": 0, "gcp": 1, "alicloud": 1, "azure": 2} {
		r := rule.Request{Plan: plan, PlatformRegion: "cf-eu11", HyperscalerRegion: "eu-central-1", Tenant: "ga-1"}
		got := testing.AllocsPerRun(100, func() {
			if _, err := set.Match(r); err != nil {
				t.Fatal(err)
			}
		})
		if got != want {
			t.Errorf("plan %s: %v allocations, want %v", plan, got, want)
		}
	}
}

// TestConversionIsBounded: a rule list needs an entry for each pair of regions. A plan with too many of them
// is reported instead.
func TestConversionIsBounded(t *testing.T) {
	t.Parallel()
	var members []string
	for i := range 120 {
		members = append(members, "aws:r"+number(i))
	}
	lists := rule.Lists{ClusterRegion: strings.Join(members, ";"), Shared: "trial"}
	c, err := rule.Convert(lists, rule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Inexpressible) != 1 || c.Inexpressible[0].Plan != "aws" || !strings.Contains(c.Inexpressible[0].Why, "14641") {
		t.Errorf("inexpressible: %+v", c.Inexpressible)
	}
	if strings.Contains(strings.Join(c.Rules, ";"), "aws(") || len(c.Rules) != len(rule.BuiltinPlans())-1 {
		t.Errorf("rules: %q", c.Rules)
	}
}
