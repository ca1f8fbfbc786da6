package gardener

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener/verdict"
)

// rateLimited is the answer of an admission plugin whose client has exceeded its rate limit.
const rateLimited = "client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline"

// TestNamed: each verdict is an error that a caller recognises, and keeps what
// the server said.
func TestNamed(t *testing.T) {
	t.Parallel()
	cause := errors.New("said by the server")
	for v, want := range map[verdict.Verdict]error{
		verdict.Again: engine.ErrUnavailable, verdict.Refused: engine.ErrUnavailable, verdict.Expired: engine.ErrUnavailable,
		verdict.Unknown: engine.ErrUnknownResult, verdict.Conflict: engine.ErrConflict, verdict.Barred: engine.ErrRefused,
	} {
		if err := named("op", v, cause); !errors.Is(err, want) || !errors.Is(err, cause) {
			t.Errorf("%d: %v", v, err)
		}
	}
	if got := engine.CodeOf(named("op", verdict.Missing, cause)); got != engine.CodeUnknownBinding {
		t.Errorf("missing: %s", got)
	}
	if got := engine.CodeOf(named("op", verdict.Invalid, cause)); got != engine.CodeInternal {
		t.Errorf("invalid: %s", got)
	}
}

// TestPauses: never shorter than the server wants, never beyond the budget or
// the caller's deadline.
func TestPauses(t *testing.T) {
	t.Parallel()
	exponential := backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Millisecond), backoff.WithMaxElapsedTime(time.Minute))
	if d := (&pauses{ExponentialBackOff: exponential, least: 3 * time.Second, again: func() bool { return true }}).NextBackOff(); d != 3*time.Second {
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

// TestTheLastAttemptIsNotTold: who calls counts the attempts that are repeated, and the call itself.
func TestTheLastAttemptIsNotTold(t *testing.T) {
	t.Parallel()
	c := newOffline(t, Options{Budget: time.Second, Timeout: time.Second})
	ctx := engine.WithAttempts(t.Context(), func(err error) error {
		t.Errorf("told of %v", err)
		return nil
	})
	failed := apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "get", schema.GroupResource{}, "", "", 2, true)
	if err := c.repeat(ctx, "try", func(context.Context) error { return failed }, false); !errors.Is(err, engine.ErrUnavailable) {
		t.Error(err)
	}
}

// TestContextEnded: after the end of ctx nothing is sent, and the error says that nothing happened,
// and why.
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

// TestNoVersion: a write without a resourceVersion is refused, because the server would accept it in
// any state of the binding.
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
