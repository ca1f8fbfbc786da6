package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/rule"
)

// The exit codes of hapctl.
const (
	exitDone     = 0
	exitFailure  = engine.ExitFailure
	exitUsage    = 2
	exitInvalid  = 3 // invalid configuration, or one that mixes landscapes
	exitNothing  = engine.ExitNothing
	exitConflict = engine.ExitConflict
	exitTimeout  = engine.ExitTimeout
)

// exitError is an error that knows its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usagef is wrong usage: the message comes with a hint at the help text.
func usagef(text string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(text, args...)}
}

// errSaid ends a command whose output has said everything.
var errSaid = errors.New("the output says it")

// said ends the command with an exit code and without another word.
func said(code int) error {
	if code == exitDone {
		return nil
	}
	return &exitError{code: code, err: errSaid}
}

// exitCode returns what an error means for the caller of hapctl.
func exitCode(err error) int {
	var exit *exitError
	var ruleFaults rule.Faults
	var faults document.Faults
	var foreign *engine.ForeignError
	var domain *engine.Error
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &ruleFaults), errors.As(err, &faults), errors.As(err, &foreign):
		return exitInvalid
	case errors.As(err, &domain):
		return domain.Code.Info().Exit
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	}
	return exitFailure
}

// settle tells the user of an error that was not told yet, and returns the exit code.
func (s *shell) settle(cmd *cobra.Command, err error) int {
	code := exitCode(err)
	if err == nil || errors.Is(err, errSaid) {
		return code
	}
	s.say("%v", err)
	if code == exitUsage {
		fmt.Fprintf(s.stderr, "Usage: %s\nSee '%s --help'.\n", cmd.UseLine(), cmd.CommandPath())
	}
	return code
}
