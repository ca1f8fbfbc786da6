package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/policy"
)

// crowd returns a catalog of n implementations of one interface. Ten of them match; half of them meet each
// condition alone.
func crowd(tb testing.TB, n int) *policy.Catalog {
	tb.Helper()
	var b strings.Builder
	b.WriteString(`{"interfaces":[{"path":"cap.interface.db","revision":"0.1.0"}],"implementations":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		// The first half has attribute a, the second and the last ten of the first b.
		var attributes []string
		if i < n/2 {
			attributes = append(attributes, `{"path":"cap.attribute.a","revision":"0.1.0"}`)
		}
		if i >= n/2-10 {
			attributes = append(attributes, `{"path":"cap.attribute.b","revision":"0.1.0"}`)
		}
		attributes = append(attributes, fmt.Sprintf(`{"path":"cap.attribute.own%d","revision":"0.1.0"}`, i))
		rare := ""
		if i%(n/10) == 0 {
			rare = `,{"path":"cap.type.rare","revision":"0.1.0"}`
		}
		fmt.Fprintf(&b, `{"path":"cap.implementation.p%d","revision":"0.1.0","implements":[{"path":"cap.interface.db","revision":"0.1.0"}],
			"attributes":[%s],"requires":[{"prefix":"cap.type","anyOf":[{"path":"cap.type.auth","revision":"0.1.0","alias":"auth"}%s]}]}`,
			i, strings.Join(attributes, ","), rare)
	}
	b.WriteString("]}")
	c, err := policy.LoadFile("", []byte(b.String()))
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

var available = []policy.TypeInstance{{ID: "i1", Type: policy.Ref{Path: "cap.type.auth", Revision: "0.1.0"}}}

const inject = ", injectTypeInstances: [{id: i1, typeRef: {path: cap.type.auth}}]"

// ten are policies for which ten of a crowd match.
var ten = map[string]string{
	"attributes":   "{implementationConstraints: {attributes: [{path: cap.attribute.a}, {path: cap.attribute.b, revision: 0.1.0}]}" + inject + "}",
	"requirement":  "{implementationConstraints: {requires: [{path: cap.type.rare}]}" + inject + "}",
	"alternatives": strings.Repeat("{implementationConstraints: {attributes: [{path: cap.attribute.own0}, {path: cap.attribute.b}]}}, ", 5) + "{implementationConstraints: {requires: [{path: cap.type.rare, revision: 0.1.0}, {path: cap.type.auth}]}}",
}

func decider(tb testing.TB, catalog *policy.Catalog, alternatives string) *policy.Snapshot {
	tb.Helper()
	p, err := policy.Parse([]byte("apiVersion: 0.1.0\nrules:\n  cap.*:\n    oneOf: [" + alternatives + "]\n"))
	if err != nil {
		tb.Fatal(err)
	}
	return policy.NewSnapshot(p, catalog, available)
}

var wanted = policy.Ref{Path: "cap.interface.db"}

func BenchmarkResolve(b *testing.B) {
	for _, n := range []int{100, 10000} {
		catalog := crowd(b, n)
		for name, alternatives := range ten {
			s := decider(b, catalog, alternatives)
			b.Run(fmt.Sprintf("implementations=%d/%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					d, err := s.Resolve(wanted)
					if err != nil || len(d.Matching) != 10 {
						b.Fatalf("%d match, %v", len(d.Matching), err)
					}
				}
			})
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	catalog := crowd(b, 10000)
	b.ReportAllocs()
	for b.Loop() {
		decider(b, catalog, ten["attributes"])
	}
}

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		crowd(b, 10000)
	}
}

// TestRejectedCandidatesCostNothing: as many allocations with 10,000 candidates
// as with 100, of which ten match each time.
func TestRejectedCandidatesCostNothing(t *testing.T) {
	few, many := crowd(t, 100), crowd(t, 10000)
	for name, alternatives := range ten {
		count := func(c *policy.Catalog) float64 {
			s := decider(t, c, alternatives)
			return testing.AllocsPerRun(100, func() {
				if d, err := s.Resolve(wanted); err != nil || len(d.Matching) != 10 {
					t.Fatalf("%s: %d match, %v", name, len(d.Matching), err)
				}
			})
		}
		if a, b := count(few), count(many); a != b || b > 4 {
			t.Errorf("%s: %v allocations of 100 candidates, %v of 10,000", name, a, b)
		}
	}
}
