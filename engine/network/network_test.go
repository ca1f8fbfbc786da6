package network_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"sigs.k8s.io/yaml"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/network"
)

// TestScenarios runs the stories of testdata. Their commands:
//
//	pointer                  each line is a path, quoted with " as in Go where need be; prints its pointer
//	check                    input: an IPAMConfig; prints every fault and warning
//	config                   the same, kept for the commands that follow, and its parents set
//	match                    each line is a cluster; prints the rules that match
//	provision [request=…]    each line is a cluster; prints what it has
//	return request=…         each line is a name; takes back what only that request relied on
//	delete                   each line is a name; frees what it has
//	foreign, foreign-gone    each line is a block of another allocator
//	rebuild [lose=(…)]       builds the space anew from its records, without the foreign blocks named
//	left                     prints the largest free block of each parent
//	remember                 each line "cluster rule CIDR" is a record put back from the ledger
//	overlaps                 prints what breaks NoOverlap
//
// A cluster is a name, followed by label=value and +purpose; namespace/name is
// in another namespace than ns.
func TestScenarios(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		t.Parallel()
		s := story{config: &network.Config{}, space: network.NewSpace()}
		datadriven.RunTest(t, path, s.run)
	})
}

type story struct {
	config *network.Config
	space  *network.Space
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	commands := map[string]func(string) string{
		"pointer": pointer,
		"match":   s.match,
		"delete": func(line string) string {
			return describe("gave back", s.space.Release("ns/"+line))
		},
		"return": func(line string) string {
			return describe("gave back", s.space.Return("ns/"+line, argument(d, "request")).Gone)
		},
		"provision": func(line string) string { return s.provision(line, argument(d, "request")) },
		"foreign": func(line string) string {
			s.space.Block(netip.MustParsePrefix(line))
			return ""
		},
		"foreign-gone": func(line string) string {
			s.space.Unblock(netip.MustParsePrefix(line))
			return ""
		},
		"remember": s.remember,
	}
	var out strings.Builder
	switch d.Cmd {
	case "check":
		_, warnings, err := network.Parse([]byte(d.Input))
		out.WriteString(report(warnings, err))
	case "config":
		config, warnings, err := network.Parse([]byte(d.Input))
		out.WriteString(report(warnings, err))
		if err == nil {
			s.config = config
			s.space.SetParents(config.Parents)
		}
	case "rebuild":
		s.rebuild(d)
	case "left":
		out.WriteString(left(s.space.Largest()))
	case "overlaps":
		out.WriteString(strings.Join(append(s.space.Check(), ""), "\n"))
	default:
		do, ok := commands[d.Cmd]
		if !ok {
			d.Fatalf(t, "unknown command %s", d.Cmd)
		}
		for line := range strings.SplitSeq(d.Input, "\n") {
			out.WriteString(do(line))
		}
	}
	if out.Len() == 0 {
		return "fine"
	}
	return out.String()
}

func argument(d *datadriven.TestData, key string) string {
	if arg, ok := d.Arg(key); ok {
		return arg.Vals[0]
	}
	return "r"
}

func pointer(line string) string {
	if quoted, err := strconv.Unquote(line); err == nil && line[0] == '"' {
		line = quoted
	}
	p, err := network.Pointer(line)
	if err != nil {
		return err.Error() + "\n"
	}
	return strconv.Quote(p) + "\n"
}

// report begins each line with the fault's kind, which hapctl's JSON also has.
func report(warnings document.Faults, err error) string {
	var b strings.Builder
	faults, ok := errors.AsType[document.Faults](err)
	if !ok && err != nil {
		return "not Faults: " + err.Error()
	}
	for _, f := range faults {
		fmt.Fprintf(&b, "%s: %v\n", f.Kind, f)
	}
	for _, w := range warnings {
		fmt.Fprintf(&b, "warning: %s: %v\n", w.Kind, w)
	}
	return b.String()
}

