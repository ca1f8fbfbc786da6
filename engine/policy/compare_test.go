package policy_test

import (
	"reflect"
	"testing"

	"github.com/hap-worker/hap-worker/engine/policy"
)

func parsed(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCompare compares by the meaning of rules: neither their order nor their spelling counts.
func TestCompare(t *testing.T) {
	t.Parallel()
	before := parsed(t, `apiVersion: 0.1.0
rules:
  cap.interface.same: {oneOf: [{}, {implementationConstraints: {path: cap.implementation.x}}]}
  cap.interface.gone: {oneOf: []}
  cap.interface.order: {oneOf: [{implementationConstraints: {path: cap.implementation.x}}, {}]}
  cap.*: {oneOf: [{injectTypeInstances: [{id: one, typeRef: {path: cap.type.a}}]}]}
`)
	after := parsed(t, `apiVersion: "0.1"
rules:
  cap.*: {oneOf: [{injectTypeInstances: [{id: two, typeRef: {path: cap.type.a}}]}]}
  cap.interface.order: {oneOf: [{}, {implementationConstraints: {path: cap.implementation.x}}]}
  cap.interface.new: {oneOf: []}
  cap.interface.same:
    oneOf:
      - implementationConstraints: {attributes: []}
        injectTypeInstances: []
      - implementationConstraints:
          path: cap.implementation.x
`)
	want := policy.Difference{
		Added: []string{"cap.interface.new"}, Removed: []string{"cap.interface.gone"}, Changed: []string{"cap.*", "cap.interface.order"},
	}
	if got := policy.Compare(before, after); !reflect.DeepEqual(got, want) || got.None() {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := policy.Compare(before, before); !got.None() {
		t.Errorf("with itself: %+v", got)
	}
	if got := policy.Compare(nil, after); len(got.Added) != 4 || len(got.Removed)+len(got.Changed) != 0 {
		t.Errorf("with none: %+v", got)
	}
}

// TestCompareChoices expects exactly the interfaces that get another choice.
func TestCompareChoices(t *testing.T) {
	t.Parallel()
	catalog, err := policy.LoadFile("", []byte(`
interfaces: [{path: cap.interface.a, revision: 0.1.0}, {path: cap.interface.b, revision: 0.1.0}, {path: cap.interface.c, revision: 0.1.0}]
implementations:
  - {path: cap.implementation.one, revision: 0.1.0, implements: [{path: cap.interface.a, revision: 0.1.0}, {path: cap.interface.b, revision: 0.1.0}]}
  - {path: cap.implementation.two, revision: 0.1.0, implements: [{path: cap.interface.a, revision: 0.1.0}]}
  - path: cap.implementation.three
    revision: 0.1.0
    implements: [{path: cap.interface.c, revision: 0.1.0}]
    requires: [{prefix: cap.type.a, anyOf: [{path: cap.type.a, revision: 0.1.0, alias: key}, {path: cap.core.type.platform.kubernetes, revision: 0.1.0}]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	before := parsed(t, `{apiVersion: 0.1.0, rules: {cap.*: {oneOf: [{injectTypeInstances: [{id: i-1, typeRef: {path: cap.type.a}}]}]}}}`)
	after := parsed(t, `{apiVersion: 0.1.0, rules: {cap.*: {oneOf: [{injectTypeInstances: [{id: i-2, typeRef: {path: cap.type.a}}]}]},
  cap.interface.a: {oneOf: [{implementationConstraints: {path: cap.implementation.two}}]}}}`)
	got := policy.CompareChoices(catalog, policy.NewSnapshot(before, catalog, nil), policy.NewSnapshot(after, catalog, nil))
	want := []policy.Changed{
		{
			Interface: "cap.interface.a:0.1.0",
			Before:    policy.Choice{Picked: "cap.implementation.one:0.1.0"}, After: policy.Choice{Picked: "cap.implementation.two:0.1.0"},
		},
		{
			Interface: "cap.interface.c:0.1.0",
			Before:    policy.Choice{Picked: "cap.implementation.three:0.1.0", Inject: []policy.Injected{{Name: "key", ID: "i-1"}}},
			After:     policy.Choice{Picked: "cap.implementation.three:0.1.0", Inject: []policy.Injected{{Name: "key", ID: "i-2"}}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	none := policy.CompareChoices(catalog, policy.NewSnapshot(nil, catalog, nil), policy.NewSnapshot(before, catalog, nil))
	if len(none) != 3 || none[0].Before.Picked != "" || none[0].Before.Reason == "" {
		t.Errorf("without a policy before: %+v", none)
	}
}
