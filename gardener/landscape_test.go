package gardener_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener"
)

// landscapeOf returns a client of an API server that answers every request for a namespace with this
// code and body.
func landscapeOf(t *testing.T, code int, body string) (*gardener.Client, *[]string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/api/v1/namespaces/garden-kyma" {
			t.Errorf("%s %s is asked for", r.Method, r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	warnings := &[]string{}
	c, err := gardener.New(&rest.Config{Host: server.URL}, gardener.Options{
		Namespace: "garden-kyma", Budget: 2 * time.Second, Timeout: time.Second, Warn: func(text string) { *warnings = append(*warnings, text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c, warnings
}

func TestLandscape(t *testing.T) {
	t.Parallel()
	c, warnings := landscapeOf(t, http.StatusOK, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"garden-kyma","uid":"uid-1"}}`)
	got, err := c.Landscape(t.Context())
	want := engine.Landscape{Cluster: "uid-1", Namespace: "garden-kyma", Resource: "credentialsbindings"}
	if got != want || err != nil || len(*warnings) > 0 {
		t.Errorf("%+v, %v, %q", got, err, *warnings)
	}
}

// An older Role does not permit to get the namespace: the landscape then has no uid, and an operator
// is warned once.
func TestLandscapeWithoutTheRight(t *testing.T) {
	t.Parallel()
	c, warnings := landscapeOf(t, http.StatusForbidden,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no","details":{"name":"garden-kyma","kind":"namespaces"}}`)
	for range 2 {
		got, err := c.Landscape(t.Context())
		if want := (engine.Landscape{Namespace: "garden-kyma", Resource: "credentialsbindings"}); got != want || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if len(*warnings) != 1 || !strings.Contains((*warnings)[0], "right to get the namespace") {
		t.Errorf("warned of %q", *warnings)
	}
}

// Any other answer is an error: it is never taken for a landscape without a uid.
func TestLandscapeNotRead(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct {
		code int
		body string
	}{
		"no namespace": {http.StatusNotFound, `{"kind":"Status","status":"Failure","reason":"NotFound","code":404,"details":{"name":"garden-kyma"}}`},
		"no login":     {http.StatusUnauthorized, `{"kind":"Status","status":"Failure","reason":"Unauthorized","code":401}`},
		"failing":      {http.StatusInternalServerError, `{"kind":"Status","status":"Failure","code":500}`},
		"garbled":      {http.StatusOK, `<html>`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := landscapeOf(t, answer.code, answer.body)
			if got, err := c.Landscape(t.Context()); !errors.Is(err, engine.ErrUnavailable) || got != (engine.Landscape{}) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
