// Package suggesttest is the conformance suite for stores of bindings and Shoots. It runs on Gardener's API
// behind its client and on the store in memory.
package suggesttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
)

// Landscape is Gardener as workers use it, with the changes that others make to it.
type Landscape interface {
	Get(ctx context.Context, name string) (engine.Binding, error)
	Claim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error)
	MarkDirty(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error)
	Unclaim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error)
	Free(ctx context.Context, seen engine.Binding, request string) (engine.Binding, error)
	List(ctx context.Context, f func(engine.Binding) error) error
	Shoots(ctx context.Context, f func(engine.Shoot) error) error
	Refers(ctx context.Context, binding string) (bool, error)
	Referrer(ctx context.Context, binding string) (kind, name string, err error)

	Claimable(pool engine.Pool, tenant string, internalTenant bool, n int) (seen []engine.Binding, all bool)
	Shared(pool engine.Pool) []engine.Binding
	Barred(pool engine.Pool, tenant string, internalTenant bool) []string
	Cached(name string) (engine.Binding, bool)
	Pools() []engine.Pool

	// Type is a hyperscaler type that no other test uses.
	Type() string
	// Name is the name of the nth binding or Shoot. n is from 1 to 9, so that names have the order of their numbers.
	Name(n int) string
	// Create creates a binding; Change changes it as another client of the API does.
	Create(b engine.Binding)
	Change(name string, edit func(b *engine.Binding))
	Remove(name string)
	// CreateShoot creates a Shoot. If the bindings are Secrets, it also creates the object that refers to the
	// Shoot's Secret.
	CreateShoot(s engine.Shoot)
	// Until waits until holds is true: the cache follows the API with a delay.
	Until(what string, holds func() bool)
}

// Run runs the suite. newLandscape is called by each test.
func Run(t *testing.T, newLandscape func(t *testing.T) Landscape) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*bench)
	}{
		{"Life", testLife},
		{"Fence", testFence},
		{"Missing", testMissing},
		{"CallerGone", testCallerGone},
		{"Suggestions", testSuggestions},
		{"Deleting", testDeleting},
		{"MadeAgain", testMadeAgain},
		{"Moves", testMoves},
		{"Shoots", testShoots},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(&bench{Landscape: newLandscape(t), t: t})
		})
	}
}

type bench struct {
	Landscape
	t *testing.T
}

// account creates the nth binding, and returns it as Get reads it.
func (b *bench) account(n int, edit func(*engine.Binding)) engine.Binding {
	b.t.Helper()
	account := engine.Binding{Name: b.Name(n), HyperscalerType: b.Type()}
	if edit != nil {
		edit(&account)
	}
	b.Create(account)
	return b.get(account.Name)
}

