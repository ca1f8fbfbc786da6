package engine

import (
	"errors"
	"strings"
)

// Code names what went wrong, in a word that publishers and operators can rely
// on: it stands in replies, in dead letters and in the output of hapctl.
type Code string

// The codes of replies. See docs/messages.md for when each is sent.
const (
	// CodeInvalidEvent is an event that can never be processed as it is.
	CodeInvalidEvent Code = "InvalidEvent"
	// CodeNoMatchingRule is a request that no HAP rule matches; there is no fall-back.
	CodeNoMatchingRule Code = "NoMatchingRule"
	// CodeUnknownProvider is a provider outside its plan's list, or a plan with several providers and none given.
	CodeUnknownProvider Code = "UnknownProvider"
	// CodePoolExhausted is a pool without an account for the tenant, at the end of the waiting time.
	CodePoolExhausted Code = "PoolExhausted"
	// CodeNetworkExhausted is a network rule that no parent has room for.
	CodeNetworkExhausted Code = "NetworkExhausted"
	// CodeNoImplementation is an interface that the policy gives no implementation for.
	CodeNoImplementation Code = "NoImplementation"
	// CodeSuperseded is a provision whose runtime was deprovisioned meanwhile.
	CodeSuperseded Code = "Superseded"
	// CodeUnknownRuntime is a runtime that nobody knows; hapctl only.
	CodeUnknownRuntime Code = "UnknownRuntime"
	// CodeUnknownBinding is a binding that Gardener does not have.
	CodeUnknownBinding Code = "UnknownBinding"
	// CodeBindingInUse is a release of a binding that still has clusters.
	CodeBindingInUse Code = "BindingInUse"
	// CodeNotDirty is a release of a binding that is not marked dirty.
	CodeNotDirty Code = "NotDirty"
	// CodeStaleRelease is a release of an earlier claim of the binding.
	CodeStaleRelease Code = "StaleRelease"
	// CodeInternal is a fault of this service.
	CodeInternal Code = "Internal"
)

// Retryable reports whether the same request may succeed later under a new id.
func (c Code) Retryable() bool {
	switch c {
	case CodePoolExhausted, CodeNetworkExhausted, CodeBindingInUse, CodeInternal:
		return true
	default:
		return false
	}
}

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
