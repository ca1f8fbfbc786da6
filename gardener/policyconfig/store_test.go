package policyconfig

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/engine"
)

// TestStoreDoesNotHang: an API that does not answer holds a request only for its time.
func TestStoreDoesNotHang(t *testing.T) {
	t.Parallel()
	silent := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-silent }))
	defer server.Close()
	defer close(silent)
	p, err := NewStore(&rest.Config{Host: server.URL}, "garden-kyma", "hap-policy", "")
	if err != nil {
		t.Fatal(err)
	}
	p.timeout = 10 * time.Millisecond
	if _, err := p.Read(t.Context()); !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a read ends with %v", err)
	}
}
