package accounttest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Keeper is a Machine with the queries of workers.
type Keeper interface {
	Machine
	Built(ctx context.Context, places ...string) (map[string]bool, error)
	Pools(ctx context.Context) ([]string, error)
	Bindings(ctx context.Context, pool string) iter.Seq2[account.NamedRecord, error]
	Runtimes(ctx context.Context, pool string) iter.Seq2[account.NamedRuntime, error]
	Places(ctx context.Context, bucket string) iter.Seq2[account.NamedPlace, error]
	Place(ctx context.Context, runtime string) (account.Place, error)
	Binding(ctx context.Context, pool, binding string) (account.Record, error)
	Runtime(ctx context.Context, id string) (account.Place, account.Runtime, error)
	RuntimeIn(ctx context.Context, pool, id string) (account.Runtime, error)
}

// Read tests the queries of k, in which nothing is built yet: before, while and after it has pools.
func Read(t *testing.T, k Keeper) {
	t.Helper()
	r := &reading{t: t, k: k, ctx: t.Context(), bucket: account.BucketOf("rt-1")}
	r.unbuilt("of nothing")
	r.is("pools of nothing", fmt.Sprint(r.pools()), "[]")
	r.must(build(r.ctx, k, "aws+eu", "gcp"))
	r.is("pools", fmt.Sprint(r.pools()), "[aws+eu gcp]")
	r.is("built", fmt.Sprint(r.built("aws+eu", "gcp", "azure", r.bucket)), fmt.Sprintf("map[aws+eu:true azure:false gcp:true %s:true]", r.bucket))
	r.is("runtimes of an empty pool", list(t, k.Runtimes(r.ctx, "aws+eu"), plain), "")

	seen := []account.Seen{{Binding: "b-1"}, {Binding: "b-2"}}
	request := account.Request{Request: "p-1", Runtime: "rt-1", Tenant: "ga", Seen: seen, All: true}
	d, err := k.LocateAndAssign(r.ctx, "aws+eu", request)
	r.must(err)
	r.is("the place", fmt.Sprint(r.place("rt-1")), fmt.Sprint(account.Place{Pool: "aws+eu"}))
	r.is("no place", fmt.Sprint(r.place("rt-none")), fmt.Sprint(account.Place{}))
	rec, err := k.Binding(r.ctx, "aws+eu", d.Binding)
	r.must(err)
	free, err := k.Binding(r.ctx, "aws+eu", "b-9")
	r.must(err)
	if rec.Tenant != "ga" || rec.Count != 1 || free != (account.Record{State: account.Free}) && free != (account.Record{}) {
		t.Errorf("the binding is %+v, one without a record %+v", rec, free)
	}
	place, rt, err := k.Runtime(r.ctx, "rt-1")
	r.must(err)
	same, err := k.RuntimeIn(r.ctx, "aws+eu", "rt-1")
	r.must(err)
	if place.Pool != "aws+eu" || rt != same || rt.Binding != d.Binding || rt.Request != "p-1" {
		t.Errorf("the runtime is %+v at %+v, in the pool %+v", rt, place, same)
	}
	elsewhere, err := k.RuntimeIn(r.ctx, "gcp", "rt-1")
	r.must(err)
	r.is("elsewhere", fmt.Sprint(elsewhere), fmt.Sprint(account.Runtime{}))
	r.is("bindings", list(t, k.Bindings(r.ctx, "aws+eu"), func(n account.NamedRecord) string { return n.Binding }), d.Binding)
	r.is("runtimes", list(t, k.Runtimes(r.ctx, "aws+eu"), func(n account.NamedRuntime) string { return n.ID }), "rt-1")
	r.is("places", list(t, k.Places(r.ctx, r.bucket), func(n account.NamedPlace) string { return n.Runtime + " " + n.Pool }), "rt-1 aws+eu")

	_, err = k.Discard(r.ctx, "aws+eu")
	r.must(err)
	r.is("pools, of which one was discarded", fmt.Sprint(r.pools()), "[aws+eu gcp]")
	_, err = k.Binding(r.ctx, "aws+eu", d.Binding)
	r.notBuilt("a binding of a pool that was discarded", err)
	r.must(k.Lose(r.ctx))
	r.unbuilt("after a loss")
	r.is("pools after a loss", fmt.Sprint(r.pools()), "[]")
}

// reading is the state of Read.
type reading struct {
	t      *testing.T
	k      Keeper
	ctx    context.Context
	bucket string
}

func (r *reading) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *reading) is(what, got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (r *reading) notBuilt(what string, err error) {
	r.t.Helper()
	if !errors.Is(err, account.ErrNotBuilt) {
		r.t.Errorf("%s: %v, want %v", what, err, account.ErrNotBuilt)
	}
}

func (r *reading) pools() []string {
	r.t.Helper()
	pools, err := r.k.Pools(r.ctx)
	r.must(err)
	return pools
}

func (r *reading) built(places ...string) map[string]bool {
	r.t.Helper()
	built, err := r.k.Built(r.ctx, places...)
	r.must(err)
	return built
}

func (r *reading) place(runtime string) account.Place {
	r.t.Helper()
	place, err := r.k.Place(r.ctx, runtime)
	r.must(err)
	return place
}

// unbuilt checks that every query but Pools reports that nothing is built.
func (r *reading) unbuilt(when string) {
	r.t.Helper()
	r.is("built "+when, fmt.Sprint(r.built("aws+eu", r.bucket)), fmt.Sprintf("map[aws+eu:false %s:false]", r.bucket))
	_, err := r.k.Place(r.ctx, "rt-1")
	r.notBuilt("a place "+when, err)
	_, _, err = r.k.Runtime(r.ctx, "rt-1")
	r.notBuilt("a runtime "+when, err)
	_, err = r.k.RuntimeIn(r.ctx, "aws+eu", "rt-1")
	r.notBuilt("a runtime of a pool "+when, err)
	_, err = r.k.Binding(r.ctx, "aws+eu", "b-1")
	r.notBuilt("a binding "+when, err)
	r.notBuilt("bindings "+when, first(r.k.Bindings(r.ctx, "aws+eu")))
	r.notBuilt("runtimes "+when, first(r.k.Runtimes(r.ctx, "aws+eu")))
	r.notBuilt("places "+when, first(r.k.Places(r.ctx, r.bucket)))
}

// first returns the error of a sequence's first entry, nil for an empty sequence.
func first[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		return err
	}
	return nil
}

// list joins the entries of a sequence, sorted as text.
func list[T any](t *testing.T, seq iter.Seq2[T, error], say func(T) string) string {
	t.Helper()
	var all []string
	for entry, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, say(entry))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func plain[T any](v T) string { return fmt.Sprint(v) }
