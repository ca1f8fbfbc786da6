package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/daemon"
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
			var out, talk bytes.Buffer
			code := daemon.Main(ctx, []string{"--config", l.stack.Config}, &out, &talk)
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
