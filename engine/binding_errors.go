package engine

import (
	"errors"
	"fmt"
)

// The errors of reading or marking a binding, besides those with CodeUnknownBinding, or CodeInternal for a request
// that the API does not accept. Adapters wrap them: compare with errors.Is.
var (
	// ErrConflict is a write that was refused because the binding has changed
	// since it was read. Nothing was written. Read it again and ask for
	// permission again.
	ErrConflict = errors.New("the binding has changed since it was read")

	// ErrUnknownResult is a write that may or may not have taken place: the
	// connection broke, the time was up or the server failed after the request
	// was sent. It is never repeated as it is; read the binding again, it shows
	// what happened, and ask for permission again.
	ErrUnknownResult = errors.New("it is unknown whether the write took place")

	// ErrUnavailable is a request that certainly had no effect: too many requests
	// or no connection within its budget, a read that the server failed to answer,
	// or permissions that are missing. Unless it is an ErrRefused, it says nothing
	// about the binding. It never ends an event; try again later.
	ErrUnavailable = errors.New("the API is not available")

	// ErrRefused means that the server rejects a write on this binding, or on every binding. Gardener does so
	// if the binding's Secret is gone. Nothing was written. It wraps ErrUnavailable for callers that need
	// this very binding.
	ErrRefused = fmt.Errorf("the write is refused: %w", ErrUnavailable)
)

// OutOfDate reports whether a write failed because the caller's view of the binding may be stale, or because
// the binding is gone. The caller must read it again before the next write.
func OutOfDate(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, ErrUnknownResult) || CodeOf(err) == CodeUnknownBinding
}
