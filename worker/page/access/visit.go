package access

import (
	"context"
	"net/http"
)

// visit is an admitted request. knows checks its credentials again; it is nil without a login.
type visit struct {
	who   string
	knows func() error
}

type visitKey struct{}

// admit serves the page to an authenticated request.
func (g *guard) admit(w http.ResponseWriter, r *http.Request, v visit) {
	g.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
}

// Viewer names the viewer of a request: the subject of an OIDC login. Viewers with a password or token, which
// many may share, and viewers without a login are told apart by address.
func Viewer(r *http.Request) string {
	if v, is := r.Context().Value(visitKey{}).(visit); is {
		return v.who
	}
	return prefixOf(r.RemoteAddr).String()
}

// Stands reports whether an admitted request would be admitted now: it checks the password, the token or the
// session's cookie again. A stream calls it before each update.
func Stands(r *http.Request) bool {
	v, is := r.Context().Value(visitKey{}).(visit)
	return !is || v.knows == nil || v.knows() == nil
}
