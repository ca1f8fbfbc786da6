package integration_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestStackVariablesArePasted starts devstack as make stack does, pastes the line that
// it prints into a shell, and looks at the demo accounts with hapctl as a new user does.
func TestStackVariablesArePasted(t *testing.T) {
	t.Parallel()
	requireRedis(t)
	bin := buildHapctl(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, devstack(t), "--until-eof")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(stderr)
	export := ""
	for export == "" {
		line, err := said.ReadString('\n')
		if err != nil {
			t.Fatalf("devstack prints no variables: %v, %v", err, cmd.Wait())
		}
		if strings.HasPrefix(strings.TrimSpace(line), "export ") {
			export = strings.TrimSpace(line)
		}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, said)
	}()
	for _, c := range []struct {
		command string
		code    int
		says    []string
	}{
		{"hapctl pools -o wide", 0, []string{"aws - - 10 2 0 1 1 2 ", "gcp_cf-sa30 - - 6 0 "}},
		{"hapctl counters verify", 0, []string{"DRIFTS 0"}},
		{"hapctl pools -n default", 3, []string{"two landscapes", "namespace default", "namespace garden-kyma"}},
		{"hapctl counters verify --repair --yes -n default", 3, []string{"two landscapes", "nothing was changed"}},
	} {
		shell := exec.CommandContext(ctx, "sh", "-c", export+"\n"+c.command)
		shell.Env = []string{"PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH"), "HOME=" + t.TempDir()}
		out, _ := shell.CombinedOutput()
		if code := shell.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%s: exit code %d, want %d:\n%s", c.command, code, c.code, out)
		}
		columns := strings.Join(strings.Fields(string(out)), " ")
		for _, says := range c.says {
			if !strings.Contains(columns, says) {
				t.Errorf("%s does not say %q:\n%s", c.command, says, out)
			}
		}
	}
	if err := stdin.Close(); err != nil {
		t.Error(err)
	}
	<-drained
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