func (b *bench) get(name string) engine.Binding {
	b.t.Helper()
	got, err := b.Get(b.t.Context(), name)
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// written checks the result of a write: before with edit applied, with a new resourceVersion, and equal to
// the next read. It returns the result.
func (b *bench) written(before, got engine.Binding, err error, edit func(*engine.Binding)) engine.Binding {
	b.t.Helper()
	want := before
	edit(&want)
	want.ResourceVersion = got.ResourceVersion
	if err != nil || got != want || got.ResourceVersion == before.ResourceVersion {
		b.t.Fatalf("written %+v, %v\n  want %+v", got, err, want)
	}
	if read := b.get(got.Name); read != got {
		b.t.Fatalf("read %+v\n got %+v", read, got)
	}
	return got
}

// testLife takes a binding from its claim through dirty and free to the next claim, and undoes that claim.
func testLife(b *bench) {
	ctx, free := b.t.Context(), b.account(1, nil)
	mark := engine.Mark{Tenant: "ga-1", Generation: 1, Epoch: "e1"}
	claimed, err := b.Claim(ctx, free, mark)
	in := free.Pool().Name()
	claimed = b.written(free, claimed, err, func(x *engine.Binding) { x.Tenant, x.ClaimedIn, x.Generation, x.Epoch = "ga-1", in, 1, "e1" })
	again, err := b.Claim(ctx, claimed, mark)
	if err != nil || again != claimed {
		b.t.Fatalf("the same claim again: %+v, %v", again, err)
	}
	dirty, err := b.MarkDirty(ctx, claimed, engine.Mark{Tenant: "ga-1", Generation: 1, Epoch: "not written"})
	dirty = b.written(claimed, dirty, err, func(x *engine.Binding) { x.Dirty = true })
	freed, err := b.Free(ctx, dirty, "r-1")
	freed = b.written(dirty, freed, err, func(x *engine.Binding) { x.Tenant, x.ClaimedIn, x.Dirty, x.ReleasedBy = "", "", false, "r-1" })
	other, err := b.Claim(ctx, freed, engine.Mark{Tenant: "ga-2", Generation: 2, Epoch: "e1"})
	other = b.written(freed, other, err, func(x *engine.Binding) { x.Tenant, x.ClaimedIn, x.Generation = "ga-2", in, 2 })
	back, err := b.Unclaim(ctx, other, engine.Mark{Tenant: "ga-2", Generation: 3})
	b.written(other, back, err, func(x *engine.Binding) { x.Tenant, x.ClaimedIn, x.Generation = "", "", 3 })
}

// writes makes every write of a worker, and returns the error of each.
func (b *bench) writes(ctx context.Context, seen engine.Binding) map[string]error {
	mark := engine.Mark{Tenant: "ga-9", Generation: 9, Epoch: "e9"}
	errs := map[string]error{}
	_, errs["claim"] = b.Claim(ctx, seen, mark)
	_, errs["mark dirty"] = b.MarkDirty(ctx, seen, mark)
	_, errs["unclaim"] = b.Unclaim(ctx, seen, mark)
	_, errs["free"] = b.Free(ctx, seen, "r-9")
	return errs
}

// testMadeAgain: a binding that is created again under its name is another one, also for writes.
func testMadeAgain(b *bench) {
	before := b.account(1, func(x *engine.Binding) { x.Tenant = "ga-1" })
	b.Remove(before.Name)
	b.Until("it is gone", func() bool { _, there := b.Cached(before.Name); return !there })
	after := b.account(1, nil)
	if after.UID == "" || before.UID == "" || after.UID == before.UID || after.Tenant != "" {
		b.t.Errorf("before %+v\n after %+v", before, after)
	}
	b.Until("the cache has the new one", func() bool { c, _ := b.Cached(before.Name); return c.UID == after.UID })
	for verb, err := range b.writes(b.t.Context(), before) {
		if !errors.Is(err, engine.ErrConflict) {
			b.t.Errorf("%s: %v", verb, err)
		}
	}
	if got := b.get(before.Name); got != after {
		b.t.Errorf("it is %+v\n want %+v", got, after)
	}
}

// testFence checks that every write fails with ErrConflict if the binding has changed since it was read.
func testFence(b *bench) {
	seen := b.account(1, nil)
	b.Change(seen.Name, func(x *engine.Binding) { x.Cordoned = true })
	before := b.get(seen.Name)
	for verb, err := range b.writes(b.t.Context(), seen) {
		if !errors.Is(err, engine.ErrConflict) {
			b.t.Errorf("%s: %v, want %v", verb, err, engine.ErrConflict)
		}
	}
	unseen := before
	unseen.ResourceVersion = ""
	for verb, err := range b.writes(b.t.Context(), unseen) {
		if err == nil || errors.Is(err, engine.ErrUnavailable) {
			b.t.Errorf("%s without a version: %v", verb, err)
		}
	}
	if after := b.get(seen.Name); after != before {
		b.t.Errorf("it was %+v\n and is %+v", before, after)
	}
}

func testMissing(b *bench) {
	seen := b.account(1, nil)
	b.Remove(seen.Name)
	_, err := b.Get(b.t.Context(), seen.Name)
	errs := b.writes(b.t.Context(), seen)
	errs["get"] = err
	for verb, err := range errs {
		if engine.CodeOf(err) != engine.CodeUnknownBinding {
			b.t.Errorf("%s: %v, want %s", verb, err, engine.CodeUnknownBinding)
		}
	}
	b.Until("what is gone is not suggested", func() bool {
		_, cached := b.Cached(seen.Name)
		return !cached && !slices.Contains(b.Pools(), seen.Pool())
	})
}

// testCallerGone checks that a call whose context has ended fails with ErrUnavailable and changes nothing.
func testCallerGone(b *bench) {
	seen := b.account(1, nil)
	gone, cancel := context.WithCancel(b.t.Context())
	cancel()
	errs := b.writes(gone, seen)
	_, errs["get"] = b.Get(gone, seen.Name)
	_, errs["refers"] = b.Refers(gone, seen.Name)
	errs["list"] = b.List(gone, func(engine.Binding) error { return nil })
	for verb, err := range errs {
		if !errors.Is(err, engine.ErrUnavailable) {
			b.t.Errorf("%s: %v, want %v", verb, err, engine.ErrUnavailable)
		}
	}
	if after := b.get(seen.Name); after != seen {
		b.t.Errorf("it was %+v\n and is %+v", seen, after)
	}
}

func names(bindings []engine.Binding) (found []string) {
	for _, x := range bindings {
		found = append(found, x.Name)
	}
	return found
}

func testSuggestions(b *bench) {
	pool := engine.Pool{HyperscalerType: b.Type()}
	shared := engine.Pool{HyperscalerType: b.Type(), Shared: true}
	for n := 1; n <= 3; n++ {
		b.account(n, nil)
	}
	own := b.account(4, func(x *engine.Binding) { x.Tenant = "ga-1" })
	dirty := b.account(5, func(x *engine.Binding) { x.Tenant, x.Dirty = "ga-1", true })
	cordoned := b.account(6, func(x *engine.Binding) { x.Tenant, x.Cordoned = "ga-1", true })
	internal := b.account(7, func(x *engine.Binding) { x.Tenant, x.Internal = "ga-1", true })
	free := b.account(8, func(x *engine.Binding) { x.Internal = true }) // Redis may count one as the tenant's
	one := b.account(9, func(x *engine.Binding) { x.Shared = true })
	b.Until("the cache has all of them", func() bool {
		_, last := b.Cached(one.Name)
		return last
	})
	seen, all := b.Claimable(pool, "ga-1", false, 8)
	if len(seen) != 4 || seen[0] != own || !all {
		b.t.Errorf("claimable are %v, all of them %t", names(seen), all)
	}
	fewer, all := b.Claimable(pool, "ga-1", false, 2)
	if !slices.Equal(fewer, seen[:3]) || all {
		b.t.Errorf("claimable, with two unclaimed ones, are %v, complete %t; want %v, false", names(fewer), all, names(seen[:3]))
	}
	if seen, _ = b.Claimable(pool, "ga-1", true, 0); !slices.Equal(names(seen), []string{own.Name, internal.Name}) {
		b.t.Errorf("claimable for an internal tenant are %v", names(seen))
	}
	if seen, _ = b.Claimable(pool, "ga-2", false, 8); len(seen) != 3 {
		b.t.Errorf("claimable for another tenant are %v", names(seen))
	}
	if got := b.Barred(pool, "ga-1", false); !slices.Equal(got, []string{dirty.Name, cordoned.Name, internal.Name, free.Name}) {
		b.t.Errorf("barred are %v", got)
	}
	if got := b.Shared(shared); !slices.Equal(got, []engine.Binding{one}) {
		b.t.Errorf("shared are %v", names(got))
	}
	claimed, err := b.Claim(b.t.Context(), seen[0], engine.Mark{Tenant: "ga-2", Generation: 1})
	if err != nil {
		b.t.Fatal(err)
	}
	b.Until("the claim is in the cache", func() bool {
		cached, _ := b.Cached(claimed.Name)
		return cached == claimed
	})
	if seen, _ = b.Claimable(pool, "ga-2", false, 8); len(seen) != 3 || seen[0] != claimed {
		b.t.Errorf("claimable to who has claimed are %v", names(seen))
	}
}

// testDeleting checks bindings that were deleted and that a finalizer still holds: they gain no runtime, and
// workers can still mark them dirty.
func testDeleting(b *bench) {
	pool := engine.Pool{HyperscalerType: b.Type()}
	shared := engine.Pool{HyperscalerType: b.Type(), Shared: true}
	free, own := b.account(1, nil), b.account(2, func(x *engine.Binding) { x.Tenant = "ga-1" })
	one := b.account(3, func(x *engine.Binding) { x.Shared = true })
	stays := b.account(4, nil)
	for _, x := range []engine.Binding{free, own, one} {
		b.Change(x.Name, func(x *engine.Binding) { x.Deleting = true })
	}
	b.Until("the cache has seen that they are being deleted", func() bool {
		cached, _ := b.Cached(one.Name)
		return cached.Deleting
	})
	if seen, all := b.Claimable(pool, "ga-1", true, 8); !slices.Equal(names(seen), []string{stays.Name}) || !all {
		b.t.Errorf("claimable are %v, all of them %t", names(seen), all)
	}
	if got := b.Barred(pool, "ga-1", true); !slices.Equal(got, []string{own.Name, free.Name}) {
		b.t.Errorf("barred are %v", got)
	}
	if got := b.Shared(shared); len(got) != 0 {
		b.t.Errorf("shared are %v", names(got))
	}
	if _, err := b.Claim(b.t.Context(), free, engine.Mark{Tenant: "ga-1", Generation: 1}); !errors.Is(err, engine.ErrConflict) {
		b.t.Errorf("the claim of one that was offered before: %v", err)
	}
	if read := b.get(free.Name); !read.Deleting || read.Tenant != "" {
		b.t.Errorf("it is %+v", read)
	}
	dirty, err := b.MarkDirty(b.t.Context(), b.get(own.Name), engine.Mark{Tenant: "ga-1", Generation: 1})
	if err != nil || !dirty.Dirty || !dirty.Deleting {
		b.t.Errorf("marked dirty: %+v, %v", dirty, err)
	}
}

// testMoves checks bindings whose labels move them into another pool, or into none.
func testMoves(b *bench) {
	name := b.account(1, nil).Name
	stays := b.account(2, func(x *engine.Binding) { x.EUAccess = true })
	shared := engine.Pool{HyperscalerType: b.Type(), Shared: true}
	b.Change(name, func(x *engine.Binding) { x.Shared = true })
	b.Until("it is in the shared pool", func() bool {
		return len(b.Shared(shared)) == 1 && !slices.Contains(b.Pools(), engine.Pool{HyperscalerType: b.Type()})
	})
	b.Change(name, func(x *engine.Binding) { x.HyperscalerType = "" })
	b.Until("without a type it is no account", func() bool {
		_, cached := b.Cached(name)
		return !cached && !slices.Contains(b.Pools(), shared) && slices.Contains(b.Pools(), stays.Pool())
	})
	var listed []string
	if err := b.List(b.t.Context(), func(x engine.Binding) error {
		if x.HyperscalerType == b.Type() || x.Name == name {
			listed = append(listed, x.Name)
		}
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	if !slices.Equal(listed, []string{stays.Name}) {
		b.t.Errorf("listed are %v", listed)
	}
	enough := errors.New("enough")
	if err := b.List(b.t.Context(), func(engine.Binding) error { return enough }); !errors.Is(err, enough) {
		b.t.Errorf("the list ends with %v", err)
	}
}

func testShoots(b *bench) {
	ctx := b.t.Context()
	used, idle := b.account(1, nil), b.account(2, nil)
	b.CreateShoot(engine.Shoot{Name: b.Name(3), Binding: used.Name, RuntimeID: "rt-3", Tenant: "ga-1"})
	b.CreateShoot(engine.Shoot{Name: b.Name(4), Binding: used.Name})
	var shoots []string
	if err := b.Shoots(ctx, func(s engine.Shoot) error {
		if s.Binding == used.Name {
			shoots = append(shoots, fmt.Sprint(s.Name, " ", s.RuntimeID, " ", s.Tenant))
		}
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	want := []string{b.Name(3) + " rt-3 ga-1", b.Name(4) + " " + b.Name(4) + " "}
	if !slices.Equal(shoots, want) {
		b.t.Errorf("the Shoots are %q, want %q", shoots, want)
	}
	for name, want := range map[string]bool{used.Name: true, idle.Name: false} {
		if got, err := b.Refers(ctx, name); got != want || err != nil {
			b.t.Errorf("refers to %s: %t, %v", name, got, err)
		}
	}
	kind, name, err := b.Referrer(ctx, used.Name)
	switch {
	case err != nil, name == "":
		b.t.Errorf("the referrer is %s %s, %v", kind, name, err)
	case used.Kind != "Secret" && (kind != used.Kind || name != used.Name):
		b.t.Errorf("the referrer of a %s is %s %s", used.Kind, kind, name)
	}
	if used.Kind != "Secret" {
		return
	}
	if _, _, err := b.Referrer(ctx, idle.Name); engine.CodeOf(err) != engine.CodeUnknownBinding {
		b.t.Errorf("the referrer of a Secret that nothing refers to: %v", err)
	}
}
