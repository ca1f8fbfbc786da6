package app

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
)

// unreachable are commands, one for each that asks a server. FILE is an empty file.
var unreachable = []string{
	"provision --runtime rt-1 --global-account ga-1 --plan aws", "deprovision --runtime rt-1", "release --binding aws-1",
	"resolve --runtime rt-1 --interface cap.interface.a", "pools", "pools save FILE", "bindings", "runtimes", "explain rt-1",
	"waiting", "counters verify", "counters rebuild --yes", "simulate -f FILE", "dead list", "dead show 1", "dead replay 1 --yes",
	"foreign list", "foreign show HAP_REPLIES 1", "foreign remove HAP_REPLIES 1 --yes", "cordon aws-1", "uncordon aws-1",
	"pause aws", "resume aws", "migrate compare", "landscape show", "landscape adopt --yes",
}

// TestUnreachable: a command whose servers cannot be reached says so, with the address or with what to set, prints
// nothing else, and ends with exit code 1 rather than with that of a time-out. All run at once, as each waits.
func TestUnreachable(t *testing.T) {
	dir := t.TempDir()
	kubeconfig, file := filepath.Join(dir, "kubeconfig.yaml"), filepath.Join(dir, "empty")
	for name, content := range map[string]string{file: "", kubeconfig: `apiVersion: v1
kind: Config
clusters: [{name: x, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: x, user: {token: x}}]
contexts: [{name: x, context: {cluster: x, user: x, namespace: garden-kyma}}]
current-context: x
`} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HAP_NATS_URL", "nats://127.0.0.1:1")
	t.Setenv("HAP_REDIS_URL", "redis://127.0.0.1:1")
	t.Setenv("KUBECONFIG", kubeconfig)
	said := regexp.MustCompile(`is not reachable|127\.0\.0\.1:1(/| was not asked)`)
	var all sync.WaitGroup
	for _, command := range unreachable {
		all.Go(func() {
			var stdout, stderr bytes.Buffer
			args := strings.Fields(strings.ReplaceAll(command, "FILE", file) + " --timeout 100ms")
			if code := Run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != cli.ExitFailure || stdout.Len() > 0 || !said.Match(stderr.Bytes()) {
				t.Errorf("hapctl %s: exit code %d, standard output %q, standard error %q", command, code, &stdout, &stderr)
			}
		})
	}
	all.Wait()
}
