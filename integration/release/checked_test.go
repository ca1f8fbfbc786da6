package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleaseDemandsItsCheck: deploy/release.sh refuses a commit that make release-check has not passed. A
// passed check of another commit, or of a part, does not count.
func TestReleaseDemandsItsCheck(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../deploy/release.sh")
	if err != nil {
		t.Fatal(err)
	}
	project := t.TempDir()
	write(t, project, ".gitignore", "/dist/\n")
	for _, dir := range []string{"deploy", "dist"} {
		if err := os.Mkdir(filepath.Join(project, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, project, "deploy/release.sh", string(script))
	execute := func(command ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = project
		// It ends where it would build, since there is nothing to be built.
		cmd.Env = append(os.Environ(), "GO=false", "GIT_CONFIG_GLOBAL=/dev/null")
		said, err := cmd.CombinedOutput()
		if command[0] == "git" && err != nil {
			t.Fatalf("%v: %v\n%s", command, err, said)
		}
		return string(said)
	}
	execute("git", "init", "-q")
	execute("git", "add", "-A")
	execute("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "first")
	commit := strings.TrimSpace(execute("git", "rev-parse", "HEAD"))

	const refused = "has not passed make release-check"
	for name, record := range map[string]string{
		"none":           "",
		"another commit": strings.Repeat("0", len(commit)) + " 2026-01-01T00:00:00Z all\n",
		"a part":         "   224  test: ok\n" + commit + " 2026-01-01T00:00:00Z test\n",
	} {
		write(t, project, "dist/release-check", record)
		if said := execute("bash", "deploy/release.sh", filepath.Join(t.TempDir(), "made")); !strings.Contains(said, refused) {
			t.Errorf("%s: it is not refused: %s", name, said)
		}
	}
	write(t, project, "dist/release-check", "   224  test: ok\n"+commit+" 2026-01-01T00:00:00Z all\n")
	if said := execute("bash", "deploy/release.sh", filepath.Join(t.TempDir(), "made")); strings.Contains(said, refused) {
		t.Errorf("it is refused although it passed: %s", said)
	}
}

// TestLeftOutChecks: on a machine without a container engine make test-all says what it leaves out if
// HAP_WITHOUT_CONTAINERS allows it, and make release-check fails and keeps no record, although all else passes.
func TestLeftOutChecks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args, env string
		passes    bool
	}{
		"test-all":               {"", "HAP_WITHOUT_CONTAINERS=", false},
		"test-all without them":  {"", "HAP_WITHOUT_CONTAINERS=1", true},
		"a release without them": {"release", "HAP_WITHOUT_CONTAINERS=1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			project, machine := t.TempDir(), t.TempDir()
			if err := os.CopyFS(filepath.Join(project, ".ci"), os.DirFS("../../.ci")); err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"make", "go", "redis-server", "openssl", "python3", "chromium", "git"} {
				program(t, machine, command, "exit 0")
			}
			program(t, machine, "docker", `[ "$1" = compose ]`)
			program(t, machine, "service", "exit 1")
			run := exec.CommandContext(t.Context(), "bash", strings.Fields(".ci/all "+c.args)...)
			run.Dir, run.Env = project, append(os.Environ(), "PATH="+machine+":"+os.Getenv("PATH"), "HAP_TEST_LOGS=", c.env)
			for _, module := range []string{"events", "integration/promrules", "integration/natscommand", "integration/kubeapi", "integration/gardenerapi"} {
				if err := os.MkdirAll(filepath.Join(project, module), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			said, err := run.CombinedOutput()
			if (err == nil) != c.passes || !strings.Contains(string(said), "\nNOT RUN: what needs a container engine") {
				t.Errorf("%v\n%s", err, said)
			}
			if !c.passes && !strings.HasSuffix(string(said), "FAILED: container engine\n") {
				t.Errorf("something else fails, too:\n%s", said)
			}
			if _, err := os.Stat(filepath.Join(project, "dist/release-check")); err == nil {
				t.Error("it is on record as checked")
			}
		})
	}
}

// program writes a shell script as a program into a directory.
func program(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}
