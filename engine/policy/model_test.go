package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine/policy"
	_ "github.com/hap-worker/hap-worker/engine/rapidtest" // fixes the seed
)

// world is everything that a resolution depends on, in the short form.
type world struct {
	Interfaces      []policy.Ref `json:"interfaces"`
	Implementations []manifest   `json:"implementations"`

	instances []policy.TypeInstance
	oneOf     []policy.Constraints
}

type manifest struct {
	policy.Ref

	Implements []policy.Ref  `json:"implements"`
	Attributes []policy.Ref  `json:"attributes"`
	Requires   []requirement `json:"requires"`
}

type requirement struct {
	Prefix string       `json:"prefix"`
	OneOf  []policy.Ref `json:"oneOf"`
	AnyOf  []policy.Ref `json:"anyOf"`
	AllOf  []policy.Ref `json:"allOf"`
}

// TestResolvesAsTheSentencesSay compares the indexes with a scan of the whole catalog that follows the
// documentation word by word, with both forms of sets.
func TestResolvesAsTheSentencesSay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := worlds(t)
		text, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		catalog, err := policy.LoadFile("", text)
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		chosen, err := policy.Parse([]byte(w.document()))
		if err != nil {
			t.Fatalf("%s\n%v", w.document(), err)
		}
		snapshot := policy.NewSnapshot(chosen, catalog, w.instances)
		for _, i := range w.Interfaces {
			alternative, want := w.scan(i)
			got, err := snapshot.Resolve(i)
			if len(want) == 0 {
				if refusal, is := errors.AsType[*policy.Refusal](err); !is || refusal.Reason != policy.NothingMatches {
					t.Fatalf("%s: got %v, %v; want nothing that matches", i, got.Matching, err)
				}
				continue
			}
			if err != nil || got.Alternative != alternative || !slices.Equal(got.Matching, want) || got.Picked.Ref != want[0] {
				t.Fatalf("%s: alternative %d, %v, %v; want alternative %d, %v", i, got.Alternative, got.Matching, err, alternative, want)
			}
		}
	})
}

func worlds(t *rapid.T) *world {
	pick := func(kind string, n int) *rapid.Generator[policy.Ref] {
		return rapid.Custom(func(t *rapid.T) policy.Ref {
			return policy.Ref{
				Path:     fmt.Sprintf("cap.%s.x%d", kind, rapid.IntRange(0, n-1).Draw(t, kind)),
				Revision: rapid.SampledFrom([]string{"0.1.0", "0.9.0", "0.10.0"}).Draw(t, "revision"),
			}
		})
	}
	types := rapid.SliceOfN(rapid.OneOf(pick("type", 4), rapid.Just(policy.Ref{Path: policy.Kubernetes, Revision: "0.1.0"})), 0, 2)
	wanted := func(kind string, n int) []policy.Ref {
		refs := rapid.SliceOfN(pick(kind, n), 0, 2).Draw(t, "wanted "+kind)
		for i := range refs {
			if rapid.Bool().Draw(t, "any revision") {
				refs[i].Revision = ""
			}
		}
		return refs
	}
	w := &world{Interfaces: rapid.SliceOfNDistinct(pick("interface", 2), 1, 4, rapid.ID).Draw(t, "interfaces")}
	for _, ref := range rapid.SliceOfNDistinct(pick("implementation", 60), 0, 90, rapid.ID).Draw(t, "implementations") {
		m := manifest{
			Ref:        ref,
			Implements: rapid.SliceOfN(rapid.SampledFrom(w.Interfaces), 1, 2).Draw(t, "implements"),
			Attributes: rapid.SliceOfN(pick("attribute", 3), 0, 3).Draw(t, "attributes"),
			Requires:   []requirement{},
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "requirements") {
			m.Requires = append(m.Requires, requirement{
				Prefix: fmt.Sprint("p", i), OneOf: types.Draw(t, "oneOf"), AnyOf: types.Draw(t, "anyOf"), AllOf: types.Draw(t, "allOf"),
			})
		}
		w.Implementations = append(w.Implementations, m)
	}
	for i, ref := range rapid.SliceOfN(pick("type", 4), 0, 6).Draw(t, "available") {
		w.instances = append(w.instances, policy.TypeInstance{ID: fmt.Sprint("i", i), Type: ref})
	}
	for range rapid.IntRange(1, 3).Draw(t, "alternatives") {
		c := policy.Constraints{Attributes: wanted("attribute", 4), Requires: wanted("type", 5)}
		if rapid.IntRange(0, 4).Draw(t, "named") == 0 {
			c.Path = pick("implementation", 8).Draw(t, "path").Path
		}
		w.oneOf = append(w.oneOf, c)
	}
	if w.Implementations == nil {
		w.Implementations = []manifest{}
	}
	return w
}

// document is the policy as text.
func (w *world) document() string {
	refs := func(all []policy.Ref) string {
		var items []string
		for _, r := range all {
			item := "path: " + r.Path
			if r.Revision != "" {
				item += ", revision: " + r.Revision
			}
			items = append(items, "{"+item+"}")
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	text := "apiVersion: 0.1.0\nrules:\n  cap.*:\n    oneOf:\n"
	for _, c := range w.oneOf {
		text += "      - implementationConstraints:\n"
		if c.Path != "" {
			text += "          path: " + c.Path + "\n"
		}
		text += "          attributes: " + refs(c.Attributes) + "\n          requires: " + refs(c.Requires) + "\n"
	}
	return text
}

// scan is the resolution without an index.
func (w *world) scan(i policy.Ref) (int, []policy.Ref) {
	for n, c := range w.oneOf {
		var found []policy.Ref
		for _, m := range w.Implementations {
			if slices.Contains(m.Implements, i) && w.meets(m, c) {
				found = append(found, m.Ref)
			}
		}
		slices.SortFunc(found, func(a, b policy.Ref) int {
			if a.Path != b.Path {
				return strings.Compare(a.Path, b.Path)
			}
			order := []string{"0.10.0", "0.9.0", "0.1.0"}
			return slices.Index(order, a.Revision) - slices.Index(order, b.Revision)
		})
		if len(found) > 0 {
			return n, found
		}
	}
	return 0, nil
}

func (w *world) meets(m manifest, c policy.Constraints) bool {
	var listed []policy.Ref
	for _, q := range m.Requires {
		listed = slices.Concat(listed, q.OneOf, q.AnyOf, q.AllOf)
		if !w.satisfied(q) {
			return false
		}
	}
	among := func(want policy.Ref, have []policy.Ref) bool {
		return slices.ContainsFunc(have, func(h policy.Ref) bool {
			return h.Path == want.Path && (want.Revision == "" || want.Revision == h.Revision)
		})
	}
	for _, a := range c.Attributes {
		if !among(a, m.Attributes) {
			return false
		}
	}
	for _, q := range c.Requires {
		if !among(q, listed) {
			return false
		}
	}
	return c.Path == "" || c.Path == m.Path
}

func (w *world) satisfied(q requirement) bool {
	there := func(refs []policy.Ref) int {
		n := 0
		for _, r := range refs {
			if r.Path == policy.Kubernetes || slices.ContainsFunc(w.instances, func(t policy.TypeInstance) bool { return t.Type == r }) {
				n++
			}
		}
		return n
	}
	return there(q.AllOf) == len(q.AllOf) && (len(q.AnyOf) == 0 || there(q.AnyOf) >= 1) && (len(q.OneOf) == 0 || there(q.OneOf) == 1)
}
