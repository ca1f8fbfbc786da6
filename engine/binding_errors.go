package engine

import (
	"errors"
	"fmt"
)

// What reading or marking a binding may fail with, besides CodeUnknownBinding
// and the end of the caller's context. An adapter wraps them; errors.Is finds
// them.
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

	// ErrUnavailable is a request that certainly had no effect and that could
	// not be served within its budget: too many requests, no connection, a
	// failing server, or permissions that are missing. It says nothing about the
	// binding, so it never ends an event; try again later.
	ErrUnavailable = errors.New("the API is not available")

	// ErrRefused is a write that the server does not allow on this binding, as
	// Gardener does not where the binding's Secret is gone, or on none. Nothing was
	// written. It is an ErrUnavailable to a caller that needs this very binding.
	ErrRefused = fmt.Errorf("the write is refused: %w", ErrUnavailable)
)

// OutOfDate reports whether a write failed because the binding may not be as it was seen
// any more, or is gone: it has to be read before anything else is done about it.
func OutOfDate(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, ErrUnknownResult) || CodeOf(err) == CodeUnknownBinding
}
