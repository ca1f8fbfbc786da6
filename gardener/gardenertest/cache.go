package gardenertest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener"
)

// testOnlyTrueIsTrue: a value other than "true" counts as absent, and is reported once.
func testOnlyTrueIsTrue(t *testing.T, b *bench) {
	name := b.account(t, 1, map[string]string{"dirty": "false", "internal": "no", "shared": "", "hap-worker/cordon": "TRUE"})
	var mu sync.Mutex
	var lines []string
	c := b.client(t, gardener.Options{Warn: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(line, name) {
			lines = append(lines, line)
		}
	}})
	if seen, _ := c.Claimable(b.pool(), "ga-1", false, 8); len(seen) != 1 || seen[0].Name != name {
		t.Errorf("claimable: %+v", seen)
	}
	got := get(t, c, name)
	if got.Dirty || got.Internal || got.Shared || got.Cordoned {
		t.Errorf("%+v", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(lines) != 4 {
		t.Errorf("told %d times:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}

// testCacheFollows: changes by others reach the cache, in order.
func testCacheFollows(t *testing.T, b *bench) {
	c, told := b.watching(t, gardener.Options{})
	claimable := func(n int) func() bool {
		return func() bool {
			seen, all := c.Claimable(b.pool(), "ga-1", false, 8)
			return len(seen) == n && all
		}
	}
	name := b.account(t, 1, nil)
	told.until(t, "a new account is claimable", claimable(1))
	if !slices.Contains(c.Pools(), b.pool()) {
		t.Error("its pool is not listed")
	}

	b.label(t, name, map[string]any{"hap-worker/cordon": "true"})
	told.until(t, "a cordoned account is not", claimable(0))
	b.label(t, name, map[string]any{"hap-worker/cordon": nil, "tenantName": "ga-1"})
	told.until(t, "an account labelled by hand is its tenant's", func() bool { return len(c.Owned(b.pool(), "ga-1")) == 1 })
	b.label(t, name, map[string]any{"internal": "true"})
	told.until(t, "an internal account is barred", func() bool { return slices.Equal(c.Barred(b.pool(), "ga-1", false), []string{name}) })

	b.label(t, name, map[string]any{"tenantName": nil, "internal": nil, "shared": "true"})
	shared := b.pool()
	shared.Shared = true
	told.until(t, "it has moved to the shared pool", func() bool { return len(c.Shared(shared)) == 1 && !slices.Contains(c.Pools(), b.pool()) })

	b.label(t, name, map[string]any{"hyperscalerType": nil})
	told.until(t, "without a type it is no account", func() bool { return told.wasDeleted(name) && len(c.Shared(shared)) == 0 })
	b.label(t, name, map[string]any{"hyperscalerType": b.id, "shared": nil})
	told.until(t, "it is back", claimable(1))
	b.remove(t, b.resource(), name)
	told.until(t, "it is gone", func() bool { _, there := c.Cached(name); return !there && told.wasDeleted(name) })
}

// testCacheSurvivesOutage: the API is unreachable for a while, accounts change meanwhile, and the
// cache catches up by itself.
func testCacheSurvivesOutage(t *testing.T, b *bench) {
	claimed, gone, again := b.account(t, 1, nil), b.account(t, 2, nil), b.account(t, 4, map[string]string{gardener.LabelCordon: "true"})
	wire := &line{}
	through := *b
	through.Config = rest.CopyConfig(b.Config)
	through.Config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return wire.took(conn)
	}
	c, told := through.watching(t, gardener.Options{})

	wire.breakAll()
	b.label(t, claimed, map[string]any{"tenantName": "ga-1"})
	b.remove(t, b.resource(), gone)
	before, _ := c.Cached(again)
	b.remove(t, b.resource(), again)
	b.binding(t, again, again, map[string]string{"hyperscalerType": b.id})
	added := b.account(t, 3, nil)
	if _, err := c.Get(shortly(t), claimed); err == nil {
		t.Error("the line is not cut")
	}
	if stale, ok := c.Cached(claimed); !ok || stale.Tenant != "" {
		t.Errorf("the cache should be stale, but has %+v", stale)
	}
	wire.mend()
	told.until(t, "the cache has caught up", func() bool {
		one, _ := c.Cached(claimed)
		_, two := c.Cached(gone)
		_, three := c.Cached(added)
		return one.Tenant == "ga-1" && !two && three && told.wasDeleted(gone) && len(told.of(again)) == 3
	})
	after, _ := c.Cached(again)
	if after.UID == before.UID || after.Cordoned {
		t.Errorf("made again, the cache has %+v", after)
	}
	if want := []change{{before.UID, false}, {before.UID, true}, {after.UID, false}}; !slices.Equal(told.of(again), want) {
		t.Errorf("of the one that was made again it told %+v, want %+v", told.of(again), want)
	}
}

// shortly returns a context for a call that should fail.
func shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// testNoListOnTheWay: a claim is suggested by the cache, read and patched. The
// number of lists does not depend on the number of claims.
func testNoListOnTheWay(t *testing.T, b *bench) {
	const claims = 20
	for n := range claims {
		b.account(t, n, nil)
	}
	wire := &record{}
	c, told := b.watching(t, gardener.Options{}, wire.wrap)
	wire.forget()
	for n := range claims {
		tenant := fmt.Sprintf("ga-%d", n)
		seen, _ := c.Claimable(b.pool(), tenant, false, 8)
		read := get(t, c, seen[0].Name)
		if _, err := c.Claim(t.Context(), read, engine.Mark{Tenant: tenant, Generation: 1}); err != nil {
			t.Fatal(err)
		}
		told.until(t, "the claim is in the cache", func() bool { return len(c.Owned(b.pool(), tenant)) == 1 })
	}
	if wire.count("list") != 0 || wire.count("get") != claims || wire.count("patch") != claims {
		t.Errorf("%d lists, %d gets, %d patches for %d claims", wire.count("list"), wire.count("get"), wire.count("patch"), claims)
	}
}

// testMetadataOnly: no request accepts the contents of a Secret, and no answer has them. Bindings,
// which refer to Secrets, are listed whole.
func testMetadataOnly(t *testing.T, b *bench) {
	name := b.account(t, 1, nil)
	wire := &record{bodies: true}
	c, told := b.watching(t, gardener.Options{}, wire.wrap)
	claimed, err := c.Claim(t.Context(), get(t, c, name), engine.Mark{Tenant: "ga-1", Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	told.until(t, "the watch has shown the claim", func() bool { return len(c.Owned(b.pool(), "ga-1")) == 1 })
	if _, err := c.Free(t.Context(), claimed, "r-1"); err != nil {
		t.Fatal(err)
	}
	if err := c.List(t.Context(), func(engine.Binding) error { return nil }); err != nil {
		t.Fatal(err)
	}
	wire.mu.Lock()
	defer wire.mu.Unlock()
	for _, a := range wire.accepts {
		if (strings.HasSuffix(a.path, "/secrets") || strings.Contains(a.path, "/secrets/")) && !strings.Contains(a.kind, "as=PartialObjectMetadata") {
			t.Errorf("a request of %s accepts %q", a.path, a.kind)
		}
	}
	for _, content := range []string{secretContent, "secret-content"} {
		if strings.Contains(wire.told.String(), content) {
			t.Errorf("%s was sent", content)
		}
	}
	if !strings.Contains(wire.told.String(), name) {
		t.Error("the tap has heard nothing")
	}
}
