package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// TestSuggestions: which of the bindings that a search has read it offers to the script, and which of these it bars.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	aws, shared := engine.Pool{HyperscalerType: "aws"}, engine.Pool{HyperscalerType: "aws", Shared: true}
	dedicated, insider, common := claimRequest{tenant: "ga", pool: aws}, claimRequest{tenant: "ga", pool: aws, internal: true}, claimRequest{tenant: "ga", pool: shared}
	for _, c := range []struct {
		name    string
		job     claimRequest
		binding engine.Binding
		offered bool
		mine    bool
		barred  bool
	}{
		{"unclaimed", dedicated, engine.Binding{HyperscalerType: "aws"}, true, false, false},
		{"the tenant's", dedicated, engine.Binding{HyperscalerType: "aws", Tenant: "ga"}, true, true, false},
		{"another tenant's", dedicated, engine.Binding{HyperscalerType: "aws", Tenant: "gb"}, false, false, false},
		{"dirty", dedicated, engine.Binding{HyperscalerType: "aws", Tenant: "ga", Dirty: true}, false, false, false},
		{"cordoned", dedicated, engine.Binding{HyperscalerType: "aws", Cordoned: true}, true, false, true},
		{"being deleted", dedicated, engine.Binding{HyperscalerType: "aws", Deleting: true}, true, false, true},
		{"the tenant's, cordoned", dedicated, engine.Binding{HyperscalerType: "aws", Tenant: "ga", Cordoned: true}, true, true, true},
		{"internal", dedicated, engine.Binding{HyperscalerType: "aws", Internal: true}, true, false, true},
		{"internal, of the tenant's name", dedicated, engine.Binding{HyperscalerType: "aws", Tenant: "ga", Internal: true}, true, true, true},
		{"internal, of an internal tenant's name", insider, engine.Binding{HyperscalerType: "aws", Tenant: "ga", Internal: true}, true, true, false},
		{"internal and unclaimed, for an internal tenant", insider, engine.Binding{HyperscalerType: "aws", Internal: true}, true, false, true},
		{"moved to another type", dedicated, engine.Binding{HyperscalerType: "gcp"}, false, false, false},
		{"moved to another type, still the tenant's", dedicated, engine.Binding{HyperscalerType: "gcp", Tenant: "ga"}, false, false, false},
		{"moved to the EU", dedicated, engine.Binding{HyperscalerType: "aws", EUAccess: true}, false, false, false},
		{"shared by now", dedicated, engine.Binding{HyperscalerType: "aws", Shared: true}, false, false, false},
		{"shared", common, engine.Binding{HyperscalerType: "aws", Shared: true}, true, false, false},
		{"shared, with a tenant's name", common, engine.Binding{HyperscalerType: "aws", Shared: true, Tenant: "gb"}, true, false, false},
		{"shared, internal", common, engine.Binding{HyperscalerType: "aws", Shared: true, Internal: true}, true, false, true},
		{"shared no more", common, engine.Binding{HyperscalerType: "aws"}, false, false, false},
	} {
		v := &candidates{}
		c.binding.Name, c.binding.Generation = "a", 7
		v.put(c.binding, true)
		var want []account.Seen
		if c.offered {
			want = []account.Seen{{Binding: "a", Generation: 7, Mine: c.mine}}
		}
		if got, barred := v.suggestions(c.job); !slices.Equal(got, want) || len(barred) > 0 != c.barred {
			t.Errorf("%s: %+v, barred %v, want %+v", c.name, got, barred, want)
		}
	}
}

// A suggestion of the cache does not replace a binding that was read from the API.
func TestOfferKeepsWhatWasRead(t *testing.T) {
	t.Parallel()
	v := &candidates{}
	v.offer([]engine.Binding{{Name: "b"}, {Name: "a"}})
	v.put(engine.Binding{Name: "b", Generation: 9}, true)
	v.offer([]engine.Binding{{Name: "a", Generation: 1}, {Name: "b", Generation: 1}, {Name: "c"}})
	want := []account.Seen{{Binding: "b", Generation: 9}, {Binding: "a", Generation: 1}, {Binding: "c"}}
	if got, _ := v.suggestions(dedicatedOf("ga")); !slices.Equal(got, want) {
		t.Errorf("offered are %+v, want %+v", got, want)
	}
}

func dedicatedOf(tenant string) claimRequest {
	return claimRequest{runtime: "rt-1", request: "rq-1", tenant: tenant}
}

// If the cached labels of the first suggestion are out of date, assign goes on with the second one, within a
// few decisions.
func TestAssignPassesOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		edit func(*engine.Binding)
	}{
		{"claimed by another", func(b *engine.Binding) { b.Tenant, b.Generation = "gb", 1 }},
		{"dirty", func(b *engine.Binding) { b.Dirty = true }},
		{"in another pool", func(b *engine.Binding) { b.HyperscalerType = "gcp" }},
		{"in another pool, named for the tenant", func(b *engine.Binding) { b.HyperscalerType, b.Tenant = "gcp", "ga" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gardener := newGardenerFake(engine.Binding{Name: "a", HyperscalerType: "aws"}, engine.Binding{Name: "b", HyperscalerType: "aws"})
			gardener.change("a", c.edit)
			counters := newCountersFake("aws")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := New(Options{Counters: counters, Gardener: gardener, Observer: observe.Observer{
				OnDecision: func(context.Context, observe.Decision) {
					if counters.decisions > 10 {
						cancel() // an endless loop
					}
				},
			}})
			job := dedicatedOf("ga")
			job.pool = engine.Pool{HyperscalerType: "aws"}
			d, err := w.assign(ctx, w.beginClaim(job))
			if err != nil || d.Binding != "b" || !d.Confirmed {
				t.Fatalf("after %d decisions: %+v, %v", counters.decisions, d, err)
			}
			if rec := counters.Pool("aws").Binding("a"); rec.State != account.Free {
				t.Errorf("the account that was passed over is %+v", rec)
			}
			if b := gardener.live["b"]; b.Tenant != "ga" || b.Generation != d.Generation || b.Epoch != "e1" {
				t.Errorf("the label is %+v", b)
			}
		})
	}
}

