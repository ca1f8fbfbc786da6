package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/cmd/operator/operatortest"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events/foreign"
)

func TestMain(m *testing.M) {
	run := func() { os.Exit(Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
	testscript.Main(m, map[string]func(){
		"hapctl": run, "kubectl-hap": run,
		"hap-worker": func() { os.Exit(daemon.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs the stories of testdata/script. Beside testscript's own
// commands they have "exits CODE COMMAND ARGS…", which runs a command and holds
// its exit code against CODE, and "converses CODE FILE COMMAND ARGS…", which also
// asks it line by line, and "encode FORM FILE…"; scriptServers has more. $DEPLOY is the folder deploy, with its examples.
func TestScripts(t *testing.T) {
	t.Parallel()
	deploy, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	commands := scriptServers{t}.commands()
	commands["exits"], commands["converses"], commands["encode"] = operatortest.Exits, operatortest.Converses, operatortest.Encode
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("DEPLOY", deploy)
			return nil
		},
		Cmds: commands,
	})
}

// TestExitCodes: what an error means to the caller is decided in one place.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	coded := func(code engine.Code) error { return fmt.Errorf("in passing: %w", &engine.Error{Code: code}) }
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{context.Canceled, 1},
		{coded(engine.CodeInvalidEvent), 1},
		{coded(engine.CodeUnknownProvider), 1},
		{coded(engine.CodeUnknownRuntime), 1},
		{coded(engine.CodeUnknownBinding), 1},
		{coded(engine.CodeInternal), 1},
		{usagef("wrong flag"), 2},
		{fmt.Errorf("in passing: %w", rule.Faults{{}}), 3},
		{fmt.Errorf("in passing: %w", document.Faults{{}}), 3},
		{coded(engine.CodeNoMatchingRule), 4},
		{coded(engine.CodeNoImplementation), 4},
		{coded(engine.CodePoolExhausted), 4},
		{coded(engine.CodeNetworkExhausted), 4},
		{coded(engine.CodeSuperseded), 5},
		{coded(engine.CodeBindingInUse), 5},
		{coded(engine.CodeNotDirty), 5},
		{coded(engine.CodeStaleRelease), 5},
		{fmt.Errorf("in passing: %w", context.DeadlineExceeded), 124},
		{removalError(fmt.Errorf("no answer: %w", context.DeadlineExceeded)), 1}, // the right is missing
		{removalError(fmt.Errorf("%w: a reason", foreign.ErrKept)), 1},
		{said(5), 5},
		{said(0), 0},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}

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
	c := connections{natsURL: "nats://flag:4222", kubeconfig: "flag.yaml", namespace: "flag"}
	loaded, err := c.settings()
	if err != nil {
		t.Fatal(err)
	}
	got := []string{loaded.NATS.URL.String(), loaded.Redis.URL.String(), loaded.Gardener.Kubeconfig, loaded.Gardener.Namespace, loaded.Gardener.Resource}
	want := []string{"nats://flag:4222", "redis://env:6379", "flag.yaml", "flag", "secrets"}
	if !slices.Equal(got, want) {
		t.Fatalf("connects to %v, want %v", got, want)
	}
	c.config = t.TempDir() + "/none.yaml"
	if _, err := c.settings(); err == nil {
		t.Error("HAP_CONFIG wins over --config")
	}
}
