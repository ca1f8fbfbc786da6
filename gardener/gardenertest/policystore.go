package gardenertest

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hap-worker/hap-worker/gardener/policyconfig"
)

// PolicyStore tests that Write replaces only the version that was read, and keeps the previous version
// as long as both fit.
func PolicyStore(t *testing.T, s Server) {
	t.Helper()
	b := newBench(t, s)
	maps := b.admin.Resource(configMaps).Namespace(b.Namespace)
	name := b.name(1)
	p, err := policyconfig.NewStore(b.Config, b.Namespace, name, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(t.Context()); !errors.Is(err, policyconfig.ErrNoConfigMap) {
		t.Fatalf("without a ConfigMap: %v", err)
	}
	createConfigMap(t, maps, name, map[string]any{"cluster-policy.yaml": "older", "else": "x"})
	first, err := p.Read(t.Context())
	if err != nil || !first.Found || first.Text != "older" || first.Key != policyconfig.OlderKey || first.Kept {
		t.Fatalf("%+v, %v", first, err)
	}

	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	second, err := p.Write(t.Context(), first, "two", now)
	if err != nil || second.Text != "two" || second.Key != policyconfig.Key || second.Previous != "older" || !second.Since.Equal(now) {
		t.Fatalf("%+v, %v", second, err)
	}
	// A writer with an older version gets an error, and has changed nothing.
	if _, err := p.Write(t.Context(), first, "late", now); !errors.Is(err, policyconfig.ErrChanged) {
		t.Errorf("over a version that is gone: %v", err)
	}
	read, err := p.Read(t.Context())
	if err != nil || read.Text != "two" || read.ResourceVersion != second.ResourceVersion {
		t.Errorf("after a conflict: %+v, %v", read, err)
	}
	back, err := p.Write(t.Context(), read, read.Previous, now)
	if err != nil || back.Text != "older" || back.Previous != "two" {
		t.Errorf("back: %+v, %v", back, err)
	}

	// After an edit by another program, the recorded time belongs to another text.
	patchConfigMap(t, maps, name, `{"data":{"policy.yaml":"edited"}}`)
	edited, err := p.Read(t.Context())
	if err != nil || edited.Text != "edited" || edited.Since.Equal(now) {
		t.Errorf("after an edit: %+v, %v", edited, err)
	}

	large := strings.Repeat("x", 600<<10)
	for range 2 {
		if edited, err = p.Write(t.Context(), edited, large, now); err != nil {
			t.Fatal(err)
		}
	}
	if edited.Kept || edited.Text != large || edited.Keeps(large) {
		t.Errorf("two versions that do not fit are both kept: %v, %d bytes before", edited.Kept, len(edited.Previous))
	}
	o, err := maps.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, ok := o.Object["data"].(map[string]any)
	if !ok || data["else"] != "x" || data["cluster-policy.yaml"] != "older" {
		t.Errorf("other keys are changed: %v", data["else"])
	}
}