func cluster(line string) network.Cluster {
	words := strings.Fields(line)
	c := network.Cluster{Name: words[0], Namespace: "ns", Labels: map[string]string{}}
	if namespace, name, ok := strings.Cut(c.Name, "/"); ok {
		c.Namespace, c.Name = namespace, name
	}
	for _, w := range words[1:] {
		if purpose, ok := strings.CutPrefix(w, "+"); ok {
			c.Purposes = append(c.Purposes, purpose)
			continue
		}
		key, value, _ := strings.Cut(w, "=")
		c.Labels[key] = value
	}
	return c
}

func (s *story) match(line string) string {
	ids := []string{line + ":"}
	for _, r := range s.config.Match(cluster(line)) {
		ids = append(ids, r.ID)
	}
	if len(ids) == 1 {
		ids = append(ids, "-")
	}
	return strings.Join(ids, " ") + "\n"
}

func (s *story) provision(line, request string) string {
	c := cluster(line)
	got, err := s.space.Acquire(c.Namespace+"/"+c.Name, request, s.config.Match(c))
	var exhausted *network.Exhausted
	if errors.As(err, &exhausted) != (engine.CodeOf(err) == engine.CodeNetworkExhausted) {
		return fmt.Sprintf("an error without its code: %v\n", err)
	}
	if err != nil {
		return fmt.Sprintf("%s: %v\n", engine.CodeOf(err), err)
	}
	text := describe(c.Name+" has", got.Applied)
	for _, skipped := range got.Skipped {
		text += skipped.String() + "\n"
	}
	return text
}

func describe(what string, applied []network.Applied) string {
	words := []string{what}
	for _, a := range applied {
		words = append(words, a.Rule+":")
		for _, b := range a.Blocks {
			if b.ID != "" {
				words = append(words, b.ID+"="+b.CIDR.String())
				continue
			}
			words = append(words, b.CIDR.String())
		}
	}
	if len(applied) == 0 {
		words = append(words, "nothing")
	}
	return strings.Join(words, " ") + "\n"
}

func left(all []network.Left) string {
	var b strings.Builder
	for _, l := range all {
		size := "nothing"
		if l.Largest >= 0 {
			size = fmt.Sprintf("/%d", l.Largest)
		}
		fmt.Fprintf(&b, "%s: %s\n", l.Parent, size)
	}
	return b.String()
}

func (s *story) remember(line string) string {
	words := strings.Fields(line)
	r := network.Record{Cluster: "ns/" + words[0], Requests: []string{"r"}}
	r.Rule = words[1]
	for _, cidr := range words[2:] {
		r.Blocks = append(r.Blocks, network.Block{CIDR: netip.MustParsePrefix(cidr), Paths: []string{"/remembered"}})
	}
	s.space.Restore(r)
	return ""
}

func (s *story) rebuild(d *datadriven.TestData) {
	state := s.space.Snapshot()
	if arg, ok := d.Arg("lose"); ok {
		state.Foreign = slices.DeleteFunc(state.Foreign, func(p netip.Prefix) bool { return slices.Contains(arg.Vals, p.String()) })
	}
	s.space = network.Build(state)
}

// TestForms: the manifest, spec alone and its fields alone are the same
// configuration, as YAML and as JSON.
func TestForms(t *testing.T) {
	t.Parallel()
	const bare = `
parentCIDRs: {foo: [10.27.0.0/16]}
injectionRules: [{id: a, injections: [{path: .a, subnetSize: 24}]}]
`
	indented := "spec:" + strings.ReplaceAll(bare, "\n", "\n  ")
	manifest := "apiVersion: " + network.APIVersion + "\nkind: IPAMConfig\nmetadata: {name: ipam}\nstatus: {}\n" + indented
	var want string
	for _, text := range []string{bare, indented, manifest, "---\n" + manifest + "\n---\n# nothing\n"} {
		asJSON, err := yaml.YAMLToJSON([]byte(strings.TrimSuffix(text, "\n---\n# nothing\n")))
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{text, string(asJSON)} {
			config, _, err := network.Parse([]byte(form))
			if err != nil {
				t.Fatalf("%s: %v", form, err)
			}
			got, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			if want == "" {
				want = string(got)
			}
			if string(got) != want {
				t.Errorf("%s: read as %s, want %s", form, got, want)
			}
		}
	}
}
