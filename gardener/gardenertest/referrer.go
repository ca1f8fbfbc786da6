package gardenertest

import (
	"errors"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener"
)

// secretBinding and credentialsBinding create bindings that refer to a Secret.
func (b *bench) secretBinding(t *testing.T, name, secret string) {
	t.Helper()
	b.create(t, secretBindings, name, nil, map[string]any{
		"provider": map[string]any{"type": "aws"}, "secretRef": map[string]any{"name": secret, "namespace": b.Namespace},
	})
}

func (b *bench) credentialsBinding(t *testing.T, name string, ref map[string]any) {
	t.Helper()
	b.create(t, credentialsBindings, name, nil, map[string]any{"provider": map[string]any{"type": "aws"}, "credentialsRef": ref})
}

// testReferrer: a Shoot has to name the binding itself, and for a Secret the binding that refers to
// it, which comes from a cache.
func testReferrer(t *testing.T, b *bench) {
	one, two, lone := b.account(t, 1, nil), b.account(t, 2, nil), b.account(t, 3, nil)
	if b.Resource != gardener.Secrets {
		wire := &record{}
		c := b.client(t, gardener.Options{}, wire.wrap)
		wire.forget()
		kind, name, err := c.Referrer(t.Context(), one)
		if want := get(t, c, one).Kind; err != nil || kind != want || name != one || wire.count("list") != 0 {
			t.Errorf("%s %s %v after %d lists, want %s %s", kind, name, err, wire.count("list"), want, one)
		}
		return
	}
	secret := func(name string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Secret", "name": name, "namespace": b.Namespace}
	}
	b.secretBinding(t, "a-"+one, one)
	b.credentialsBinding(t, "m-"+one, secret(one))
	b.secretBinding(t, "z-"+two, two)
	b.secretBinding(t, "c-"+two, two)
	// Neither of these refers to the Secret of the namespace.
	b.credentialsBinding(t, "w-"+lone, map[string]any{"apiVersion": "security.gardener.cloud/v1alpha1", "kind": "WorkloadIdentity", "name": lone, "namespace": b.Namespace})
	b.credentialsBinding(t, "o-"+lone, map[string]any{"apiVersion": "v1", "kind": "Secret", "name": lone, "namespace": "elsewhere"})

	wire := &record{}
	c := b.client(t, gardener.Options{}, wire.wrap)
	wire.forget()
	b.wantReferrer(t, c, one, "CredentialsBinding", "m-"+one)
	b.wantReferrer(t, c, two, "SecretBinding", "c-"+two)
	if n := wire.count("list"); n != 0 {
		t.Errorf("%d lists for what the cache has", n)
	}
	if _, _, err := c.Referrer(t.Context(), lone); engine.CodeOf(err) != engine.CodeUnknownBinding {
		t.Errorf("of a Secret that nothing refers to: %v", err)
	}
	// Referrer asks the server before it reports that there is none, so it finds a new one at once.
	b.secretBinding(t, "b-"+lone, lone)
	b.wantReferrer(t, c, lone, "SecretBinding", "b-"+lone)
	// One that is deleted, but still there because of a finalizer, is no referrer: Gardener refuses a Shoot that names it.
	b.hold(t, secretBindings, "b-"+lone)
	b.remove(t, secretBindings, "b-"+lone)
	b.until(t, "the binding that is being deleted is no referrer", func() bool {
		_, _, err := c.Referrer(t.Context(), lone)
		return engine.CodeOf(err) == engine.CodeUnknownBinding
	})

	b.remove(t, credentialsBindings, "m-"+one)
	b.until(t, "the SecretBinding is the referrer after the end of the CredentialsBinding", func() bool {
		kind, name, err := c.Referrer(t.Context(), one)
		return err == nil && kind == "SecretBinding" && name == "a-"+one
	})
}

// until waits until the condition holds.
func (b *bench) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("not after " + patience.String() + ": " + what)
		}
	}
}

func (b *bench) wantReferrer(t *testing.T, c *gardener.Client, binding, kind, name string) {
	t.Helper()
	gotKind, gotName, err := c.Referrer(t.Context(), binding)
	if err != nil || gotKind != kind || gotName != name {
		t.Errorf("of %s: %s %s %v, want %s %s", binding, gotKind, gotName, err, kind, name)
	}
}

// testReferrerUnavailable: an API error is never "nothing refers to it".
func testReferrerUnavailable(t *testing.T, b *bench) {
	if b.Resource != gardener.Secrets {
		return
	}
	lone := b.account(t, 1, nil)
	broken := &faults{verb: "list", forever: true}
	c := b.client(t, gardener.Options{Budget: time.Second, Timeout: 500 * time.Millisecond}, broken.wrap)
	broken.set(fault{"connection lost", true, lost})
	if _, _, err := c.Referrer(t.Context(), lone); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("while nothing can be listed: %v", err)
	}
}