// An account that is cordoned, or becomes internal, between its claim, which was made by an old label, and the label of
// the claim is given up (rule 4).
func TestClaimOfAnAccountThatIsHeldBackMeanwhile(t *testing.T) {
	t.Parallel()
	for _, hold := range []func(*engine.Binding){
		func(b *engine.Binding) { b.Cordoned = true },
		func(b *engine.Binding) { b.Internal = true },
		func(b *engine.Binding) { b.SameSecretAs = "b" },
	} {
		gardener := newGardenerFake(engine.Binding{Name: "a", HyperscalerType: "aws"})
		gardener.change("a", func(b *engine.Binding) { b.Generation = 2; hold(b) })
		counters := newCountersFake("aws")
		w := New(Options{Counters: counters, Gardener: gardener})
		job := dedicatedOf("ga")
		job.pool = engine.Pool{HyperscalerType: "aws"}
		d, err := w.assign(t.Context(), w.beginClaim(job))
		if err != nil || d.Outcome != account.Waiting || gardener.live["a"].Tenant != "" || counters.Pool("aws").Binding("a").State != account.Free {
			t.Errorf("%+v, %v; the label is %+v", d, err, gardener.live["a"])
		}
	}
}

// A second request of the tenant may come to a claim whose label is not written yet. It revokes the claim for the same
// reasons as the first one does.
func TestSecondRequestGivesTheClaimUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		prepare func(*testing.T, *Worker, *gardenerFake, *countersFake)
	}{
		{"the label is refused", func(_ *testing.T, _ *Worker, g *gardenerFake, _ *countersFake) { g.refused = "a" }},
		{"the account is in shared use", func(t *testing.T, w *Worker, _ *gardenerFake, c *countersFake) {
			t.Helper()
			w.SharedPools([]string{"aws+shared"})
			r := account.Request{Runtime: "rt-0", Request: "rq-0", Tenant: "gb", Shared: true, All: true, Seen: []account.Seen{{Binding: "a"}}}
			if d, err := c.Model.Assign(t.Context(), "aws+shared", r); err != nil || d.Binding != "a" {
				t.Fatal(d, err)
			}
		}},
		{"it is cordoned", func(_ *testing.T, _ *Worker, g *gardenerFake, _ *countersFake) {
			g.change("a", func(b *engine.Binding) { b.Cordoned = true })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gardener := newGardenerFake(engine.Binding{Name: "a", HyperscalerType: "aws"}, engine.Binding{Name: "b", HyperscalerType: "aws"})
			counters := newCountersFake("aws", "aws+shared")
			w := New(Options{Counters: counters, Gardener: gardener})
			c.prepare(t, w, gardener, counters)
			first := account.Request{Runtime: "rt-0", Request: "rq-0", Tenant: "ga", Seen: []account.Seen{{Binding: "a"}}}
			if d, err := counters.Model.Assign(t.Context(), "aws", first); err != nil || d.Binding != "a" || !d.Claiming {
				t.Fatal(d, err)
			}
			job := dedicatedOf("ga")
			job.pool = engine.Pool{HyperscalerType: "aws"}
			d, err := w.assign(t.Context(), w.beginClaim(job))
			if err != nil || d.Binding != "b" || !d.Confirmed || gardener.live["a"].Tenant != "" {
				t.Errorf("%+v, %v; the labels are %+v", d, err, gardener.live)
			}
		})
	}
}

// A claim that meets shared pools which are not built asks for all of them, so that one rebuild is enough.
func TestClaimAsksForAllSharedPools(t *testing.T) {
	t.Parallel()
	asked := &rebuilds{}
	w := New(Options{Counters: newCountersFake("aws", "built+shared"), Gardener: newGardenerFake(), Rebuild: asked})
	w.SharedPools([]string{"one+shared", "built+shared", "two+shared"})
	if used, err := w.inSharedUse(t.Context(), "a"); used || !errors.Is(err, account.ErrNotBuilt) {
		t.Error(used, err)
	}
	if !slices.Equal(*asked, rebuilds{"one+shared", "two+shared"}) {
		t.Errorf("asked for %v", *asked)
	}
}

// A binding that the API refuses to label is not offered again. A search ends after a bounded number of
// refusals.
func TestPassOver(t *testing.T) {
	t.Parallel()
	job := claimRequest{tenant: "ga", pool: engine.Pool{HyperscalerType: "aws"}}
	v := &candidates{}
	for _, name := range []string{"a", "b"} {
		v.put(engine.Binding{Name: name, HyperscalerType: "aws"}, false)
	}
	if !v.passOver("a") {
		t.Error("the search ends with the first that is refused")
	}
	if got, barred := v.suggestions(job); len(got) != 2 || !slices.Equal(barred, []string{"a"}) {
		t.Errorf("offered after a refusal of a: %+v, barred %v", got, barred)
	}
	for i := range 2 * refusals { // accounts in shared use are no refusals
		v.leaveOut(fmt.Sprint("shared-", i))
	}
	passed := 1
	for v.passOver(fmt.Sprint("further-", passed)) {
		passed++
	}
	if passed != refusals {
		t.Errorf("%d are passed over, want %d", passed, refusals)
	}
}
