package stack

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// DefaultNamespace is the garden namespace where the configuration names none.
const DefaultNamespace = "garden-kyma"

// InitialRules are those of Kyma Environment Broker, as the section hap of a
// configuration; further lines of that section may follow.
const InitialRules = `
hap:
  rule:
  - aws
  - aws(PR=cf-eu11) -> EU
  - azure
  - azure(PR=cf-ch20) -> EU
  - gcp
  - gcp(PR=cf-sa30) -> PR
  - trial -> S
  - sap-converged-cloud -> HR, S
  - azure_lite
  - preview
  - free
`

// defaultHAP is the section of a configuration that has none: the initial rules,
// several accounts for every tenant.
const defaultHAP = InitialRules + `
  multiHyperscalerAccount:
    allowedGlobalAccounts: ["*"]
    limits: {default: 3, aws: 180, gcp: 135, openstack: 100, alicloud: 100}
  plans:
    trial: {providers: [aws, azure], default: aws}
    free: {providers: [aws, azure], default: aws}
`

// Target is where bindings are made, and how: the gardener section of a
// configuration, and who serves it.
type Target struct {
	Namespace string // Defaults to DefaultNamespace.
	Resource  string // credentialsbindings, secretbindings or secrets. Defaults to the first.
	Labels    Labels // Defaults to the keys as they are.
	// Gardener is where Gardener's own API server is; nil: the kinds are CRDs.
	Gardener *Aggregated
}

// Labels renames the label keys of bindings, as gardener.labels does: from
// tenantName and the like to what the landscape uses.
type Labels map[string]string

// legacyLabels are the keys of the older scheme of Secrets.
var legacyLabels = Labels{"hyperscalerType": "hyperscaler-type", "tenantName": "tenant-name"}

func (l Labels) key(name string) string {
	if renamed := l[name]; renamed != "" {
		return renamed
	}
	return name
}

// settings is a worker's configuration, as YAML has it.
type settings map[string]any

// readSettings reads a configuration that may lack anything.
func readSettings(data []byte) (settings, error) {
	s := settings{}
	if err := yaml.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if s == nil { // an empty document
		s = settings{}
	}
	if s["hap"] == nil {
		// Both are mappings, so the other sections stay as they are.
		if err := yaml.Unmarshal([]byte(defaultHAP), &s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// section returns a section to be changed; an absent one is made.
func (s settings) section(name string) (map[string]any, error) {
	if s[name] == nil {
		s[name] = map[string]any{}
	}
	section, ok := s[name].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("config: %s is not a section of keys", name)
	}
	return section, nil
}

// target reads the gardener section and completes it with the defaults.
func (s settings) target() (Target, error) {
	t := Target{Namespace: DefaultNamespace, Resource: "credentialsbindings"}
	g, err := s.section("gardener")
	if err != nil {
		return t, err
	}
	for key, field := range map[string]*string{"namespace": &t.Namespace, "resource": &t.Resource} {
		if value, ok := g[key].(string); ok && value != "" {
			*field = value
		}
		g[key] = *field
	}
	if _, err := kindOf(t.Resource); err != nil {
		return t, fmt.Errorf("config: %w", err)
	}
	switch labels := g["labels"].(type) {
	case string:
		if labels == "legacy" {
			t.Labels = legacyLabels
		}
	case map[string]any:
		t.Labels = Labels{}
		for key, value := range labels {
			t.Labels[key] = fmt.Sprint(value)
		}
	}
	return t, nil
}

// ReadTarget reads the gardener section of a configuration file.
func ReadTarget(config []byte) (Target, error) {
	s, err := readSettings(config)
	if err != nil {
		return Target{}, err
	}
	return s.target()
}

// connect sets where the parts are and writes the file that the workers use.
func (s settings) connect(file, nats, redis, kubeconfig string) error {
	for section, set := range map[string]struct{ key, value string }{
		"nats":     {"url", nats},
		"redis":    {"url", redis},
		"gardener": {"kubeconfig", kubeconfig},
	} {
		keys, err := s.section(section)
		if err != nil {
			return err
		}
		keys[set.key] = set.value
	}
	data, err := yaml.Marshal(map[string]any(s))
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}
