package gardenertest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener"
)

// patience is how long a test waits for what must come; reaching it is a failure.
const patience = 30 * time.Second

// Server is a Kubernetes API that has the kinds of Gardener.
type Server struct {
	Config    *rest.Config
	Namespace string // exists
	Resource  gardener.Resource
	// ShootSpec returns a spec that the server accepts for a Shoot on a provider type: with a field
	// that names a binding, or with neither such a field nor workers.
	ShootSpec func(provider, field, binding string) map[string]any
}

// Run runs the suite. Each test calls newServer, which may return the same server each time: tests use
// separate accounts.
func Run(t *testing.T, newServer func(t *testing.T) Server) {
	t.Helper()
	tests := []struct {
		name string
		run  func(*testing.T, *bench)
	}{
		{"Claim", testClaim},
		{"ClaimStale", testClaimStale},
		{"ClaimRace", testClaimRace},
		{"ClaimRepeated", testClaimRepeated},
		{"MovedUnderItsClaim", testMovedUnderItsClaim},
		{"MarkDirty", testMarkDirty},
		{"Unclaim", testUnclaim},
		{"Free", testFree},
		{"Cordon", testCordon},
		{"Missing", testMissing},
		{"LegacyLabels", testLegacyLabels},
		{"Rename", testRename},
		{"OnlyTrueIsTrue", testOnlyTrueIsTrue},
		{"CacheFollows", testCacheFollows},
		{"CacheSurvivesOutage", testCacheSurvivesOutage},
		{"NoListOnTheWay", testNoListOnTheWay},
		{"MetadataOnly", testMetadataOnly},
		{"SameSecret", testSameSecret},
		{"ListPaged", testListPaged},
		{"ListForgotten", testListForgotten},
		{"WriteFaults", testWriteFaults},
		{"RetryAfter", testRetryAfter},
		{"CallerGone", testCallerGone},
		{"ReadFaults", testReadFaults},
		{"Shoots", testShoots},
		{"ShootsUnavailable", testShootsUnavailable},
		{"Referrer", testReferrer},
		{"ReferrerUnavailable", testReferrerUnavailable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, newBench(t, newServer(t)))
		})
	}
	t.Run("Landscape", func(t *testing.T) {
		t.Parallel()
		testLandscape(t, newServer)
	})
}

// bench has what one test works with: a separate pool on the server.
type bench struct {
	Server
	id    string // is in the name of each object
	admin dynamic.Interface
}

func newBench(t *testing.T, s Server) *bench {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.QPS = -1
	admin, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{Server: s, id: "t" + uuid.NewString()[:8], admin: admin}
}

func (b *bench) name(n int) string { return fmt.Sprintf("%s-%d", b.id, n) }

func (b *bench) pool() engine.Pool { return engine.Pool{HyperscalerType: b.id} }

// client returns a client that has synced. The wraps are between it and the server, the last one
// nearest to the client.
func (b *bench) client(t *testing.T, opts gardener.Options, wraps ...Wrap) *gardener.Client {
	t.Helper()
	c, _ := b.watching(t, opts, wraps...)
	return c
}

// watching returns a client that has synced, and the changes that it reports.
func (b *bench) watching(t *testing.T, opts gardener.Options, wraps ...Wrap) (*gardener.Client, *changes) {
	t.Helper()
	config := rest.CopyConfig(b.Config)
	for _, w := range wraps {
		config.Wrap(w)
	}
	opts.Namespace, opts.Resource = b.Namespace, b.Resource
	c, err := gardener.New(config, opts)
	if err != nil {
		t.Fatal(err)
	}
	told := &changes{signal: make(chan struct{}, 1)}
	c.OnChange(told.changed)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	return c, told
}

// resources of the server.
var (
	credentialsBindings = schema.GroupVersionResource{Group: "security.gardener.cloud", Version: "v1alpha1", Resource: "credentialsbindings"}
	secretBindings      = schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "secretbindings"}
	secrets             = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	shoots              = schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "shoots"}
)

// secretContent is in every Secret of the suite and must never be in an answer to a client under test.
const secretContent = "c2VjcmV0LWNvbnRlbnQ="

func (b *bench) resource() schema.GroupVersionResource {
	switch b.Resource {
	case gardener.SecretBindings:
		return secretBindings
	case gardener.Secrets:
		return secrets
	default:
		return credentialsBindings
	}
}

