package compact_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine/compact"
)

// Every id comes back as it was, and two ids have one ID only if they are equal.
func TestIDs(t *testing.T) {
	t.Parallel()
	const usual = "0b7e4f3a-1c2d-4e5f-8a9b-0c1d2e3f4a5b"
	ids := []string{
		"", usual, strings.ToUpper(usual), "{" + usual + "}", "urn:uuid:" + usual, strings.ReplaceAll(usual, "-", ""),
		"00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-0001000000ff",
		"00000000-0000-0001-0000-000000000000", "shoot-1", "shoot-2", usual[:35] + "g", usual[:35] + "B", "\x00", strings.Repeat("ü", 18),
	}
	var kept compact.IDs
	check := func(t interface{ Errorf(string, ...any) }, ids []string) {
		known := map[compact.ID]string{}
		for range 2 {
			for _, id := range ids {
				short := kept.Of(id)
				if other, there := known[short]; there && other != id {
					t.Errorf("%q and %q have one ID", id, other)
				}
				known[short] = id
				if got := kept.Text(short); got != id {
					t.Errorf("%q came back as %q", id, got)
				}
			}
		}
	}
	check(t, ids)
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.SliceOf(rapid.OneOf(rapid.StringMatching(`0{8}-0{4}-[01]{4}-0{4}-[0-9a-fA-F]{12}`), rapid.String(), rapid.SampledFrom(ids))).Draw(t, "ids"))
	})
	if kept.Of("") != (compact.ID{}) {
		t.Error("the empty id has another ID than the zero one")
	}
}

// A UUID needs no memory beside its ID.
func TestIDsOfUUIDs(t *testing.T) {
	var kept compact.IDs
	if n := testing.AllocsPerRun(100, func() { kept.Of("0b7e4f3a-1c2d-4e5f-8a9b-0c1d2e3f4a5b") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A value comes back for the texts that it was kept for, and for no others.
func TestAlike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var kept compact.Alike[[]string]
		for _, l := range rapid.SliceOf(rapid.SliceOf(rapid.SampledFrom([]string{"", "a", "b", "ab", "a\x00b", "\x01"}))).Draw(t, "lists") {
			first := kept.Once(l, l...)
			if again := kept.Once(slices.Clone(l), l...); !slices.Equal(first, l) || len(l) > 0 && &again[0] != &first[0] {
				t.Errorf("%q came back as %q and %q", l, first, again)
			}
		}
	})
}
