package networktest

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
)

// Allocator keeps network blocks for all clusters.
type Allocator interface {
	Acquire(ctx context.Context, cluster, request string, rules []network.Rule) (network.Acquired, error)
	Return(ctx context.Context, cluster, request string) (network.Returned, error)
	Release(ctx context.Context, cluster string) ([]network.Applied, error)
	Applied(ctx context.Context, cluster string) ([]network.Applied, error)
	SetParents(ctx context.Context, parents []network.Parent) error
	Block(ctx context.Context, foreign ...netip.Prefix) error
	Unblock(ctx context.Context, foreign ...netip.Prefix) error
	Restore(ctx context.Context, r network.Record) (bool, error)
	State(ctx context.Context) (network.State, error)
	Built(ctx context.Context) (bool, error)
	BeginRebuild(ctx context.Context, token string, now time.Time, lease time.Duration) (bool, error)
	RenewRebuild(ctx context.Context, token string, now time.Time) (bool, error)
	Install(ctx context.Context, token string, state network.State) (bool, error)
	Discard(ctx context.Context) (bool, error)
}

// Rebuilds tests the promises of a rebuild on an Allocator that is not built.
func Rebuilds(t *testing.T, a Allocator) {
	t.Helper()
	ctx, now := t.Context(), time.Unix(1_000_000, 0)
	is := func(what string, want bool, got bool, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Fatalf("%s: %t, %v, want %t", what, got, err, want)
		}
	}
	built, err := a.Built(ctx)
	is("built at first", false, built, err)
	_, err = a.Acquire(ctx, "c", "p", nil)
	unbuilt(t, err)
	unbuilt(t, a.SetParents(ctx, nil))
	unbuilt(t, a.Block(ctx, netip.MustParsePrefix("10.0.0.0/24")))
	_, err = a.Applied(ctx, "c")
	unbuilt(t, err)
	_, err = a.Release(ctx, "c")
	unbuilt(t, err)
	_, err = a.State(ctx)
	unbuilt(t, err)
	ok, err := a.BeginRebuild(ctx, "one", now, time.Minute)
	is("the first begins", true, ok, err)
	ok, err = a.BeginRebuild(ctx, "two", now.Add(time.Second), time.Minute)
	is("the second waits", false, ok, err)
	ok, err = a.BeginRebuild(ctx, "two", now.Add(time.Hour), time.Minute)
	is("the second begins later", true, ok, err)
	ok, err = a.RenewRebuild(ctx, "one", now.Add(time.Hour))
	is("the first has lost it", false, ok, err)
	ok, err = a.Install(ctx, "one", network.State{})
	is("the first installs", false, ok, err)
	ok, err = a.Install(ctx, "two", network.State{Parents: roomy()})
	is("the second installs", true, ok, err)
	ok, err = a.Install(ctx, "two", network.State{})
	is("it installs again", true, ok, err)
	state, err := a.State(ctx)
	if err != nil || len(state.Parents) != len(roomy()) {
		t.Fatalf("what was installed is %+v, %v", state, err)
	}
	if _, err := a.Return(ctx, "c", ""); err == nil || engine.CodeOf(err) != engine.CodeInternal {
		t.Error("a return for no request succeeds", err)
	}
	ok, err = a.Discard(ctx)
	is("discarded", true, ok, err)
	ok, err = a.Discard(ctx)
	is("discarded again", false, ok, err)
	built, err = a.Built(ctx)
	is("built at last", false, built, err)
}

func unbuilt(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, account.ErrNotBuilt) {
		t.Fatalf("the error is %v, want %v", err, account.ErrNotBuilt)
	}
}

// Histories makes the same random calls on an Allocator and on the model, and compares them. newAllocator
// returns one that is not built.
func Histories(t *testing.T, newAllocator func() Allocator) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		h := &history{ctx: t.Context(), a: newAllocator(), model: network.NewSpace()}
		h.begin(rt, network.State{Parents: roomy()}, "e1")
		rt.Repeat(rapid.StateMachineActions(h))
	})
}

// history is an Allocator and its model.
type history struct {
	ctx   context.Context
	a     Allocator
	model *network.Space
}