// account creates an account of the kind under test in the bench's pool, with further labels.
func (b *bench) account(t *testing.T, n int, labels map[string]string) string {
	t.Helper()
	all := map[string]string{"hyperscalerType": b.id}
	maps.Copy(all, labels)
	name := b.name(n)
	if b.Resource != gardener.Secrets {
		b.create(t, secrets, name, nil, map[string]any{"data": map[string]any{"key": secretContent}})
	}
	b.binding(t, name, name, all)
	return name
}

// binding creates a binding of the kind under test, which refers to a Secret or is one.
func (b *bench) binding(t *testing.T, name, secret string, labels map[string]string) {
	t.Helper()
	switch b.Resource {
	case gardener.SecretBindings:
		b.create(t, secretBindings, name, labels, map[string]any{
			"provider":  map[string]any{"type": "aws"},
			"secretRef": map[string]any{"name": secret, "namespace": b.Namespace},
		})
	case gardener.Secrets:
		b.create(t, secrets, name, labels, map[string]any{"data": map[string]any{"key": secretContent}})
	default:
		b.create(t, credentialsBindings, name, labels, map[string]any{
			"provider":       map[string]any{"type": "aws"},
			"credentialsRef": map[string]any{"apiVersion": "v1", "kind": "Secret", "name": secret, "namespace": b.Namespace},
		})
	}
}

func (b *bench) create(t *testing.T, r schema.GroupVersionResource, name string, labels map[string]string, content map[string]any) {
	t.Helper()
	kind := map[string]string{
		"credentialsbindings": "CredentialsBinding", "secretbindings": "SecretBinding", "secrets": "Secret", "shoots": "Shoot",
	}[r.Resource]
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(r.GroupVersion().WithKind(kind))
	o.SetName(name)
	o.SetLabels(labels)
	annotations := map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "not ours to keep"}
	if r == shoots {
		annotations["confirmation.gardener.cloud/deletion"] = "true" // Gardener deletes no Shoot without it
	}
	o.SetAnnotations(annotations)
	b.createSoon(t, r, o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := b.admin.Resource(r).Namespace(b.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// createSoon creates an object once the server knows the objects that it refers to: Gardener checks a
// Shoot against its own caches, which may not have the binding yet.
func (b *bench) createSoon(t *testing.T, r schema.GroupVersionResource, o *unstructured.Unstructured) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		_, err := b.admin.Resource(r).Namespace(b.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
		if err == nil {
			return
		}
		if !apierrors.IsInternalError(err) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// label changes labels of an account by a patch that the clients under test do not send; nil removes one.
func (b *bench) label(t *testing.T, name string, labels map[string]any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.admin.Resource(b.resource()).Namespace(b.Namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) annotate(t *testing.T, r schema.GroupVersionResource, name string, annotations map[string]any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = b.admin.Resource(r).Namespace(b.Namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// hold adds a finalizer, so that a deleted object exists until the test ends.
func (b *bench) hold(t *testing.T, r schema.GroupVersionResource, name string) {
	t.Helper()
	finalizers := func(ctx context.Context, held string) error {
		patch := []byte(`{"metadata":{"finalizers":` + held + `}}`)
		_, err := b.admin.Resource(r).Namespace(b.Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	if err := finalizers(t.Context(), `["test.hap-worker/held"]`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = finalizers(context.Background(), "null") })
}

func (b *bench) remove(t *testing.T, r schema.GroupVersionResource, name string) {
	t.Helper()
	if err := b.admin.Resource(r).Namespace(b.Namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// object reads the whole object from the server.
func (b *bench) object(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	o, err := b.admin.Resource(b.resource()).Namespace(b.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// changes collects the calls of OnChange, and lets a test wait for one.
type changes struct {
	mu     sync.Mutex
	told   map[string][]change // by binding
	signal chan struct{}
}

type change struct {
	uid     string
	deleted bool
}

func (c *changes) changed(b engine.Binding, deleted bool) {
	c.mu.Lock()
	if c.told == nil {
		c.told = map[string][]change{}
	}
	c.told[b.Name] = append(c.told[b.Name], change{b.UID, deleted})
	c.mu.Unlock()
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// of returns the changes of a binding, in order.
func (c *changes) of(name string) []change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.told[name])
}

// wasDeleted reports whether the last change of the binding was its deletion.
func (c *changes) wasDeleted(name string) bool {
	told := c.of(name)
	return len(told) > 0 && told[len(told)-1].deleted
}

// until calls holds now and after each change, until it returns true.
func (c *changes) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !holds() {
		select {
		case <-c.signal:
		case <-ctx.Done():
			t.Fatalf("it did not come about that %s", what)
		}
	}
}

func get(t *testing.T, c *gardener.Client, name string) engine.Binding {
	t.Helper()
	b, err := c.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
