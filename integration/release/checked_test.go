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
