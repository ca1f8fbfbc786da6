package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events/contract"
)

// The exit codes of hapctl.
const (
	ExitDone     = 0
	ExitFailure  = contract.ExitFailure
	ExitUsage    = 2
	ExitInvalid  = 3 // invalid configuration, or one that mixes landscapes
	ExitNothing  = contract.ExitNothing
	ExitConflict = contract.ExitConflict
	ExitTimeout  = contract.ExitTimeout
)

// ExitError is an error with an exit code.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }

func (e *ExitError) Unwrap() error { return e.Err }

// Usagef returns an error of wrong usage, with the exit code ExitUsage. After its message, hapctl prints the usage
// line of the command and how to show its help text.
func Usagef(text string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(text, args...)}
}

// ErrSaid ends a command whose output already reports the failure.
var ErrSaid = errors.New("the output says it")

// Said returns an error that ends the command with an exit code and no further message; nil for ExitDone.
func Said(code int) error {
	if code == ExitDone {
		return nil
	}
	return &ExitError{Code: code, Err: ErrSaid}
}

// ExitCode returns the exit code of hapctl for an error.
func ExitCode(err error) int {
	var exit *ExitError
	var ruleFaults rule.Faults
	var faults document.Faults
	var foreign *engine.ForeignError
	var domain *engine.Error
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &ruleFaults), errors.As(err, &faults), errors.As(err, &foreign):
		return ExitInvalid
	case errors.As(err, &domain):
		return domain.Code.Info().Exit
	case errors.Is(err, context.DeadlineExceeded):
		return ExitTimeout
	}
	return ExitFailure
}

// settle prints an error unless the output already reports it, and returns the exit code.
func (s *Shell) settle(cmd *cobra.Command, err error) int {
	code := ExitCode(err)
	if err == nil || errors.Is(err, ErrSaid) {
		return code
	}
	s.Say("%v", err)
	if code == ExitUsage {
		fmt.Fprintf(s.Stderr, "Usage: %s\nSee '%s --help'.\n", cmd.UseLine(), cmd.CommandPath())
	}
	return code
}
