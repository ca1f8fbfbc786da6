package faults

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// TestPlan: a seed always has the same schedule, another seed another one, and two minutes have every kind of fault.
func TestPlan(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		plan := Plan(seed, 2*time.Minute, 3)
		if !slices.Equal(plan, Plan(seed, 2*time.Minute, 3)) {
			t.Fatalf("seed %d gives two schedules", seed)
		}
		if slices.Equal(plan, Plan(seed+1, 2*time.Minute, 3)) {
			t.Fatalf("seeds %d and %d give the same schedule", seed, seed+1)
		}
		for _, kind := range Kinds() {
			if !slices.ContainsFunc(plan, func(a Action) bool { return a.Kind == kind }) {
				t.Errorf("seed %d has no %q in two minutes", seed, kind)
			}
		}
		for i, a := range plan {
			if a.At > 2*time.Minute || a.For <= 0 || a.Worker < 0 || a.Worker > 2 || (i > 0 && a.At <= plan[i-1].At) {
				t.Errorf("seed %d: action %d is %s", seed, i, a)
			}
		}
	}
}

// TestInjector expects every fault of the Kubernetes API for writes, no write faults for reads, and no faults
// for watches.
func TestInjector(t *testing.T) {
	t.Parallel()
	i := newInjector(1)
	i.set(1000, 1000)
	request := func(method, query string, n int) map[string]int {
		i.done = map[string]int{}
		for range n {
			i.kubeFault(httptest.NewRequest(method, "/api"+query, http.NoBody))
		}
		return i.counts()
	}
	writes, reads := request(http.MethodPatch, "", 1000), request(http.MethodGet, "", 1000)
	for _, f := range kubeFaults {
		if writes[f.name] == 0 || (reads[f.name] > 0) == f.write {
			t.Errorf("%s: %d of 1000 writes, %d of 1000 reads", f.name, writes[f.name], reads[f.name])
		}
	}
	if watches := request(http.MethodGet, "?watch=true", 1000); len(watches) > 0 {
		t.Errorf("watches meet %v", watches)
	}
}
