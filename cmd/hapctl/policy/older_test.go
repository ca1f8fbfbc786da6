package policy

import (
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/policy"
)

const olderPolicy = `
rules:
  # The database first.
  cap.interface.database.postgresql.install:0.1.0:
    oneOf:
      - implementationConstraints:
          attributes: [{path: cap.attribute.cloud.provider.gcp, revision: 0.1.0}]
        injectTypeInstances: [{id: 9038dcdc, typeRef: {path: cap.type.gcp.auth.service-account, revision: 0.1.0}}]
  cap.*:
    oneOf: [{implementationConstraints: {}}]
`

const asList = `
- interface: {path: cap.interface.database.postgresql.install, revision: 0.1.0}
  oneOf:
    - implementationConstraints:
        attributes: [{path: cap.attribute.cloud.provider.gcp, revision: 0.1.0}]
      injectTypeInstances: [{id: 9038dcdc, typeRef: {path: cap.type.gcp.auth.service-account, revision: 0.1.0}}]
- interface: {path: cap.*}
  oneOf: [{implementationConstraints: {}}]
`

// TestConvertPolicy: each of the older forms becomes the same policy.
func TestConvertPolicy(t *testing.T) {
	t.Parallel()
	want, err := policy.Parse([]byte(`apiVersion: "0.1.0"` + olderPolicy))
	if err != nil {
		t.Fatal(err)
	}
	bare := strings.Replace(olderPolicy, "rules:\n", "", 1)
	indented := strings.ReplaceAll(asList, "\n", "\n    ")
	for name, text := range map[string]string{
		"a policy":              `apiVersion: 0.1.0` + olderPolicy,
		"the rules of a policy": olderPolicy,
		"a map":                 bare,
		"a list":                asList,
		"values, a list":        "image: {tag: v1}\nengine:\n  clusterPolicyRules:" + indented,
		"values, a map":         "engine:\n  clusterPolicyRules:" + strings.ReplaceAll(bare, "\n", "\n  "),
		"the value":             "clusterPolicyRules:" + indented,
	} {
		got, err := convertPolicy([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p, err := policy.Parse([]byte(got.Document))
		if err != nil || !policy.Compare(want, p).None() || got.Rules != 2 {
			t.Errorf("%s: %v\n%s", name, err, got.Document)
		}
	}
}

// TestConvertPolicyRefuses: the error names what cannot be converted.
func TestConvertPolicyRefuses(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":            "engine.clusterPolicyRules",
		"- oneOf: []": "the rule has no interface",
		"- 1":         "the rule has no interface",
		"- {interface: {path: a.b}, oneOf: []}\n- {interface: {path: a.b}, oneOf: []}": "a.b has a rule already",
		"- {interface: {path: a.b}, oneof: []}":                                        "oneof",
		"- {interface: {path: a.b, revison: 0.1.0}, oneOf: []}":                        "interface.revison is no field here",
		"rules: 1":             "rules",
		"a: {b: 1}\n---\nc: d": "second YAML document",
	} {
		if got, err := convertPolicy([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q\n%s", text, err, says, got.Document)
		}
	}
}

// FuzzConvertPolicy: a converted policy is valid, and converts to itself.
func FuzzConvertPolicy(f *testing.F) {
	for _, seed := range []string{olderPolicy, asList, "engine: {clusterPolicyRules: []}", "{}", "- &a {interface: {path: b}, oneOf: []}\n- *a"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		once, err := convertPolicy(content)
		if err != nil {
			return
		}
		again, err := convertPolicy([]byte(once.Document))
		if err != nil || again.Rules != once.Rules {
			t.Fatalf("%v\n%s", err, once.Document)
		}
	})
}
