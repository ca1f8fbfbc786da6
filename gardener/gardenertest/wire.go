package gardenertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Wrap puts something between a client and the server.
type Wrap = func(http.RoundTripper) http.RoundTripper

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// verb returns the Kubernetes verb of a request: get, list, watch or patch.
func verb(r *http.Request) string {
	switch {
	case r.Method == http.MethodPatch:
		return "patch"
	case r.URL.Query().Get("watch") != "":
		return "watch"
	// …/namespaces/<namespace>/<resource>[/<name>]
	case len(strings.Split(strings.SplitN(r.URL.Path, "/namespaces/", 2)[1], "/")) == 2:
		return "list"
	default:
		return "get"
	}
}

// record records the requests of a client and, if bodies is set, the bodies of the answers.
type record struct {
	bodies bool

	mu      sync.Mutex
	verbs   map[string]int
	accepts []accepted
	lists   []string // paths
	told    bytes.Buffer
}

// accepted is the kind of answer that a request accepts.
type accepted struct{ path, kind string }

func (r *record) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		r.mu.Lock()
		if r.verbs == nil {
			r.verbs = map[string]int{}
		}
		r.verbs[verb(req)]++
		r.accepts = append(r.accepts, accepted{req.URL.Path, req.Header.Get("Accept")})
		if verb(req) == "list" {
			r.lists = append(r.lists, req.URL.Path)
		}
		r.mu.Unlock()
		resp, err := next.RoundTrip(req)
		if err == nil && r.bodies {
			resp.Body = &tap{resp.Body, r}
		}
		return resp, err
	})
}

func (r *record) count(verb string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.verbs[verb]
}

func (r *record) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.verbs)
	r.lists = nil
}

// first returns the path of the first list since forget.
func (r *record) first() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(r.lists, "nothing")[0]
}

// tap records the bytes that are read from a body.
type tap struct {
	io.ReadCloser
	record *record
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.record.mu.Lock()
	defer t.record.mu.Unlock()
	t.record.told.Write(p[:n])
	return n, err
}

// fault says what happens to a request instead of its answer.
type fault struct {
	name   string
	before bool // the server never sees the request; otherwise it has executed it
	answer func(*http.Request) (*http.Response, error)
}

// faults happen to the next requests of one verb, one after the other. When none is left, the requests
// go through.
type faults struct {
	verb    string
	forever bool // the last fault of next happens to all further requests of the verb

	mu   sync.Mutex
	next []fault
}

func (f *faults) set(list ...fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = list
}

func (f *faults) take(req *http.Request) (fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if verb(req) != f.verb || len(f.next) == 0 {
		return fault{}, false
	}
	first := f.next[0]
	if len(f.next) > 1 || !f.forever {
		f.next = f.next[1:]
	}
	return first, true
}

func (f *faults) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		hit, ok := f.take(req)
		if !ok {
			return next.RoundTrip(req)
		}
		if hit.before {
			if req.Body != nil {
				_ = req.Body.Close()
			}
			return hit.answer(req)
		}
		resp, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return nil, err
		}
		if resp.StatusCode >= 300 {
			return nil, fmt.Errorf("the server was to commit, but says %s", resp.Status)
		}
		return hit.answer(req)
	})
}

// status answers like the API server's filters: plain text, and a Retry-After header if retryAfter is
// not "".
func status(code int, retryAfter string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		resp := &http.Response{
			StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)),
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
			Header: http.Header{"Content-Type": {"text/plain"}},
			Body:   io.NopCloser(strings.NewReader("injected")),
		}
		if retryAfter != "" {
			resp.Header.Set("Retry-After", retryAfter)
		}
		return resp, nil
	}
}

// said is status with a JSON Status as its body, which has no delay.
func said(code int, reason, retryAfter string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := status(code, retryAfter)(req)
		resp.Header.Set("Content-Type", "application/json")
		resp.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"injected","code":%d}`, reason, code)))
		return resp, err
	}
}

// forgotten is the answer to the continuation of a list that was compacted away.
var forgotten = said(http.StatusGone, "Expired", "")

// busy is the answer 429 with the delay in its header only.
func busy(retryAfter string) func(*http.Request) (*http.Response, error) {
	return said(http.StatusTooManyRequests, "TooManyRequests", retryAfter)
}

// unlooked is the refusal of gardener-apiserver when bindings are changed faster than it can look up
// their Secrets. It names the object.
func unlooked(req *http.Request) (*http.Response, error) {
	const message = "client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline"
	name := path.Base(req.URL.Path)
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "bindings"}, name, errors.New(message))
	refusal.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(refusal.ErrStatus)
	if err != nil {
		return nil, err
	}
	resp, err := status(http.StatusForbidden, "")(req)
	resp.Header.Set("Content-Type", "application/json")
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, err
}

// garbled is an answer of success that is cut off.
func garbled(req *http.Request) (*http.Response, error) {
	resp, err := status(http.StatusOK, "")(req)
	resp.Header.Set("Content-Type", "application/json")
	resp.Body = io.NopCloser(strings.NewReader(`{"metadata":{"na`))
	return resp, err
}

func lost(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "read", Net: "tcp", Err: io.ErrUnexpectedEOF}
}

func unconnected(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

// silent never answers; the request ends with its context.
func silent(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// smallPages makes the server return the client's lists, but not its informers', in pages of two objects.
func smallPages(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if query := req.URL.Query(); query.Get("limit") == "500" && verb(req) == "list" {
			req = req.Clone(req.Context())
			query.Set("limit", "2")
			req.URL.RawQuery = query.Encode()
		}
		return next.RoundTrip(req)
	})
}

// line has the connections of a client, and can be cut: every open connection then breaks, and no new one is made
// until it is mended.
type line struct {
	cut atomic.Bool

	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// breakAll cuts the line.
func (l *line) breakAll() {
	l.cut.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		_ = c.Close()
	}
	clear(l.open)
}

func (l *line) mend() { l.cut.Store(false) }

// took registers a new connection, or refuses it if the line is cut.
func (l *line) took(c net.Conn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut.Load() {
		_ = c.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("the line is cut")}
	}
	if l.open == nil {
		l.open = map[net.Conn]struct{}{}
	}
	l.open[c] = struct{}{}
	return c, nil
}
