package stack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestConfigIsMerged(t *testing.T) {
	t.Parallel()
	s, err := readSettings([]byte(`
hap: {platformRegionRule: "gcp:cf-sa30"}
nats: {url: nats://elsewhere:1, prefix: other.v1}
gardener: {namespace: garden-x, resource: secretbindings, labels: {tenantName: owner}}
`))
	if err != nil {
		t.Fatal(err)
	}
	target, err := s.target()
	if err != nil {
		t.Fatal(err)
	}
	if target.Namespace != "garden-x" || target.Resource != "secretbindings" || target.Labels.key("tenantName") != "owner" || target.Labels.key("dirty") != "dirty" {
		t.Errorf("target %+v", target)
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := s.connect(file, "nats://n", "redis://r", "/kubeconfig"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const want = `gardener:
  kubeconfig: /kubeconfig
  labels:
    tenantName: owner
  namespace: garden-x
  resource: secretbindings
hap:
  platformRegionRule: gcp:cf-sa30
nats:
  prefix: other.v1
  url: nats://n
redis:
  url: redis://r
`
	if string(data) != want {
		t.Errorf("configuration:\n%s\nwant:\n%s", data, want)
	}
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	for _, config := range []string{"", "{}", "worker: {concurrency: 4}"} {
		s, err := readSettings([]byte(config))
		if err != nil {
			t.Fatal(err)
		}
		target, err := s.target()
		if err != nil || target.Namespace != DefaultNamespace || target.Resource != "credentialsbindings" {
			t.Errorf("%q: target %+v, %v", config, target, err)
		}
		data, err := yaml.Marshal(s["hap"])
		if err != nil || !strings.Contains(string(data), "- aws(PR=cf-eu11) -> EU\n") {
			t.Errorf("%q: hap section %s, %v", config, data, err)
		}
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	for config, says := range map[string]string{
		"- a":                          "config:",
		"gardener: text":               "gardener is not a section",
		"gardener: {resource: things}": `"things" is none of`,
	} {
		if _, err := ReadTarget([]byte(config)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q in it", config, err, says)
		}
	}
}

func TestLegacyLabels(t *testing.T) {
	t.Parallel()
	target, err := ReadTarget([]byte("gardener: {labels: legacy, resource: secrets}"))
	if err != nil {
		t.Fatal(err)
	}
	account := Account{Name: "a", HyperscalerType: "aws", Labels: map[string]string{"tenantName": "t", "euAccess": "true"}}
	got := account.object("Secret", target).GetLabels()
	want := map[string]string{"hyperscaler-type": "aws", "tenant-name": "t", "euAccess": "true"}
	if len(got) != len(want) {
		t.Errorf("labels %v, want %v", got, want)
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("label %s = %q, want %q", key, got[key], value)
		}
	}
}
