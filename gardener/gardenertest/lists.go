package gardenertest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener"
)

// listed returns the names of the bench's accounts, in the order of List.
func listed(t *testing.T, b *bench, c *gardener.Client) []string {
	t.Helper()
	var names []string
	err := c.List(t.Context(), func(x engine.Binding) error {
		if x.HyperscalerType == b.id {
			names = append(names, x.Name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// testListPaged: List returns each binding once, however many pages there are, and ends with the
// callback's error.
func testListPaged(t *testing.T, b *bench) {
	var want []string
	for n := range 5 {
		want = append(want, b.account(t, n, nil))
	}
	wire := &record{}
	c := b.client(t, gardener.Options{}, wire.wrap, smallPages)
	wire.forget()
	if got := listed(t, b, c); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if wire.count("list") < 3 {
		t.Errorf("%d pages", wire.count("list"))
	}
	stop := errors.New("enough")
	calls := 0
	err := c.List(t.Context(), func(engine.Binding) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// testListForgotten: if the server has forgotten the rest of a list, the list begins again, and
// callers see each item once.
func testListForgotten(t *testing.T, b *bench) {
	var want []string
	for n := range 3 {
		want = append(want, b.account(t, n, nil))
	}
	broken := &faults{verb: "list"}
	c := b.client(t, gardener.Options{}, broken.continuations, smallPages)
	broken.set(fault{"", true, forgotten})
	if got := listed(t, b, c); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	broken.forever = true
	broken.set(fault{"", true, forgotten})
	if err := c.List(t.Context(), func(engine.Binding) error { return nil }); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("for ever: %v", err)
	}
}

// continuations injects faults into requests for the second and later pages only.
func (f *faults) continuations(next http.RoundTripper) http.RoundTripper {
	faulty := f.wrap(next)
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.URL.Query().Get("continue") == "" {
			return next.RoundTrip(req)
		}
		return faulty.RoundTrip(req)
	})
}

// shoot creates a Shoot that refers to a binding by the given field.
func (b *bench) shoot(t *testing.T, name, field, binding string, annotations map[string]any) {
	t.Helper()
	b.create(t, shoots, name, map[string]string{"of": b.id}, map[string]any{"spec": b.ShootSpec("aws", field, binding)})
	if annotations != nil {
		b.annotate(t, shoots, name, annotations)
	}
}

// referrers returns a function that maps a binding to the object that a Shoot names to use it: the
// binding itself or, for a Secret, a CredentialsBinding, which referrers creates.
func (b *bench) referrers(t *testing.T, bindings ...string) func(binding string) string {
	t.Helper()
	if b.Resource != gardener.Secrets {
		return func(binding string) string { return binding }
	}
	for _, name := range bindings {
		b.create(t, credentialsBindings, "of-"+name, nil, map[string]any{
			"provider":       map[string]any{"type": "aws"},
			"credentialsRef": map[string]any{"apiVersion": "v1", "kind": "Secret", "name": name, "namespace": b.Namespace},
		})
	}
	return func(binding string) string { return "of-" + binding }
}

// testShoots: Shoots have their binding, their runtime id and their tenant.
func testShoots(t *testing.T, b *bench) {
	const newer, older = "infrastructuremanager.kyma-project.io/runtime-id", "kcp.provisioner.kyma-project.io/runtime-id"
	one, two, idle := b.account(t, 1, nil), b.account(t, 2, nil), b.account(t, 3, nil)
	field := "credentialsBindingName"
	if b.Resource == gardener.SecretBindings {
		field = "secretBindingName"
	}
	refer := b.referrers(t, one, two, idle)
	b.shoot(t, b.id+"-a", field, refer(one), map[string]any{newer: "rt-a", older: "rt-x", "account": "ga-a"})
	b.shoot(t, b.id+"-b", field, refer(one), map[string]any{older: "rt-b"})
	b.shoot(t, b.id+"-c", field, refer(two), nil)
	b.shoot(t, b.id+"-d", "", "", nil)

	wire := &record{}
	c := b.client(t, gardener.Options{}, wire.wrap, smallPages)
	a := engine.Shoot{Name: b.id + "-a", Binding: one, RuntimeID: "rt-a", Tenant: "ga-a"}
	bb := engine.Shoot{Name: b.id + "-b", Binding: one, RuntimeID: "rt-b"}
	cc := engine.Shoot{Name: b.id + "-c", Binding: two, RuntimeID: b.id + "-c"}
	var all []engine.Shoot
	err := c.Shoots(t.Context(), func(s engine.Shoot) error {
		if s.Binding == one || s.Binding == two {
			all = append(all, s)
		}
		if s.Name == b.id+"-d" && s.Binding != "" {
			return fmt.Errorf("%s refers to %s", s.Name, s.Binding)
		}
		return nil
	})
	if err != nil || !slices.Equal(all, []engine.Shoot{a, bb, cc}) {
		t.Errorf("all: %v %+v", err, all)
	}
	for binding, want := range map[string]bool{one: true, two: true, idle: false} {
		wire.forget()
		if got, err := c.Refers(t.Context(), binding); err != nil || got != want {
			t.Errorf("refers to %s: %t %v", binding, got, err)
		}
		// If the bindings are Secrets, Refers reads which binding refers to which Secret, too, and only after the
		// Shoots. In the other order, an account would look unused whose binding and Shoot are created between the
		// two lists.
		if first := wire.first(); !strings.HasSuffix(first, "/shoots") {
			t.Errorf("reads %s first", first)
		}
	}
	kind, name, err := c.Referrer(t.Context(), one)
	if err != nil || name != refer(one) || b.Resource == gardener.Secrets && kind != "CredentialsBinding" {
		t.Errorf("referrer: %s %s %v", kind, name, err)
	}
}

// testShootsUnavailable: an error of the API is never "no Shoot", whichever page fails.
func testShootsUnavailable(t *testing.T, b *bench) {
	for _, name := range []string{"a", "b", "c"} {
		b.shoot(t, b.id+"-"+name, "", "", nil)
	}
	for _, f := range []fault{
		{"internal error", true, status(http.StatusInternalServerError, "")},
		{"forbidden", true, status(http.StatusForbidden, "")},
		{"no such kind", true, status(http.StatusNotFound, "")},
		{"connection lost", true, lost},
		{"answer broken off", true, garbled},
	} {
		for page, injected := range map[string]func(*faults) Wrap{
			"first page":  func(f *faults) Wrap { return f.wrap },
			"later pages": func(f *faults) Wrap { return f.continuations },
		} {
			t.Run(f.name+", "+page, func(t *testing.T) {
				t.Parallel()
				broken := &faults{verb: "list", forever: true}
				c := b.client(t, gardener.Options{Budget: time.Second, Timeout: 500 * time.Millisecond}, injected(broken), smallPages)
				broken.set(f)
				if _, err := c.Refers(t.Context(), b.name(1)); !errors.Is(err, engine.ErrUnavailable) {
					t.Errorf("refers: %v", err)
				}
				if err := c.Shoots(t.Context(), func(engine.Shoot) error { return nil }); !errors.Is(err, engine.ErrUnavailable) {
					t.Errorf("shoots: %v", err)
				}
			})
		}
	}
}
