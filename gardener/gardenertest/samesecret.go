package gardenertest

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener"
)

// testSameSecret: of several bindings of one Secret, one gains clusters. If Secrets are the accounts,
// each is one account, however many bindings refer to it.
func testSameSecret(t *testing.T, b *bench) {
	var mu sync.Mutex
	var lines []string
	c, told := b.watching(t, gardener.Options{Warn: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}})
	first := b.account(t, 1, nil)
	offered := func(tenant string, want ...string) func() bool {
		return func() bool {
			seen, _ := c.Claimable(b.pool(), tenant, false, 8)
			return slices.EqualFunc(seen, want, func(b engine.Binding, name string) bool { return b.Name == name })
		}
	}
	if b.Resource == gardener.Secrets {
		b.secretBinding(t, b.name(2), first)
		b.secretBinding(t, b.name(3), first)
		told.until(t, "a Secret that two bindings refer to is offered", offered("ga-1", first))
		return
	}
	told.until(t, "the account is offered", offered("ga-1", first))
	second := b.name(2)
	b.binding(t, second, first, map[string]string{"hyperscalerType": b.id})
	told.until(t, "the second binding of the Secret is seen", func() bool { held, _ := c.Cached(second); return held.SameSecretAs == first })
	if !offered("ga-1", first)() {
		t.Error("the second one is offered, or the first one is not")
	}
	readAsDuplicate(t, c, first, second)
	bare, err := gardener.New(b.Config, gardener.Options{Namespace: b.Namespace, Resource: b.Resource})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bare.Stop)
	if found, err := bare.Find(t.Context(), second); found.SameSecretAs != first || err != nil {
		t.Errorf("without a cache, %s is found as a duplicate of %q, want %q (%v)", second, found.SameSecretAs, first, err)
	}

	// A binding with a tenant stands for the account, even if the other one is older.
	b.label(t, second, map[string]any{"tenantName": "ga-1"})
	told.until(t, "the tenant's is the account's", offered("ga-1", second))
	if !offered("ga-2")() {
		t.Error("another tenant is offered the account")
	}
	b.usedByTheOther(t, c, told, first, second)
	b.label(t, second, map[string]any{"tenantName": nil})
	told.until(t, "nothing is claimed: the older one is the account's", offered("ga-2", first))

	b.bothShared(t, c, told, first, second)
	told.until(t, "one of them is offered", offered("ga-1", first))

	b.remove(t, b.resource(), first)
	told.until(t, "the one that is left is offered", offered("ga-1", second))
	mu.Lock()
	defer mu.Unlock()
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, second+" refers to the same credentials as "+first) }) {
		t.Errorf("told: %q", lines)
	}
}

// readAsDuplicate: a list, and a read of one binding, say what the cache says.
func readAsDuplicate(t *testing.T, c *gardener.Client, first, second string) {
	t.Helper()
	listed := map[string]string{}
	if err := c.List(t.Context(), func(x engine.Binding) error { listed[x.Name] = x.SameSecretAs; return nil }); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{first: "", second: first} {
		if read, err := c.Get(t.Context(), name); read.SameSecretAs != want || listed[name] != want || err != nil {
			t.Errorf("%s is read as a duplicate of %q, and listed as one of %q, want %q (%v)", name, read.SameSecretAs, listed[name], want, err)
		}
	}
}

// usedByTheOther: a Shoot that names one of two bindings uses the account under the other name, too; and while the
// account is being emptied under one name, it gains no clusters under the other.
func (b *bench) usedByTheOther(t *testing.T, c *gardener.Client, told *changes, first, second string) {
	t.Helper()
	field := "credentialsBindingName"
	if b.Resource == gardener.SecretBindings {
		field = "secretBindingName"
	}
	b.shoot(t, b.id+"-s", field, first, nil)
	if refers, err := c.Refers(t.Context(), second); !refers || err != nil {
		t.Errorf("a Shoot names %s, and %s is not in use: %t, %v", first, second, refers, err)
	}
	b.remove(t, shoots, b.id+"-s") // Gardener's API server deletes no Shoot whose binding is gone
	b.label(t, first, map[string]any{"tenantName": "ga-2"})
	b.label(t, second, map[string]any{"dirty": "true"})
	told.until(t, "the dirty one stands for the account", func() bool { held, _ := c.Cached(first); return held.SameSecretAs == second })
	b.label(t, second, map[string]any{"dirty": nil})
	b.label(t, first, map[string]any{"tenantName": nil})
	told.until(t, "the tenant's is the account's again", func() bool { held, _ := c.Cached(second); return held.SameSecretAs == "" })
}

// bothShared: shared bindings do not separate tenants, so both are offered.
func (b *bench) bothShared(t *testing.T, c *gardener.Client, told *changes, both ...string) {
	t.Helper()
	shared := b.pool()
	shared.Shared = true
	for _, name := range both {
		b.label(t, name, map[string]any{"shared": "true"})
	}
	told.until(t, "both are offered to all", func() bool { return len(c.Shared(shared)) == 2 })
	for _, name := range both {
		b.label(t, name, map[string]any{"shared": nil})
	}
}
