package app

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"
)

func TestMain(m *testing.M) {
	run := func() { os.Exit(Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
	testscript.Main(m, map[string]func(){
		"hapctl": run, "kubectl-hap": run,
		"hap-worker": func() { os.Exit(daemon.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs the stories of testdata/script. In addition to testscript's commands they have "exits CODE
// COMMAND ARGS…", which runs a command and compares its exit code with CODE, "converses CODE FILE COMMAND
// ARGS…", which also writes its input line by line, and "encode FORM FILE…"; scriptServers has more. $DEPLOY
// is the folder deploy, with its examples.
func TestScripts(t *testing.T) {
	t.Parallel()
	deploy, err := filepath.Abs("../../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	commands := scriptServers{t}.commands()
	commands["exits"], commands["converses"], commands["encode"] = clitest.Exits, clitest.Converses, clitest.Encode
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("DEPLOY", deploy)
			e.Setenv("GOMAXPROCS", "1") // scripts run at once already, and start hundreds of commands
			return nil
		},
		Cmds: commands,
	})
}
