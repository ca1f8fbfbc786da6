package engine

import (
	"errors"
	"strings"
)

// Error is an error that has a Code. Err says what happened and names the thing
// at fault, Hint what the reader does next.
type Error struct {
	Code Code
	Op   string
	Err  error
	Hint string
}

// Error gives what happened, then the hint.
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

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf gives the code of the first Error in err's chain, CodeInternal for any
// other error, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
