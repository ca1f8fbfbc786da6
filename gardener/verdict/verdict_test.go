package verdict

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rateLimited is the answer of gardener-apiserver 1.149 for a binding when bindings are changed faster
// than its client can look up Secrets, at 5 requests a second.
const rateLimited = "client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline"

// TestOf: what each failure means for a read and for a write.
func TestOf(t *testing.T) {
	t.Parallel()
	of := schema.GroupResource{Resource: "secrets"}
	forbidden := func(why string) error { return apierrors.NewForbidden(of, "a", errors.New(why)) }
	generic := func(code int) error { return apierrors.NewGenericServerResponse(code, "get", of, "", "", 1, true) }
	for _, c := range []struct {
		name        string
		err         error
		read, write Verdict
	}{
		{"conflict", apierrors.NewConflict(of, "a", io.EOF), Conflict, Conflict},
		{"too many requests", apierrors.NewTooManyRequests("", 1), Again, Again},
		{"object missing", apierrors.NewNotFound(of, "a"), Missing, Missing},
		{"kind missing", generic(http.StatusNotFound), Refused, Refused},
		{"forbidden", apierrors.NewForbidden(of, "a", io.EOF), Refused, Barred},
		{"forbidden, all of it", generic(http.StatusForbidden), Refused, Refused},
		{"forbidden, by a limit of the admission's own", forbidden(rateLimited), Refused, Again},
		{"forbidden, the admission is not ready", forbidden("not yet ready to handle request"), Refused, Again},
		{"forbidden, the Secret is gone", forbidden(`secrets "a" not found`), Refused, Barred},
		{"not valid", apierrors.NewInvalid(schema.GroupKind{Kind: "K"}, "a", nil), Invalid, Barred},
		{"unauthorized", apierrors.NewUnauthorized(""), Refused, Refused},
		{"no metadata", generic(http.StatusNotAcceptable), Refused, Refused},
		{"list forgotten", apierrors.NewResourceExpired(""), Expired, Expired},
		{"invalid", apierrors.NewBadRequest(""), Invalid, Invalid},
		{"internal", apierrors.NewInternalError(io.EOF), Again, Unknown},
		{"unavailable", apierrors.NewServiceUnavailable(""), Again, Unknown},
		{"server's timeout", apierrors.NewTimeoutError("", 1), Again, Unknown},
		{"redirect without place", generic(http.StatusFound), Again, Unknown},
		{"connection lost", fmt.Errorf("patch: %w", io.ErrUnexpectedEOF), Again, Unknown},
		{"our timeout", context.DeadlineExceeded, Again, Unknown},
		{"reset", &net.OpError{Op: "read", Err: io.EOF}, Again, Unknown},
		{"not connected", fmt.Errorf("patch: %w", &net.OpError{Op: "dial", Err: io.EOF}), Again, Again},
		{"garbled", errors.New("the answer cannot be read"), Again, Unknown},
	} {
		if got := Of(c.err, false); got != c.read {
			t.Errorf("%s: a read is judged %d, want %d", c.name, got, c.read)
		}
		if got := Of(c.err, true); got != c.write {
			t.Errorf("%s: a write is judged %d, want %d", c.name, got, c.write)
		}
	}
}
