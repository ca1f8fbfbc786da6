package gardenertest

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener"
)

// testRename: Rename moves the values of labels to other keys, unless the binding has changed since it was read or a
// new key has another value. After that Renamings finds nothing left to rename.
func testRename(t *testing.T, b *bench) {
	name := b.account(t, 1, map[string]string{"tenantName": "ga-1", "dirty": "true", "mine": "stays"})
	c := b.client(t, gardener.Options{})
	find := func() gardener.Renaming {
		t.Helper()
		all, err := c.Renamings(t.Context(), map[string]string{gardener.Preset: "legacy", "dirty": "unclean"})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(all, func(r gardener.Renaming) bool { return r.Binding == name })
		if at < 0 {
			t.Fatalf("%s is not among %+v", name, all)
		}
		return all[at]
	}
	seen := find()
	if len(seen.Labels) != 3 || seen.Conflict != "" {
		t.Fatalf("to rename: %+v", seen)
	}
	b.label(t, name, map[string]any{"mine": "changed"})
	if err := c.Rename(t.Context(), seen); !errors.Is(err, engine.ErrConflict) {
		t.Fatalf("what was changed meanwhile is renamed: %v", err)
	}
	b.label(t, name, map[string]any{"tenant-name": "ga-2"})
	if seen = find(); seen.Conflict == "" {
		t.Fatalf("two tenants are no conflict: %+v", seen)
	}
	if err := c.Rename(t.Context(), seen); err == nil {
		t.Fatal("one of two tenants is written over")
	}
	b.label(t, name, map[string]any{"tenant-name": "ga-1"})
	if err := c.Rename(t.Context(), find()); err != nil {
		t.Fatal(err)
	}
	labels := b.object(t, name).GetLabels()
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, "provider.extensions.gardener.cloud/") }) // Gardener's own
	if labels["hyperscaler-type"] != b.id || labels["tenant-name"] != "ga-1" || labels["unclean"] != "true" || labels["mine"] != "changed" || len(labels) != 4 {
		t.Errorf("labels %v", labels)
	}
	if again := find(); len(again.Labels) > 0 || again.Conflict != "" {
		t.Errorf("renamed already, and again: %+v", again)
	}
}
