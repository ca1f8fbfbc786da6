package access

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// served is a page behind rules, whose clock stands at noon unless now is another.
type served struct {
	http.Handler

	now  func() time.Time
	seen atomic.Pointer[http.Request] // that was let in last, as the page has it
}

// serve serves a page that shows the account aws-1. Refusals are logged.
func serve(t *testing.T, rules Rules) (*served, *logged) {
	t.Helper()
	log, s := &logged{}, &served{now: func() time.Time { return noon }}
	shows := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.seen.Store(r)
		_, _ = io.WriteString(w, "aws-1")
	})
	s.Handler = New(t.Context(), rules, shows, func() time.Time { return s.now() }, log.add)
	return s, log
}

// logged collects the warnings.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(text + "\n")
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func get(t testing.TB, h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.Host = "localhost:8080"
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
