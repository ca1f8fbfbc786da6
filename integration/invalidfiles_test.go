package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// TestInvalidFilesStopTheStart: what the configuration refers to is held to the same
// as itself, all faults and exit code 3.
func TestInvalidFilesStopTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	binary, err := stack.Build(t.Context(), "hap-worker", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	catalog := write("catalog.yaml", "implementations: []\ninterfaces: []\n")
	for name, c := range map[string]struct {
		section string
		says    []string
	}{
		"network": {
			fmt.Sprintf("network: {file: %q}", write("ipam.yaml", "parentCIDRs: {a: [10.0.0.0/33]}\ninjectionRules: [{id: X}]\n")),
			[]string{"parentCIDRs", "injectionRules"},
		},
		"policy": {
			fmt.Sprintf("policy: {catalog: %q, file: %q}", catalog, write("policy.yaml", "apiVersion: 9.9.9\nrules: {nonsense: {}}\n")),
			[]string{"apiVersion", "nonsense", "policy.yaml"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLandscape(t, oneAccountRules+c.section+"\n", accounts("aws", 1))
			ctx, cancel := context.WithTimeout(l.ctx, time.Minute)
			defer cancel()
			t.Logf("configuration %s", l.stack.Config)
			// A separate process, since it takes over what the libraries of its process log.
			var talk bytes.Buffer
			cmd := exec.CommandContext(ctx, binary, "--config", l.stack.Config)
			cmd.Env, cmd.Stderr = append(os.Environ(), "HAP_TELEMETRY_LISTEN=127.0.0.1:0"), &talk
			if err := cmd.Run(); err == nil {
				t.Fatal("it ends as if all were well")
			}
			code := cmd.ProcessState.ExitCode()
			if code != daemon.ExitInvalidConfig || ctx.Err() != nil {
				t.Fatalf("it ends with %d, want %d:\n%s", code, daemon.ExitInvalidConfig, &talk)
			}
			for _, word := range c.says {
				if !strings.Contains(talk.String(), word) {
					t.Errorf("it does not speak of %s:\n%s", word, &talk)
				}
			}
		})
	}
}
