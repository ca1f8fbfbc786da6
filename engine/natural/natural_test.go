package natural

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestNaturalOrder(t *testing.T) {
	t.Parallel()
	want := []string{"", "a", "a-01", "a-1", "a-1x", "a-2", "a-2-b", "a-10", "a-99999999999999999999998", "a-99999999999999999999999", "a1", "aws", "aws-eu-2", "aws-eu-10", "b"}
	got := slices.Clone(want)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
	slices.SortFunc(got, Compare)
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Natural is a total order on any three names, and only equal names compare as equal.
func TestNaturalIsAnOrder(t *testing.T) {
	t.Parallel()
	var names []string
	for _, a := range []string{"", "0", "00", "1", "01", "a", "-"} {
		for _, b := range []string{"", "0", "2", "a", "10"} {
			for _, c := range []string{"", "0", "b", "3"} {
				names = append(names, strings.Join([]string{a, b, c}, ""))
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, a := range names {
		for _, b := range names {
			ab := Compare(a, b)
			if ab != -Compare(b, a) || (ab == 0) != (a == b) {
				t.Fatalf("%q and %q: %d, %d", a, b, ab, Compare(b, a))
			}
			for _, c := range names {
				if ab <= 0 && Compare(b, c) <= 0 && Compare(a, c) > 0 {
					t.Fatalf("%q, %q, %q", a, b, c)
				}
			}
		}
	}
}
