package contract

import (
	"context"
	"errors"
	"strings"
)

// Error is an error that has a Code. Op is the operation that failed. Err says what happened and names the
// thing at fault, Hint what the reader does next. Op, Err and Hint may be empty.
type Error struct {
	Code Code
	Op   string
	Err  error
	Hint string
}

// Error returns Op, Err and Hint, as far as they are set. If Err is nil, it returns the Code in its place.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op)
		b.WriteString(": ")
	}
	if e.Err != nil {
		b.WriteString(e.Err.Error())
	} else {
		b.WriteString(string(e.Code))
	}
	if e.Hint != "" {
		b.WriteString("; ")
		b.WriteString(e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first Error in err's chain, CodeDeadlineExceeded for the
// end of a context's time, CodeInternal for any other error, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return CodeDeadlineExceeded
	}
	return CodeInternal
}
