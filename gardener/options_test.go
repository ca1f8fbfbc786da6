package gardener

import (
	"strings"
	"testing"
	"time"
)

func TestOptionsDefaults(t *testing.T) {
	t.Parallel()
	o := Options{Namespace: "garden-kyma"}.WithDefaults()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	if o.Resource != CredentialsBindings || o.Budget != 20*time.Second || o.Timeout != 5*time.Second || len(o.ShootRuntimeID) != 2 {
		t.Errorf("%+v", o)
	}
}

func TestOptionsCopied(t *testing.T) {
	t.Parallel()
	given := Options{Namespace: "n", Labels: map[string]string{"dirty": "a"}, ShootRuntimeID: []string{"b"}}
	o := given.WithDefaults()
	o.Labels["dirty"], o.ShootRuntimeID[0] = "x", "y"
	if given.Labels["dirty"] != "a" || given.ShootRuntimeID[0] != "b" {
		t.Errorf("the defaults changed what was given: %+v", given)
	}
}

// TestOptionsFaults: all faults come at once, each with the path of its key.
func TestOptionsFaults(t *testing.T) {
	t.Parallel()
	err := Options{
		Namespace: "Garden", Resource: "pods", ShootRuntimeID: []string{"ok", "a b"}, Budget: time.Second, Timeout: -1,
		Labels: map[string]string{Preset: "old", "tenant": "x", "dirty": "a b", "shared": "internal", "euAccess": LabelCordon},
	}.WithDefaults().Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		`gardener.namespace: "Garden" is no namespace`,
		`gardener.resource: "pods" is unknown`,
		`gardener.labels.preset: "old" is unknown`,
		`gardener.labels.tenant: no such label`,
		`gardener.labels.dirty: "a b" is no label key`,
		`gardener.labels.shared: "internal" is the key of internal already`,
		`gardener.labels.euAccess: "hap-worker/cordon" is the key of the cordon already`,
		`gardener.shoots.runtimeID[1]: "a b" is no key`,
		`gardener.timeout: -1ns is negative`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != 9 {
		t.Errorf("%d lines, want 9:\n%v", got, err)
	}
}

func TestOptionsCrossed(t *testing.T) {
	t.Parallel()
	if err := (Options{}).WithDefaults().Validate(); err == nil || !strings.Contains(err.Error(), "gardener.namespace: is missing") {
		t.Errorf("no namespace: %v", err)
	}
	err := Options{Namespace: "n", Budget: time.Second, Timeout: time.Minute}.WithDefaults().Validate()
	if err == nil || !strings.Contains(err.Error(), "is more than gardener.budget") {
		t.Errorf("timeout above budget: %v", err)
	}
}
