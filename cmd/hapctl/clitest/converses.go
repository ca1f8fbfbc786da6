package clitest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// answerWithin is the time limit for the answer to a line, and for the end after the last answer, also on a busy
// machine.
const answerWithin = time.Minute

// environment lists the variables of the script that the command of Converses gets.
var environment = []string{
	"PATH", "HOME", "TMPDIR", "GOCOVERDIR", "KUBECONFIG", "HAP_NATS_URL", "HAP_REDIS_URL", "HAP_GARDENER_NAMESPACE",
}

// Converses is the command "converses CODE FILE COMMAND ARGS…". It writes a line of FILE to the standard
// input of COMMAND, waits for the answer, a line of standard output, and goes on with the next line; a blank
// line has no answer. After the last line it closes the input. COMMAND must then end with the exit code CODE
// and without further output. As after exec, stdout has the answers.
func Converses(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 3 {
		ts.Fatalf("usage: converses CODE FILE COMMAND ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, "env", args[2:]...) // which looks in the script's PATH
	cmd.Dir, cmd.Stderr = ts.MkAbs("."), ts.Stderr()
	for _, name := range environment {
		if value := ts.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	alarm := time.AfterFunc(answerWithin, func() { cancel(fmt.Errorf("no answer within %s", answerWithin)) })
	defer alarm.Stop()
	err = converse(strings.Split(strings.TrimSpace(ts.ReadFile(args[1])), "\n"), in, io.TeeReader(out, ts.Stdout()),
		func() { alarm.Reset(answerWithin) })
	if err != nil {
		cancel(err)
	}
	ended := cmd.Wait()
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		ts.Fatalf("%v: %v", context.Cause(ctx), err)
	case ended != nil && !errors.As(ended, &failed):
		ts.Fatalf("%v", ended)
	case cmd.ProcessState.ExitCode() != want:
		ts.Fatalf("exit code %d, want %d", cmd.ProcessState.ExitCode(), want)
	}
}

// converse writes lines and reads an answer after each that is not blank, calls answered for each answer, and then
// checks that the output ends with the input.
func converse(lines []string, in io.WriteCloser, out io.Reader, answered func()) error {
	answers := bufio.NewReader(out)
	for n, line := range lines {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			return fmt.Errorf("line %d is not read: %w", n+1, err)
		}
		if strings.TrimSpace(line) == "" {
			continue // a blank line has no answer
		}
		if _, err := answers.ReadString('\n'); err != nil {
			return fmt.Errorf("line %d has no answer before the next one is written: %w", n+1, err)
		}
		answered()
	}
	if err := in.Close(); err != nil {
		return err
	}
	more, err := io.ReadAll(answers)
	if err == nil && len(more) > 0 {
		err = errors.New("nobody asked for it")
	}
	if err != nil {
		return fmt.Errorf("after the last answer there is more: %q, %w", more, err)
	}
	return nil
}