func (h *history) begin(t *rapid.T, state network.State, token string) {
	if _, err := h.a.BeginRebuild(h.ctx, token, time.Unix(0, 0), 0); err != nil {
		t.Fatal(err)
	}
	if ok, err := h.a.Install(h.ctx, token, state); !ok || err != nil {
		t.Fatal(ok, err)
	}
	h.model = network.Build(state)
}

func equal(t *rapid.T, got any, err error, want any) {
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v, %v\nwant %+v", got, err, want)
	}
}

// Acquire is a step of a history, as all exported methods are: rapid calls them at random.
func (h *history) Acquire(t *rapid.T) {
	cluster, request, rules := Cluster().Draw(t, "cluster"), Request().Draw(t, "request"), Rules().Draw(t, "rules")
	want, wantErr := h.model.Acquire(cluster, request, rules)
	got, err := h.a.Acquire(h.ctx, cluster, request, rules)
	if wantErr != nil && err != nil && err.Error() == wantErr.Error() && engine.CodeOf(err) == engine.CodeOf(wantErr) {
		return
	}
	equal(t, got, errors.Join(err, wantErr), want)
}

// Return takes back what a request relied on.
func (h *history) Return(t *rapid.T) {
	cluster, request := Cluster().Draw(t, "cluster"), Request().Draw(t, "request")
	got, err := h.a.Return(h.ctx, cluster, request)
	equal(t, got, err, h.model.Return(cluster, request))
}

// Release frees all that a cluster has.
func (h *history) Release(t *rapid.T) {
	cluster := Cluster().Draw(t, "cluster")
	got, err := h.a.Release(h.ctx, cluster)
	equal(t, got, err, h.model.Release(cluster))
}

// Foreign blocks or unblocks what another allocator has.
func (h *history) Foreign(t *rapid.T) {
	block := Foreign().Draw(t, "block")
	change, model := h.a.Block, h.model.Block
	if rapid.Bool().Draw(t, "unblock") {
		change, model = h.a.Unblock, h.model.Unblock
	}
	if err := change(h.ctx, block); err != nil {
		t.Fatal(err)
	}
	model(block)
}

// Restore puts a record back.
func (h *history) Restore(t *rapid.T) {
	record := network.Record{
		Cluster: Cluster().Draw(t, "cluster"), Requests: []string{Request().Draw(t, "request")},
		Applied: network.Applied{Rule: "restored", Blocks: []network.Block{{CIDR: Foreign().Draw(t, "block").Masked(), Paths: []string{"/restored"}}}},
	}
	want := true
	for _, a := range h.model.Applied(record.Cluster) {
		want = want && a.Rule != record.Rule
	}
	got, err := h.a.Restore(h.ctx, record)
	equal(t, got, err, want)
	h.model.Restore(record)
}

// Parents changes the configuration.
func (h *history) Parents(t *rapid.T) {
	parents := Parents().Draw(t, "parents")
	if err := h.a.SetParents(h.ctx, parents); err != nil {
		t.Fatal(err)
	}
	h.model.SetParents(parents)
}

// Rebuild discards the epoch and builds anew from the Allocator's state.
func (h *history) Rebuild(t *rapid.T) {
	state, err := h.a.State(h.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.a.Discard(h.ctx); err != nil {
		t.Fatal(err)
	}
	h.begin(t, state, "e"+rapid.StringMatching("[a-z]{20}").Draw(t, "token"))
}

// Check compares the states of both. rapid calls it after each step.
func (h *history) Check(t *rapid.T) {
	got, err := h.a.State(h.ctx)
	equal(t, records(got.Records), err, records(h.model.Snapshot().Records))
	equal(t, got.Parents, err, h.model.Snapshot().Parents)
	if len(got.Foreign) != len(h.model.Snapshot().Foreign) {
		t.Fatalf("foreign are %v, want %v", got.Foreign, h.model.Snapshot().Foreign)
	}
	for cluster := range records(got.Records) {
		applied, err := h.a.Applied(h.ctx, cluster)
		equal(t, applied, err, h.model.Applied(cluster))
	}
}

// records groups the records by cluster.
func records(all []network.Record) map[string][]network.Record {
	of := map[string][]network.Record{}
	for _, r := range all {
		of[r.Cluster] = append(of[r.Cluster], r)
	}
	return of
}
