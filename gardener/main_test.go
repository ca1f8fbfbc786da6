package gardener

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/engine/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// newOffline returns a client that is never started: tests feed its index.
func newOffline(t testing.TB, opts Options) *Client {
	t.Helper()
	if opts.Namespace == "" {
		opts.Namespace = "garden-kyma"
	}
	c, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
