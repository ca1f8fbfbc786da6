package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/rule"
)

// TestInTime: once the time of a command has passed, that is why it failed, whatever its last call says.
func TestInTime(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	<-over.Done()
	unreachable := &engine.Error{Code: engine.CodeInternal, Err: context.DeadlineExceeded}
	silent := fmt.Errorf("%w: %w", engine.ErrUnavailable, context.DeadlineExceeded)
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{t.Context(), nil, 0},
		{t.Context(), unreachable, 1}, // a shorter limit has passed, such as ConnectWithin
		{over, nil, 0},
		{over, unreachable, 124},
		{t.Context(), GardenerError(silent), 1},
		{over, GardenerError(silent), 124},
		{over, Usagef("wrong flag"), 2},
		{over, Said(5), 5},
	} {
		if got := ExitCode(InTime(c.ctx, c.err)); got != c.want {
			t.Errorf("%v, %v: exit code %d, want %d", c.ctx.Err(), c.err, got, c.want)
		}
	}
}

// TestExitCodes: one function maps errors to exit codes.
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
		{Usagef("wrong flag"), 2},
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
		{Said(5), 5},
		{Said(0), 0},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}
