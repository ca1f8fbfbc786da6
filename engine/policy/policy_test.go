package policy_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cockroachdb/datadriven"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/policy"
)

// TestScenarios runs the stories of testdata/scenarios. Their commands:
//
//	policy      input is a policy; prints its rules and warnings, or every fault
//	catalog     input is a catalog in one file; prints what it has, or every fault
//	tree        the same for a directory tree: -- PATH -- begins a file
//	instances   input is a list of TypeInstances
//	resolve PATH[:REVISION]…
//
// What was read stays for the commands that follow; a fault leaves what was there.
func TestScenarios(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		t.Parallel()
		s := &story{}
		datadriven.RunTest(t, path, s.run)
	})
}

// story has what a scenario file has set up so far.
type story struct {
	policy    *policy.Policy
	catalog   *policy.Catalog
	instances []policy.TypeInstance
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "policy":
		return s.readPolicy(d.Input)
	case "catalog":
		return s.readCatalog(policy.LoadFile("", []byte(d.Input)))
	case "tree":
		return s.readCatalog(policy.LoadTree(treeOf(d.Input)))
	case "instances":
		read, err := policy.ParseTypeInstances([]byte(d.Input))
		if err != nil {
			return err.Error()
		}
		s.instances = read
		var lines []string
		for _, i := range read {
			lines = append(lines, fmt.Sprintf("%s is %s: %v", i.ID, i.Type, i.Value))
		}
		return strings.Join(lines, "\n")
	case "resolve":
		var b strings.Builder
		for _, arg := range d.CmdArgs {
			b.WriteString(describe(policy.NewSnapshot(s.policy, s.catalog, s.instances).Resolve(policy.ParseRef(arg.Key))))
		}
		return b.String()
	}
	d.Fatalf(t, "unknown command %s", d.Cmd)
	return ""
}

func (s *story) readPolicy(input string) string {
	p, err := policy.Parse([]byte(input))
	if err != nil {
		return err.Error()
	}
	s.policy = p
	var lines []string
	for _, rule := range p.Rules {
		lines = append(lines, fmt.Sprintf("%s: %d alternatives", rule.Key, len(rule.OneOf)))
	}
	for _, w := range p.Warnings() {
		lines = append(lines, "warning: "+w.Error())
	}
	return strings.Join(lines, "\n")
}

func (s *story) readCatalog(c *policy.Catalog, err error) string {
	if err != nil {
		return err.Error()
	}
	s.catalog = c
	lines := []string{fmt.Sprintf("%d implementations", c.Len())}
	for _, i := range c.Interfaces() {
		lines = append(lines, "interface "+i.String())
	}
	return strings.Join(lines, "\n")
}

func treeOf(input string) fs.FS {
	tree := fstest.MapFS{}
	for _, file := range txtar.Parse([]byte(input)).Files {
		tree[file.Name] = &fstest.MapFile{Data: file.Data}
	}
	return tree
}

func describe(d policy.Decision, err error) string {
	if refusal, is := errors.AsType[*policy.Refusal](err); is {
		return fmt.Sprintf("%s, %s, rule %q: %v\n", engine.CodeOf(err), refusal.Reason, refusal.RuleKey, err)
	}
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s by rule %s, alternative %d: %s\n", d.Interface, d.RuleKey, d.Alternative, d.Picked)
	for _, other := range d.Matching[1:] {
		fmt.Fprintf(&b, "matches too: %s\n", other)
	}
	for _, in := range d.Inject {
		fmt.Fprintf(&b, "injected: %s as %s\n", in.ID, in.Name)
	}
	if len(d.Picked.Providers) > 0 {
		fmt.Fprintf(&b, "provider: %s\n", strings.Join(d.Picked.Providers, ", "))
	}
	return b.String()
}
