package gardenertest

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener"
)

// testClaim: Claim writes the mark, keeps what others wrote, and returns the same binding as a read.
func testClaim(t *testing.T, b *bench) {
	name := b.account(t, 1, map[string]string{"owner": "team-a"})
	var writers []string
	c := b.client(t, gardener.Options{}, func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodPatch {
				writers = append(writers, req.URL.Query().Get("fieldManager"))
			}
			return next.RoundTrip(req)
		})
	})
	seen, ok := c.Cached(name)
	if !ok {
		t.Fatal("not cached")
	}
	got, err := c.Claim(t.Context(), seen, engine.Mark{Tenant: "ga-1", Generation: 1, Epoch: "e1"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(writers, []string{"hap-worker"}) {
		t.Errorf("the server is told that %q write", writers)
	}
	want := seen
	want.Tenant, want.Generation, want.Epoch, want.ResourceVersion = "ga-1", 1, "e1", got.ResourceVersion
	want.ClaimedIn = seen.Pool().Name()
	if got != want || got.ResourceVersion == seen.ResourceVersion {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	if read := get(t, c, name); read != got {
		t.Errorf("\nread %+v\n got %+v", read, got)
	}
	o := b.object(t, name)
	if o.GetLabels()["owner"] != "team-a" || len(o.GetAnnotations()) != 4 {
		t.Errorf("labels %v, annotations %v", o.GetLabels(), o.GetAnnotations())
	}
}

// testClaimStale: after any change of the object a write fails and changes nothing.
func testClaimStale(t *testing.T, b *bench) {
	name := b.account(t, 1, nil)
	c := b.client(t, gardener.Options{})
	seen := get(t, c, name)
	b.label(t, name, map[string]any{"unrelated": "x"})
	before := get(t, c, name)
	for _, write := range []func() (engine.Binding, error){
		func() (engine.Binding, error) {
			return c.Claim(t.Context(), seen, engine.Mark{Tenant: "ga-1", Generation: 1})
		},
		func() (engine.Binding, error) {
			return c.MarkDirty(t.Context(), seen, engine.Mark{Tenant: "ga-1", Generation: 1})
		},
		func() (engine.Binding, error) { return c.Free(t.Context(), seen, "r-1") },
		func() (engine.Binding, error) {
			return c.Unclaim(t.Context(), seen, engine.Mark{Tenant: "ga-1", Generation: 1})
		},
	} {
		if _, err := write(); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("got %v, want ErrConflict", err)
		}
	}
	if after := get(t, c, name); after != before {
		t.Errorf("changed:\n%+v\n%+v", before, after)
	}
}

// testClaimRace: invariant I3 (OneTenant), kept by the resourceVersion. Two clients that saw the
// same free binding claim it at once, fifty times.
func testClaimRace(t *testing.T, b *bench) {
	name := b.account(t, 1, nil)
	clients := []*gardener.Client{b.client(t, gardener.Options{}), b.client(t, gardener.Options{})}
	for round := range 50 {
		seen := get(t, clients[0], name)
		var wg sync.WaitGroup
		errs := make([]error, len(clients))
		start := make(chan struct{})
		for i, c := range clients {
			wg.Go(func() {
				<-start
				_, errs[i] = c.Claim(t.Context(), seen, engine.Mark{Tenant: "ga-" + strconv.Itoa(i), Generation: seen.Generation + 1})
			})
		}
		close(start)
		wg.Wait()
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		if errs[winner] != nil || !errors.Is(errs[1-winner], engine.ErrConflict) {
			t.Fatalf("round %d: %v; %v", round, errs[0], errs[1])
		}
		now := get(t, clients[0], name)
		if now.Tenant != "ga-"+strconv.Itoa(winner) || now.Generation != int64(round)+1 {
			t.Fatalf("round %d: client %d won, but the binding is %+v", round, winner, now)
		}
		if _, err := clients[0].Free(t.Context(), now, "r-"+strconv.Itoa(round)); err != nil {
			t.Fatal(err)
		}
	}
}

// testClaimRepeated: a claim may be repeated on its result, and to renew the epoch.
func testClaimRepeated(t *testing.T, b *bench) {
	name := b.account(t, 1, nil)
	c := b.client(t, gardener.Options{})
	mark := engine.Mark{Tenant: "ga-1", Generation: 4, Epoch: "e1"}
	once, err := c.Claim(t.Context(), get(t, c, name), mark)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := c.Claim(t.Context(), once, mark)
	if err != nil || twice != once {
		t.Errorf("the same again: %v\n%+v\n%+v", err, once, twice)
	}
	mark.Epoch = "e2"
	renewed, err := c.Claim(t.Context(), twice, mark)
	if err != nil || renewed.Epoch != "e2" || renewed.Generation != 4 || renewed.Tenant != "ga-1" {
		t.Errorf("a new epoch: %v %+v", err, renewed)
	}
}

// testCordon: Cordon keeps the claim of a binding, and everything that others wrote.
func testCordon(t *testing.T, b *bench) {
	name := b.account(t, 1, map[string]string{"owner": "team-a"})
	c := b.client(t, gardener.Options{})
	claimed, err := c.Claim(t.Context(), get(t, c, name), engine.Mark{Tenant: "ga-1", Generation: 3, Epoch: "e1"})
	if err != nil {
		t.Fatal(err)
	}
	before := b.object(t, name)
	for _, on := range []bool{true, true, false} {
		cordoned, changed, err := c.Cordon(t.Context(), name, on)
		want := claimed
		want.Cordoned, want.ResourceVersion = on, cordoned.ResourceVersion
		if err != nil || cordoned != want || changed != (cordoned.ResourceVersion != claimed.ResourceVersion) {
			t.Fatalf("cordon %t: %v, changed %t\n got %+v\nwant %+v", on, err, changed, cordoned, want)
		}
		claimed = cordoned
	}
	after := b.object(t, name)
	if !maps.Equal(after.GetAnnotations(), before.GetAnnotations()) || !maps.Equal(after.GetLabels(), before.GetLabels()) {
		t.Errorf("labels %v, annotations %v; before %v, %v", after.GetLabels(), after.GetAnnotations(), before.GetLabels(), before.GetAnnotations())
	}
}

// testMovedUnderItsClaim: a claimed binding stays in the pool of its claim, whatever its
// labels become, until it is free: its runtimes are counted there. If its label names another tenant,
// the claim does not count.
func testMovedUnderItsClaim(t *testing.T, b *bench) {
	name := b.account(t, 1, nil)
	c := b.client(t, gardener.Options{})
	free := get(t, c, name)
	claimed, err := c.Claim(t.Context(), free, engine.Mark{Tenant: "ga-1", Generation: 1, Epoch: "e1"})
	if err != nil {
		t.Fatal(err)
	}
	b.label(t, name, map[string]any{"hyperscalerType": b.id + "_moved", "euAccess": "true", "shared": "true"})
	moved := get(t, c, name)
	labelled := engine.Pool{HyperscalerType: b.id + "_moved", EUAccess: true, Shared: true}
	if moved.Pool() != claimed.Pool() || moved.LabelledPool() != labelled {
		t.Errorf("under its claim it is in %+v, labelled for %+v", moved.Pool(), moved.LabelledPool())
	}
	renewed, err := c.Claim(t.Context(), moved, engine.Mark{Tenant: "ga-1", Generation: 1, Epoch: "e2"})
	if err != nil || renewed.Pool() != free.Pool() {
		t.Errorf("claimed again it is in %+v, %v", renewed.Pool(), err)
	}
	b.label(t, name, map[string]any{"tenantName": "ga-2"})
	if edited := get(t, c, name); edited.Pool() != labelled {
		t.Errorf("labelled for another tenant it is in %+v", edited.Pool())
	}
	b.label(t, name, map[string]any{"tenantName": "ga-1"})
	freed, err := c.Free(t.Context(), get(t, c, name), "r-1")
	if err != nil || freed.Pool() != labelled {
		t.Errorf("freed it is in %+v, %v", freed.Pool(), err)
	}
}

// testMarkDirty: rule 8. MarkDirty writes tenant and generation, too, and keeps the epoch.
func testMarkDirty(t *testing.T, b *bench) {
	name := b.account(t, 1, nil)
	c := b.client(t, gardener.Options{})
	claimed, err := c.Claim(t.Context(), get(t, c, name), engine.Mark{Tenant: "ga-1", Generation: 2, Epoch: "e1"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.MarkDirty(t.Context(), claimed, engine.Mark{Tenant: "ga-1", Generation: 2, Epoch: "not written"})
	if err != nil {
		t.Fatal(err)
	}
	want := claimed
	want.Dirty, want.ResourceVersion = true, got.ResourceVersion
	if got != want || get(t, c, name) != want {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	// MarkDirty restores the label that was removed meanwhile.
	b.label(t, name, map[string]any{"tenantName": nil, "dirty": nil})
	again, err := c.MarkDirty(t.Context(), get(t, c, name), engine.Mark{Tenant: "ga-1", Generation: 3})
	if err != nil || !again.Dirty || again.Tenant != "ga-1" || again.Generation != 3 {
		t.Errorf("%v %+v", err, again)
	}
}

// testUnclaim: rule 8. Unclaim removes the tenant and the pool of a claim, and writes the generation, from
// which the next claim counts on.
func testUnclaim(t *testing.T, b *bench) {
	name := b.account(t, 1, nil)
	c := b.client(t, gardener.Options{})
	claimed, err := c.Claim(t.Context(), get(t, c, name), engine.Mark{Tenant: "ga-1", Generation: 2, Epoch: "e1"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Unclaim(t.Context(), claimed, engine.Mark{Tenant: "ga-1", Generation: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := claimed
	want.Tenant, want.ClaimedIn, want.Generation, want.ResourceVersion = "", "", 3, got.ResourceVersion
	if got != want || get(t, c, name) != want {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	labels := b.object(t, name).GetLabels()
	_, tenant := labels["tenantName"]
	_, dirty := labels["dirty"]
	if tenant || dirty {
		t.Errorf("labels %v", labels)
	}
}

// testFree: rule 9. One write removes both labels and names the request; the
// generation stays.
func testFree(t *testing.T, b *bench) {
	name := b.account(t, 1, map[string]string{"tenantName": "ga-1", "dirty": "true"})
	wire := &record{}
	c := b.client(t, gardener.Options{}, wire.wrap)
	seen, err := c.MarkDirty(t.Context(), get(t, c, name), engine.Mark{Tenant: "ga-1", Generation: 7})
	if err != nil {
		t.Fatal(err)
	}
	wire.forget()
	got, err := c.Free(t.Context(), seen, "r-9")
	if err != nil {
		t.Fatal(err)
	}
	if wire.count("patch") != 1 {
		t.Errorf("%d patches", wire.count("patch"))
	}
	want := seen
	want.Tenant, want.ClaimedIn, want.Dirty, want.ReleasedBy, want.ResourceVersion = "", "", false, "r-9", got.ResourceVersion
	if got != want {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	labels := b.object(t, name).GetLabels()
	_, tenant := labels["tenantName"]
	_, dirty := labels["dirty"]
	if tenant || dirty {
		t.Errorf("labels %v", labels)
	}
}

// testMissing: a missing binding has a separate error code, for reads and writes.
func testMissing(t *testing.T, b *bench) {
	name := b.account(t, 1, nil)
	c := b.client(t, gardener.Options{})
	seen := get(t, c, name)
	b.remove(t, b.resource(), name)
	if _, err := c.Get(t.Context(), name); engine.CodeOf(err) != engine.CodeUnknownBinding {
		t.Errorf("get: %v", err)
	}
	if _, err := c.Claim(t.Context(), seen, engine.Mark{Tenant: "ga-1"}); engine.CodeOf(err) != engine.CodeUnknownBinding {
		t.Errorf("claim: %v", err)
	}
}

// testLegacyLabels: with the preset, the client reads and writes the older keys, and ignores the newer
// ones.
func testLegacyLabels(t *testing.T, b *bench) {
	name := b.account(t, 1, map[string]string{"hyperscaler-type": b.id, "euAccess": "true"})
	c := b.client(t, gardener.Options{Labels: map[string]string{gardener.Preset: "legacy"}})
	pool := b.pool()
	pool.EUAccess = true
	seen, all := c.Claimable(pool, "ga-1", false, 8)
	if len(seen) != 1 || !all {
		t.Fatalf("%+v %t", seen, all)
	}
	claimed, err := c.Claim(t.Context(), seen[0], engine.Mark{Tenant: "ga-1", Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	labels := b.object(t, name).GetLabels()
	if labels["tenant-name"] != "ga-1" || labels["tenantName"] != "" {
		t.Errorf("labels %v", labels)
	}
	if _, err := c.Free(t.Context(), claimed, "r-1"); err != nil {
		t.Fatal(err)
	}
	if _, there := b.object(t, name).GetLabels()["tenant-name"]; there {
		t.Error("tenant-name is still there")
	}
}
