package network_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/network"
)

// FuzzPath: no text makes the parser panic; a fault points into the text or to its end; a pointer is valid,
// and its names in quotes lead to the same pointer.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"", "/", "/a~1b", "a.b", ".a.b", "a[0]", "a[b]", "a['b.c']", `a["b.c"]`, `a\.b`, "a..b", "a[", "a['", "a]", "$.a",
		"größe", "\xff", "a~b", "[a]", ".[a]", `a\`, "a['']", "['']", "\x00",
		"a.b\u00a0", "a\u200b", "/\u0430bc",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		pointer, err := network.Pointer(path)
		if err != nil {
			var fault *network.PathError
			if !errors.As(err, &fault) || fault.Path != path || fault.Why == "" || fault.Index < 0 || fault.Index > utf8.RuneCountInString(path) {
				t.Fatalf("%q: incomplete fault %#v", path, err)
			}
			return
		}
		if pointer == "" {
			if path != "" && path != "/" {
				t.Fatalf("%q is read as the root", path)
			}
			return
		}
		if pointer[0] != '/' || !utf8.ValidString(pointer) {
			t.Fatalf("%q gives %q, which is no pointer", path, pointer)
		}
		var quoted strings.Builder
		for token := range strings.SplitSeq(pointer[1:], "/") {
			name := strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
			quoted.WriteString("['" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(name) + "']")
		}
		if again, err := network.Pointer(quoted.String()); err != nil || again != pointer {
			t.Fatalf("%q gives %q, and %q gives %q (%v)", path, pointer, quoted.String(), again, err)
		}
	})
}

// FuzzConfig: no text makes Parse panic; it returns either faults that say something
// or a configuration that keeps the rules of docs/network.md and can be applied.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"", "a", "[]", "{}", "spec: {}", "spec: null", "--- {}\n--- {}", "a: &a [*a]", "kind: 7", "parentCIDRs: {a: [10.0.0.0/8, 10.0.0.0/9]}",
		`{parentCIDRs: {foo: [10.27.0.0/16], bar: [0.0.0.0/32]}, injectionRules: [{id: a, matchIdentity: {name: c}, injections:
  [{id: x, path: a.b, parents: [foo], subnetSize: 24}, {paths: ["/c", "d[0]"], parents: [x], subnetSize: 30}]},
  {id: b, matchLabels: {k: v}, matchExpressions: [{key: k, operator: In, values: [v]}],
  matchPurposes: [{operator: Equals, values: [mcp]}], injections: [{path: a.b, subnetSize: 32}]}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		config, _, err := network.Parse([]byte(text))
		if err != nil {
			var faults document.Faults
			if !errors.As(err, &faults) || len(faults) == 0 || slices.ContainsFunc(faults, func(f document.Fault) bool { return f.Message == "" || f.Kind == "" }) {
				t.Fatalf("%q: incomplete faults %#v", text, err)
			}
			return
		}
		holdsRules(t, config)
	})
}

func holdsRules(t *testing.T, config *network.Config) {
	t.Helper()
	var all []netip.Prefix
	for _, p := range config.Parents {
		for _, c := range p.CIDRs {
			if c != c.Masked() || !c.Addr().Is4() || slices.ContainsFunc(all, c.Overlaps) {
				t.Fatalf("parent %s: %s beside %v", p.ID, c, all)
			}
			all = append(all, c)
		}
	}
	s := network.NewSpace()
	s.SetParents(config.Parents)
	seen := map[string]bool{}
	for _, r := range config.Rules {
		if seen[r.ID] {
			t.Fatalf("two rules have the id %s", r.ID)
		}
		seen[r.ID] = true
		paths := map[string]bool{}
		for _, in := range r.Injections {
			for _, p := range in.Paths {
				if paths[p] || p != "" && p[0] != '/' {
					t.Fatalf("rule %s has the path %q twice, or it is no pointer", r.ID, p)
				}
				paths[p] = true
			}
			if len(in.Paths) == 0 || in.Size < 0 || in.Size > 32 {
				t.Fatalf("rule %s has the injection %+v", r.ID, in)
			}
		}
		if _, err := s.Acquire(r.ID, "r", []network.Rule{r}); errors.Is(err, network.ErrUnknownParent) {
			t.Fatalf("rule %s: %v", r.ID, err)
		}
		if faults := s.Check(); len(faults) > 0 {
			t.Fatalf("rule %s: %v", r.ID, faults)
		}
	}
}
