package lightapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// fuzzed is an API with one ConfigMap and one definition, which is never started.
func fuzzed(t testing.TB) *Server {
	t.Helper()
	s, err := New(Options{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), History: 4})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.ask(http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/json",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"l":"1"}},"data":{"k":"v"}}`); got.Code != http.StatusCreated {
		t.Fatal(got.Body)
	}
	return s
}

// ask answers a request without a network.
func (s *Server) ask(method, target, media, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(body))
	path, query, _ := strings.Cut(target, "?")
	r.Method, r.URL = method, &url.URL{Path: path, RawQuery: query}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", media)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// FuzzPatch: a patch of any content changes the object as it says or is refused,
// and leaves an object that can be read, with its name and uid.
func FuzzPatch(f *testing.F) {
	for _, sort := range []types.PatchType{types.MergePatchType, types.JSONPatchType, types.StrategicMergePatchType, types.ApplyYAMLPatchType} {
		for _, patch := range []string{
			`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":null}`, `{"metadata":{"resourceVersion":"1"}}`, `null`, `[]`,
			`[{"op":"remove","path":"/metadata"}]`, `[{"op":"copy","from":"/data","path":"/data/x"}]`, `[{"op":"add","path":"","value":1}]`,
			`{"data":{"$patch":"delete"}}`, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
			`{"metadata":{"finalizers":["a.b/c"],"deletionTimestamp":"2020-01-01T00:00:00Z"}}`,
		} {
			f.Add(string(sort), patch)
		}
	}
	f.Fuzz(func(t *testing.T, sort, patch string) {
		s := fuzzed(t)
		const path = "/api/v1/namespaces/default/configmaps/a"
		c, _, _ := s.store.find(configMapsOf())
		before := s.store.get(c, key{"default", "a"})
		got := s.ask(http.MethodPatch, path+"?fieldManager=f", sort, patch)
		after := s.store.get(c, key{"default", "a"})
		if after == nil || after.GetUID() != before.GetUID() || after.GetNamespace() != "default" || after.GetKind() != "ConfigMap" {
			t.Fatalf("%s %s leaves %v", sort, patch, after)
		}
		if got.Code != http.StatusOK && after.GetResourceVersion() != before.GetResourceVersion() {
			t.Fatalf("%s %s is refused with %d, and written", sort, patch, got.Code)
		}
		if got.Code >= http.StatusInternalServerError {
			t.Fatalf("%s %s is answered %d: %s", sort, patch, got.Code, got.Body)
		}
		if read := s.ask(http.MethodGet, path, "", ""); read.Code != http.StatusOK {
			t.Fatalf("%s %s: afterwards it is answered %d", sort, patch, read.Code)
		}
	})
}

// FuzzRequest: a path and a query of any content are answered, and never by a
// failure of the server.
func FuzzRequest(f *testing.F) {
	for _, target := range []string{
		"/", "/api", "/apis//", "/api/v1/namespaces/default/configmaps?limit=1&continue=e30",
		"/api/v1/configmaps?labelSelector=a+in+(b)&fieldSelector=metadata.name%3Da&resourceVersion=1&resourceVersionMatch=Exact",
		"/api/v1/configmaps?limit=-1", "/api/v1/namespaces/default/status", "/api/v1/namespaces/default/configmaps/a/status",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x?resourceVersion=18446744073709551616",
	} {
		f.Add(http.MethodGet, target, "")
		f.Add(http.MethodDelete, target, `{"preconditions":{"uid":"x"}}`)
		f.Add(http.MethodPost, target, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}`)
	}
	s := fuzzed(f)
	f.Fuzz(func(t *testing.T, method, target, body string) {
		if asked, err := url.ParseQuery(target[strings.Index(target, "?")+1:]); err != nil || asked.Has("watch") {
			return // a watch has no end
		}
		if got := s.ask(method, target, "application/json", body); got.Code >= http.StatusInternalServerError && got.Code != http.StatusGatewayTimeout {
			t.Fatalf("%s %s %s is answered %d: %s", method, target, body, got.Code, got.Body)
		}
	})
}

func configMapsOf() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}
