package access

import (
	"context"
	"net/http"
)

// visit is a request that was let in: by whom, and what is asked again while its answer goes on.
type visit struct {
	who   string
	knows func() error
}

type visitKey struct{}

// admit serves the page to a request that was let in.
func (g *guard) admit(w http.ResponseWriter, r *http.Request, v visit) {
	g.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
}

// Viewer names who a request is of: the subject of a login at the issuer. A password or a token,
// which many may share, and a page without a login tell viewers apart by address.
func Viewer(r *http.Request) string {
	if v, is := r.Context().Value(visitKey{}).(visit); is {
		return v.who
	}
	return prefixOf(r.RemoteAddr).String()
}

// Stands reports whether a request that was let in would still be: it looks at the password, the
// token or the end of the session as they are now. An answer that goes on asks it before each part.
func Stands(r *http.Request) bool {
	v, is := r.Context().Value(visitKey{}).(visit)
	return !is || v.knows == nil || v.knows() == nil
}
