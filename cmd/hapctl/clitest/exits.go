// Package clitest adds commands to testscript for scripts about hapctl.
package clitest

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// Exits is the command "exits CODE COMMAND ARGS…": COMMAND must end with the exit code CODE. As after exec,
// stdout and stderr have its output. The output must not contain control sequences, since it does not go to a
// terminal.
func Exits(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var failed *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &failed):
		got = failed.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	for _, output := range []string{"stdout", "stderr"} {
		if strings.ContainsRune(ts.ReadFile(output), '\x1b') {
			ts.Fatalf("%s is no terminal, and is written to as if it were one", output)
		}
	}
}
