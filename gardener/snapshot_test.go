package gardener

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
)

// read returns the contents of a snapshot of files, a line for each binding and Shoot.
func read(t *testing.T, opts Options, files ...string) []string {
	t.Helper()
	var lines []string
	opts.Warn = func(text string) { lines = append(lines, "warning: "+text) }
	s, err := NewSnapshot(opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := s.Read(strings.NewReader(file)); err != nil {
			t.Fatal(err)
		}
	}
	referred, err := s.Referred(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = s.List(t.Context(), func(b engine.Binding) error {
		lines = append(lines, fmt.Sprintf("%s %s/%s of %s, tenant %q, referred %t", b.Kind, b.Namespace, b.Name, b.Pool().Name(), b.Tenant, referred(b.Name)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Shoots(t.Context(), func(shoot engine.Shoot) error {
		lines = append(lines, fmt.Sprintf("Shoot %s on %q, runtime %s, tenant %q", shoot.Name, shoot.Binding, shoot.RuntimeID, shoot.Tenant))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return append(lines, fmt.Sprintf("%d skipped", s.Skipped()))
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	const list = `
apiVersion: v1
kind: List
items:
- {kind: CredentialsBinding, metadata: {name: a, namespace: g, labels: {hyperscalerType: aws, tenantName: ga-1, dirty: "false"}}}
- {kind: CredentialsBinding, metadata: {name: b, namespace: g}}
- {kind: SecretBinding, metadata: {name: c, namespace: g, labels: {hyperscalerType: aws}}}
- {kind: CredentialsBinding, metadata: {name: d, namespace: elsewhere, labels: {hyperscalerType: aws}}}
---
---
{"kind": "CredentialsBinding", "metadata": {"name": "e", "namespace": "g", "labels": {"hyperscalerType": "gcp", "euAccess": "true", "shared": "true"}}}
`
	const shoots = `{"kind": "ShootList", "items": [
		{"kind": "Shoot", "metadata": {"name": "s1", "labels": {"account": "ga-1"}}, "spec": {"credentialsBindingName": "a", "provider": {"type": "aws"}}},
		{"kind": "Shoot", "metadata": {"name": "s2", "annotations": {"infrastructuremanager.kyma-project.io/runtime-id": "rt-2"}}, "spec": {"secretBindingName": "a"}},
		{"kind": "Shoot", "metadata": {"name": "s3"}}]}`
	want := []string{
		`warning: CredentialsBinding g/a: dirty="false" counts as absent; write "true" or remove it`,
		`CredentialsBinding g/a of aws, tenant "ga-1", referred true`,
		`CredentialsBinding g/e of gcp+eu+shared, tenant "", referred true`,
		`Shoot s1 on "a", runtime s1, tenant "ga-1"`,
		`Shoot s2 on "a", runtime rt-2, tenant ""`,
		`Shoot s3 on "", runtime s3, tenant ""`,
		"3 skipped",
	}
	if got := read(t, Options{Namespace: "g"}, list, shoots); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSnapshotOfSecrets: Shoots use Secrets, the older scheme, through the bindings that refer to
// them; the contents of Secrets are ignored.
func TestSnapshotOfSecrets(t *testing.T) {
	t.Parallel()
	const all = `
kind: List
items:
- {kind: Secret, metadata: {name: one, namespace: g, labels: {hyperscaler-type: aws, tenant-name: ga-1}}, data: {key: c2VjcmV0}}
- {kind: Secret, metadata: {name: two, namespace: g, labels: {hyperscaler-type: aws}}}
- {kind: Secret, metadata: {name: other, namespace: g, labels: {hyperscalerType: aws}}}
- {kind: SecretBinding, metadata: {name: b-one, namespace: g}, secretRef: {name: one, namespace: g}}
- {kind: CredentialsBinding, metadata: {name: b-two, namespace: g}, credentialsRef: {kind: Secret, name: two, namespace: elsewhere}}
- {kind: Shoot, metadata: {name: s1, namespace: g}, spec: {secretBindingName: b-one}}
- {kind: Shoot, metadata: {name: s2, namespace: g}, spec: {credentialsBindingName: b-one}}
`
	want := []string{
		`Secret g/one of aws, tenant "ga-1", referred true`,
		`Secret g/two of aws, tenant "", referred false`,
		`Shoot s1 on "one", runtime s1, tenant ""`,
		`Shoot s2 on "", runtime s2, tenant ""`,
		"1 skipped",
	}
	opts := Options{Resource: Secrets, Labels: map[string]string{Preset: "legacy"}}
	if got := read(t, opts, all); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSnapshotFaults(t *testing.T) {
	t.Parallel()
	for file, says := range map[string]string{
		"a: b":                 "document 1: is no Kubernetes object: it has no kind",
		"kind: List\nitems: 3": "document 1: is no Kubernetes object",
		"kind: Shoot\n---\nkind: List\nitems: [{kind: Shoot}, {name: x}]": "document 2: item 2: is no Kubernetes object",
		"kind: Shoot\nspec: {credentialsBindingName: []}":                 "the spec of Shoot",
		"a: [": "document 1: ",
	} {
		s, err := NewSnapshot(Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Read(strings.NewReader(file)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", file, err, says)
		}
	}
}

func TestSnapshotWithOneSecret(t *testing.T) {
	t.Parallel()
	s, err := NewSnapshot(Options{Resource: SecretBindings})
	if err != nil {
		t.Fatal(err)
	}
	const list = `
kind: List
items:
- {kind: SecretBinding, metadata: {name: a, namespace: g, creationTimestamp: "2026-02-01T00:00:00Z", labels: {hyperscalerType: aws}}, secretRef: {name: one, namespace: g}}
- {kind: SecretBinding, metadata: {name: b, namespace: g, creationTimestamp: "2026-01-01T00:00:00Z", labels: {hyperscalerType: gcp}}, secretRef: {name: one}}
- {kind: SecretBinding, metadata: {name: c, namespace: g, labels: {hyperscalerType: aws}}, secretRef: {name: two, namespace: g}}
- {kind: SecretBinding, metadata: {name: d, namespace: h, labels: {hyperscalerType: aws}}, secretRef: {name: one}}
- {kind: SecretBinding, metadata: {name: e, namespace: g, labels: {hyperscalerType: aws}}}
- {kind: SecretBinding, metadata: {name: f, namespace: g, labels: {hyperscalerType: aws}}}
`
	if err := s.Read(strings.NewReader(list)); err != nil {
		t.Fatal(err)
	}
	same := map[string]string{}
	if err := s.List(t.Context(), func(b engine.Binding) error { same[b.Name] = b.SameSecretAs; return nil }); err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"a": "b", "b": "", "c": "", "d": "", "e": "", "f": ""}; !reflect.DeepEqual(same, want) {
		t.Errorf("%v, want %v", same, want)
	}
}
