package gardener

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hap-worker/hap-worker/engine"
)

// rateLimited is the answer of gardener-apiserver 1.149 of a binding when more bindings
// are changed than its client, of 5 requests a second, can look up Secrets for.
const rateLimited = "client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline"

// TestJudge: what each failure means for a read and for a write.
func TestJudge(t *testing.T) {
	t.Parallel()
	of := schema.GroupResource{Resource: "secrets"}
	forbidden := func(why string) error { return apierrors.NewForbidden(of, "a", errors.New(why)) }
	generic := func(code int) error { return apierrors.NewGenericServerResponse(code, "get", of, "", "", 1, true) }
	for _, c := range []struct {
		name        string
		err         error
		read, write verdict
	}{
		{"conflict", apierrors.NewConflict(of, "a", io.EOF), conflict, conflict},
		{"too many requests", apierrors.NewTooManyRequests("", 1), again, again},
		{"object missing", apierrors.NewNotFound(of, "a"), missing, missing},
		{"kind missing", generic(http.StatusNotFound), refused, refused},
		{"forbidden", apierrors.NewForbidden(of, "a", io.EOF), refused, barred},
		{"forbidden, all of it", generic(http.StatusForbidden), refused, refused},
		{"forbidden, by a limit of the admission's own", forbidden(rateLimited), refused, again},
		{"forbidden, the admission is not ready", forbidden("not yet ready to handle request"), refused, again},
		{"forbidden, the Secret is gone", forbidden(`secrets "a" not found`), refused, barred},
		{"not valid", apierrors.NewInvalid(schema.GroupKind{Kind: "K"}, "a", nil), invalid, barred},
		{"unauthorized", apierrors.NewUnauthorized(""), refused, refused},
		{"no metadata", generic(http.StatusNotAcceptable), refused, refused},
		{"list forgotten", apierrors.NewResourceExpired(""), expired, expired},
		{"invalid", apierrors.NewBadRequest(""), invalid, invalid},
		{"internal", apierrors.NewInternalError(io.EOF), again, unknown},
		{"unavailable", apierrors.NewServiceUnavailable(""), again, unknown},
		{"server's timeout", apierrors.NewTimeoutError("", 1), again, unknown},
		{"redirect without place", generic(http.StatusFound), again, unknown},
		{"connection lost", fmt.Errorf("patch: %w", io.ErrUnexpectedEOF), again, unknown},
		{"our timeout", context.DeadlineExceeded, again, unknown},
		{"reset", &net.OpError{Op: "read", Err: io.EOF}, again, unknown},
		{"not connected", fmt.Errorf("patch: %w", &net.OpError{Op: "dial", Err: io.EOF}), again, again},
		{"garbled", &garbledError{io.EOF}, again, unknown},
	} {
		if got := judge(c.err, false); got != c.read {
			t.Errorf("%s: a read is judged %d, want %d", c.name, got, c.read)
		}
		if got := judge(c.err, true); got != c.write {
			t.Errorf("%s: a write is judged %d, want %d", c.name, got, c.write)
		}
	}
}

// TestNamed: each verdict is an error that a caller recognises, and keeps what
// the server said.
func TestNamed(t *testing.T) {
	t.Parallel()
	cause := errors.New("said by the server")
	for v, want := range map[verdict]error{
		again: engine.ErrUnavailable, refused: engine.ErrUnavailable, expired: engine.ErrUnavailable,
		unknown: engine.ErrUnknownResult, conflict: engine.ErrConflict, barred: engine.ErrRefused,
	} {
		if err := named("op", v, cause); !errors.Is(err, want) || !errors.Is(err, cause) {
			t.Errorf("%d: %v", v, err)
		}
	}
	if got := engine.CodeOf(named("op", missing, cause)); got != engine.CodeUnknownBinding {
		t.Errorf("missing: %s", got)
	}
	if got := engine.CodeOf(named("op", invalid, cause)); got != engine.CodeInternal {
		t.Errorf("invalid: %s", got)
	}
}

// TestPauses: never shorter than the server wants, never beyond the budget or
// the caller's deadline.
func TestPauses(t *testing.T) {
	t.Parallel()
	exponential := backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Millisecond), backoff.WithMaxElapsedTime(time.Minute))
	if d := (&pauses{ExponentialBackOff: exponential, least: 3 * time.Second}).NextBackOff(); d != 3*time.Second {
		t.Errorf("Retry-After of 3 s: %v", d)
	}
	if d := (&pauses{ExponentialBackOff: exponential, least: 2 * time.Minute}).NextBackOff(); d != backoff.Stop {
		t.Errorf("Retry-After beyond the budget: %v", d)
	}
	late := &pauses{ExponentialBackOff: exponential, least: 3 * time.Second, until: time.Now().Add(time.Second), limited: true}
	if d := late.NextBackOff(); d != backoff.Stop {
		t.Errorf("Retry-After beyond the deadline: %v", d)
	}
}

// TestAttemptsAreTold: a caller hears of each attempt that would be repeated and can end the
// call; it does not hear of a server that asks it to come later.
func TestAttemptsAreTold(t *testing.T) {
	t.Parallel()
	c := newOffline(t, Options{})
	enough := errors.New("enough")
	for _, of := range []struct {
		name   string
		failed error
		told   int
	}{
		{"unavailable", apierrors.NewServiceUnavailable(""), 2},
		{"a lost connection", io.ErrUnexpectedEOF, 2},
		{"too many requests", apierrors.NewTooManyRequests("", 0), 0},
		{"an admission that limits itself", apierrors.NewForbidden(schema.GroupResource{}, "a", errors.New(rateLimited)), 0},
	} {
		told, calls := 0, 0
		ctx := engine.WithAttempts(t.Context(), func(err error) error {
			if told++; !errors.Is(err, engine.ErrUnavailable) {
				t.Errorf("%s: told of %v", of.name, err)
			}
			if told == 2 {
				return enough
			}
			return nil
		})
		err := c.repeat(ctx, "try", func(context.Context) error {
			if calls++; calls == 3 {
				return nil
			}
			return of.failed
		}, of.told == 0)
		if told != of.told || (of.told > 0) != errors.Is(err, enough) {
			t.Errorf("%s: told %d times, %v", of.name, told, err)
		}
	}
}

// TestContextEnded: nothing is sent for a caller who has gone, and the error
// says both that nothing happened and why.
func TestContextEnded(t *testing.T) {
	t.Parallel()
	c := newOffline(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Claim(ctx, engine.Binding{Name: "a", ResourceVersion: "1"}, engine.Mark{Tenant: "ga-1"})
	if !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), c.Server()) {
		t.Errorf("%v", err)
	}
}

// TestNoVersion: a write without a resourceVersion would go through whatever the
// binding has become.
func TestNoVersion(t *testing.T) {
	t.Parallel()
	if _, err := newOffline(t, Options{}).Claim(t.Context(), engine.Binding{Name: "a"}, engine.Mark{}); !errors.Is(err, errNoVersion) {
		t.Errorf("%v", err)
	}
}

func TestStopBeforeStart(t *testing.T) {
	t.Parallel()
	c := newOffline(t, Options{})
	c.Stop()
	c.Stop()
	if err := c.Start(t.Context()); err == nil {
		t.Error("started after the stop")
	}
}
