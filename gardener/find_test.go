package gardener

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestFindWithoutACache: of two bindings with one Secret, the second is found as a duplicate, by a list of its
// hyperscaler type.
func TestFindWithoutACache(t *testing.T) {
	t.Parallel()
	binding := func(name, created string) string {
		return fmt.Sprintf(`{"kind":"CredentialsBinding","metadata":{"name":%q,"namespace":"garden-kyma","creationTimestamp":%q,"labels":{"hyperscalerType":"aws"}},
			"credentialsRef":{"kind":"Secret","namespace":"garden-kyma","name":"one"}}`, name, created)
	}
	first, second := binding("aws-1", "2026-11-01T00:00:00Z"), binding("aws-2", "2026-11-02T00:00:00Z")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch selector := r.URL.Query().Get("labelSelector"); {
		case strings.HasSuffix(r.URL.Path, "/aws-2"):
			_, _ = w.Write([]byte(second))
		case selector == "hyperscalerType=aws":
			_, _ = fmt.Fprintf(w, `{"kind":"CredentialsBindingList","metadata":{},"items":[%s,%s]}`, first, second)
		default:
			t.Errorf("%s is asked for with the selector %q", r.URL.Path, selector)
		}
	}))
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{Host: server.URL}, Options{Namespace: "garden-kyma", Resource: CredentialsBindings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	if found, err := c.Find(t.Context(), "aws-2"); found.SameSecretAs != "aws-1" || err != nil {
		t.Errorf("aws-2 is found as a duplicate of %q, want aws-1 (%v)", found.SameSecretAs, err)
	}
}
