package cli

import (
	"os"
	"slices"
	"testing"
)

// TestSettings: a flag wins over the environment, which wins over the file.
func TestSettings(t *testing.T) {
	path := t.TempDir() + "/hap.yaml"
	file := "nats: {url: 'nats://file:4222'}\nredis: {url: 'redis://file:6379'}\ngardener: {kubeconfig: file.yaml, namespace: file, resource: secrets}\n"
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HAP_NATS_URL", "nats://env:4222")
	t.Setenv("HAP_REDIS_URL", "redis://env:6379")
	t.Setenv("HAP_GARDENER_NAMESPACE", "env")
	t.Setenv("HAP_CONFIG", path)
	c := Connections{natsURL: "nats://flag:4222", kubeconfig: "flag.yaml", Namespace: "flag"}
	loaded, err := c.Settings()
	if err != nil {
		t.Fatal(err)
	}
	got := []string{loaded.NATS.URL.String(), loaded.Redis.URL.String(), loaded.Gardener.Kubeconfig, loaded.Gardener.Namespace, loaded.Gardener.Resource}
	want := []string{"nats://flag:4222", "redis://env:6379", "flag.yaml", "flag", "secrets"}
	if !slices.Equal(got, want) {
		t.Fatalf("connects to %v, want %v", got, want)
	}
	c.Config = t.TempDir() + "/none.yaml"
	if _, err := c.Settings(); err == nil {
		t.Error("HAP_CONFIG wins over --config")
	}
}
