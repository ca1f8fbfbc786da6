package network

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"pgregory.net/rapid"
)

// TestMeetIsExact: for selectors by labels and purposes, meet says yes exactly if one of all clusters that
// can be told apart matches both.
func TestMeetIsExact(t *testing.T) {
	t.Parallel()
	universe := everyCluster()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSelector(t, "a"), drawSelector(t, "b")
		want := no
		for _, c := range universe {
			if a.Matches(c) && b.Matches(c) {
				want = yes
			}
		}
		if got := meet(a, b); got != want {
			t.Fatalf("%+v and %+v: %v, want %v", a, b, got, want)
		}
		if meet(a, b) != meet(b, a) {
			t.Fatal("the order makes a difference")
		}
	})
}

// everyCluster returns a cluster for each combination of two labels and four purposes. The labels have each
// value that a selector asks for, and one that none does; so have the purposes.
func everyCluster() []Cluster {
	values := []string{"", "v", "w", "other"}
	var all []Cluster
	for i := range 25 {
		set := map[string]string{}
		if i%5 < 4 {
			set["k"] = values[i%5]
		}
		if i/5 < 4 {
			set["l"] = values[i/5]
		}
		for bits := range 16 {
			c := Cluster{Name: "c", Labels: set}
			for j, purpose := range []string{"a", "b", "c", "other"} {
				if bits>>j&1 == 1 {
					c.Purposes = append(c.Purposes, purpose)
				}
			}
			all = append(all, c)
		}
	}
	return all
}

func drawSelector(t *rapid.T, name string) Selector {
	var s Selector
	for range rapid.IntRange(0, 3).Draw(t, name+" labels") {
		key := rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key")
		operator := rapid.SampledFrom([]selection.Operator{selection.In, selection.NotIn, selection.Exists, selection.DoesNotExist}).Draw(t, "operator")
		var values []string
		if operator == selection.In || operator == selection.NotIn {
			values = rapid.SliceOfN(rapid.SampledFrom([]string{"", "v", "w"}), 1, 3).Draw(t, "values")
		}
		r, err := labels.NewRequirement(key, operator, values)
		if err != nil {
			t.Fatal(err)
		}
		s.Labels = append(s.Labels, *r)
	}
	for range rapid.IntRange(0, 3).Draw(t, name+" purposes") {
		s.Purposes = append(s.Purposes, Purposes{
			Operator: rapid.SampledFrom([]Operator{ContainsAll, ContainsAny, ContainsNone, Equals}).Draw(t, "operator"),
			Values:   rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2).Draw(t, "values"),
		})
	}
	return s
}
