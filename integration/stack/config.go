package stack

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// DefaultNamespace is the namespace of a configuration without gardener.namespace.
const DefaultNamespace = "garden-kyma"

// InitialRules are the rules of Kyma Environment Broker, as the section hap of a configuration. Further lines
// of that section may be appended.
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

// defaultHAP is the section hap of a configuration without one: the initial rules, and several accounts for
// every tenant.
const defaultHAP = InitialRules + `
  multiHyperscalerAccount:
    allowedGlobalAccounts: ["*"]
    limits: {default: 3, aws: 180, gcp: 135, openstack: 100, alicloud: 100}
  plans:
    trial: {providers: [aws, azure], default: aws}
    free: {providers: [aws, azure], default: aws}
`

// Target describes the bindings: the gardener section of a configuration, and how its kinds are served.
type Target struct {
	Namespace string // Defaults to DefaultNamespace.
	Resource  string // credentialsbindings, secretbindings or secrets. Defaults to the first.
	Labels    Labels // Defaults to the default keys.
	// Gardener is the address of gardener-apiserver; nil if the kinds are CRDs.
	Gardener *Aggregated
}

// Labels renames the label keys of bindings, as gardener.labels does: from tenantName and the like to the
// landscape's keys.
type Labels map[string]string

// legacyLabels are the keys of the older scheme of Secrets.
var legacyLabels = Labels{"hyperscalerType": "hyperscaler-type", "tenantName": "tenant-name"}

func (l Labels) key(name string) string {
	if renamed := l[name]; renamed != "" {
		return renamed
	}
	return name
}

// settings is a worker's configuration as YAML.
type settings map[string]any

// readSettings parses a configuration, in which any section may be missing.
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

// section returns a section for changes, and creates it if it is missing.
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

// target reads the gardener section, and sets the defaults in it.
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

// connect sets the addresses of the parts, and writes the file for the workers.
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
