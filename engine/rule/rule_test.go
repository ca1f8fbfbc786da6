package rule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/rule"
)

// TestScenarios runs the stories of testdata. Their commands:
//
//	parse                    each line of input is one rule; prints what it says
//	check [plans=…] […]      each line is a rule of one set; prints every fault and warning
//	rules [plans=…] […]      the same, kept for the commands that follow
//	match plan=… [pr= hr= provider= tenant=]
//	explain plan=… […]       the same with the rules that lost
//	passed plan=… n=… […]    at most n of those, the next more specific ones first
//	lists [plans=…] […]      each line is one of the older lists, key: text; kept for the commands that follow
//	check-lists […]          the same; prints every fault and warning
//	convert […]              the same as a rule list
//	unserved                 input: names of pools; prints the rules that lead to none of them
//	select                   input: names of pools; prints the ways to each
//	plans                    input: name: provider provider [= default]; extends the plans for what follows
func TestScenarios(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		t.Parallel()
		s := story{plans: rule.BuiltinPlans()}
		datadriven.RunTest(t, path, s.run)
	})
}

// story has what a scenario file has set up so far.
type story struct {
	plans rule.Plans
	set   *rule.Ruleset
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "parse":
		return parse(d)
	case "check":
		return s.check(d)
	case "rules":
		return s.compile(d)
	case "lists", "check-lists", "convert":
		return s.lists(t, d)
	case "unserved":
		return s.unserved(d)
	case "select":
		return s.selections(d)
	case "plans":
		return s.extend(d)
	case "match":
		m, err := s.set.Match(request(t, d))
		return describe(m, err)
	case "explain":
		return s.explain(t, d)
	case "passed":
		return s.passed(t, d)
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return ""
}

func (s *story) passed(t *testing.T, d *datadriven.TestData) string {
	var most int
	d.ScanArgs(t, "n", &most)
	var b strings.Builder
	for _, o := range s.set.Passed(request(t, d), most) {
		fmt.Fprintf(&b, "%d: %s: %s\n", o.RuleNumber, o.Rule, o.Why)
	}
	return b.String()
}

func parse(d *datadriven.TestData) string {
	var b strings.Builder
	for _, text := range texts(d.Input) {
		entry, err := rule.Parse(text)
		if err != nil {
			b.WriteString(err.Error() + "\n")
			continue
		}
		fmt.Fprintf(&b, "%s\n", entry)
	}
	return b.String()
}

// texts are the lines of input, with Go's escapes where a line is quoted.
func texts(input string) []string {
	var all []string
	for line := range strings.SplitSeq(input, "\n") {
		if strings.HasPrefix(line, `"`) {
			if _, err := fmt.Sscanf(line, "%q", &line); err != nil {
				panic(err)
			}
		}
		all = append(all, line)
	}
	return all
}

func (s *story) options(d *datadriven.TestData) rule.Options {
	o := rule.Options{Plans: s.plans, Require: []string{}}
	if arg, ok := d.Arg("plans"); ok {
		o.Plans, o.Require = s.plans.Only(arg.Vals...), nil
	}
	if arg, ok := d.Arg("require"); ok {
		o.Require = slices.DeleteFunc(append([]string{}, arg.Vals...), func(name string) bool { return name == "" })
		if slices.Equal(arg.Vals, []string{"default"}) {
			o.Require = nil
		}
	}
	if arg, ok := d.Arg("internal"); ok {
		o.InternalTenants = arg.Vals
	}
	o.AnyPlan = d.HasArg("any-plan")
	return o
}

func (s *story) check(d *datadriven.TestData) string {
	var in []string
	if d.Input != "" {
		in = texts(d.Input)
	}
	return found(rule.Check(in, s.options(d)))
}

func found(faults rule.Faults, warnings []rule.Fault) string {
	var b strings.Builder
	for _, f := range faults {
		fmt.Fprintf(&b, "%s\n", f.Error())
	}
	for _, w := range warnings {
		fmt.Fprintf(&b, "warning: %s\n", w.Error())
	}
	if b.Len() == 0 {
		return "fine"
	}
	return b.String()
}

func (s *story) compile(d *datadriven.TestData) string {
	set, err := rule.Compile(texts(d.Input), s.options(d))
	if err != nil {
		return err.Error()
	}
	s.set = set
	return fmt.Sprintf("%d rules", set.Len())
}

func (s *story) extend(d *datadriven.TestData) string {
	changes := map[string]rule.Plan{}
	for _, line := range texts(d.Input) {
		name, rest, _ := strings.Cut(line, ":")
		providers, preset, _ := strings.Cut(rest, "=")
		changes[name] = rule.Plan{Providers: strings.Fields(providers), Default: strings.TrimSpace(preset)}
	}
	plans, err := s.plans.With(changes)
	if err != nil {
		return err.Error()
	}
	s.plans = plans
	return "need an entry: " + strings.Join(plans.Required(), " ")
}

func request(t *testing.T, d *datadriven.TestData) rule.Request {
	var r rule.Request
	d.MaybeScanArgs(t, "plan", &r.Plan)
	d.MaybeScanArgs(t, "pr", &r.PlatformRegion)
	d.MaybeScanArgs(t, "hr", &r.HyperscalerRegion)
	d.MaybeScanArgs(t, "provider", &r.Provider)
	d.MaybeScanArgs(t, "tenant", &r.Tenant)
	return r
}

func describe(m rule.Match, err error) string {
	if err != nil {
		return fmt.Sprintf("%s: %v", engine.CodeOf(err), err)
	}
	number := fmt.Sprintf(" %d", m.RuleNumber)
	if m.RuleNumber == 0 {
		number = ""
	}
	text := fmt.Sprintf("rule%s: %s\npool %s of %s\n", number, m.Rule, m.Pool.Name(), m.Provider)
	if s := m.TenantSelector(); s != "" {
		text += "first: " + s + "\n"
	}
	if s := m.ClaimSelector(); s != "" {
		text += "claim: " + s + "\n"
	}
	return text
}

func (s *story) explain(t *testing.T, d *datadriven.TestData) string {
	r := request(t, d)
	e, err := s.set.Explain(r)
	text := "no match\n"
	if err != nil || e.Matched {
		text = describe(e.Match, err)
	}
	for _, o := range e.Others {
		number := ""
		if o.RuleNumber > 0 {
			number = fmt.Sprintf("rule %d: ", o.RuleNumber)
		}
		text += fmt.Sprintf("not %s%s: %s\n", number, o.Rule, o.Why)
	}
	return text
}

func (s *story) selections(d *datadriven.TestData) string {
	var b strings.Builder
	for name := range strings.FieldsSeq(d.Input) {
		fmt.Fprintf(&b, "%s:", name)
		ways := s.set.Selections(engine.ParsePool(name))
		if len(ways) == 0 {
			b.WriteString(" none")
		}
		for _, way := range ways {
			fmt.Fprintf(&b, " [%s by %s]", way.Plan, way.Rule)
		}
		b.WriteString("\n")
	}
	return b.String()
}
