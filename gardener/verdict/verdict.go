// Package verdict classifies the failures of requests to a Kubernetes API, so that callers know
// whether they may repeat one.
package verdict

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Verdict says what a failed request means.
type Verdict int

// The verdicts.
const (
	Again    Verdict = iota // the same request may be sent again: a read, or a write without effect
	Unknown                 // a write that may have taken place
	Conflict                // the object has changed since
	Missing                 // the object is not there
	Refused                 // the API does not exist, or the client may not use it
	Barred                  // a write on this object that the server does not allow
	Expired                 // the server has forgotten the rest of a list
	Invalid                 // any other answer: the server does not accept the request
)

// Of returns what err, of a read or of a write, means. A write is certain to have had no effect only if
// the server said so or if no server heard it.
func Of(err error, write bool) Verdict {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		if write && !unheard(err) {
			return Unknown
		}
		return Again
	}
	switch code := int(status.Status().Code); {
	case code == http.StatusConflict:
		return Conflict
	case code == http.StatusTooManyRequests, write && code == http.StatusForbidden && unlooked(status):
		return Again
	case code == http.StatusNotFound && ofObject(status):
		return Missing
	case write && ofObject(status) && (code == http.StatusForbidden || code == http.StatusUnprocessableEntity):
		return Barred
	case code == http.StatusNotFound, code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusNotAcceptable:
		return Refused
	case code == http.StatusGone:
		return Expired
	case code >= 500 || code < 400:
		if write {
			return Unknown
		}
		return Again
	default:
		return Invalid
	}
}

// ofObject reports whether an answer is about an object, not about its API: it then names the object.
func ofObject(status apierrors.APIStatus) bool {
	details := status.Status().Details
	return details != nil && details.Name != ""
}

// Limited reports whether a server works, but did not process this request: it answered 429, or an
// admission plugin refused before it looked at the object.
func Limited(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && (status.Status().Code == http.StatusTooManyRequests || unlooked(status))
}

// noLook are parts of the messages of an admission plugin that has not looked at the object, since its
// caches are not ready or its client has exceeded a rate limit. Such an answer names the object and
// has the reason Forbidden, like a lasting refusal; only the message differs.
var noLook = []string{
	"client rate limiter Wait returned an error", // k8s.io/client-go/rest
	"not yet ready to handle request",            // k8s.io/apiserver/pkg/admission, and Gardener's plugins
}

// unlooked reports whether a refusal is temporary: an admission plugin refused before it looked at the
// object, and nothing was written.
func unlooked(status apierrors.APIStatus) bool {
	message := status.Status().Message
	return slices.ContainsFunc(noLook, func(said string) bool { return strings.Contains(message, said) })
}

// unheard reports whether no connection was made, so that no server can have received the request.
func unheard(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// Expected reports whether a failure of a watch is part of its normal life: the server closed the connection
// or has forgotten the state to continue from, or the watch was stopped.
func Expected(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) ||
		apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// Delay returns how long the server asks to wait before a repeat, 0 if it does not say.
func Delay(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(seconds) * time.Second
}

// Error is a failure that the caller can act upon.
type Error struct {
	Op  string
	As  error // the error for which callers test, such as engine.ErrUnavailable
	Err error // what the server or the network said
}

func (e *Error) Error() string   { return fmt.Sprintf("%s: %v: %v", e.Op, e.As, e.Err) }
func (e *Error) Unwrap() []error { return []error{e.As, e.Err} }

// Said returns what the server or the network said where err wraps an Error, and otherwise err.
func Said(err error) error {
	if failed, ok := errors.AsType[*Error](err); ok {
		return failed.Err
	}
	return err
}
