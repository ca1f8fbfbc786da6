// Package kubetest is the test suite of a Kubernetes API with the kinds of deploy/crds, as hap-worker, hapctl
// and kubectl need it. It runs on integration/lightapi and on kube-apiserver, so that the two behave alike in
// what the suite tests.
package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// patience is how long a test waits for a response, an event of a watch or a condition.
const patience = 30 * time.Second

// The content types of bodies, and the forms in which responses are requested.
const (
	inJSON        = "application/json"
	mergePatch    = "application/merge-patch+json"
	jsonPatch     = "application/json-patch+json"
	strategic     = "application/strategic-merge-patch+json"
	applyPatch    = "application/apply-patch+yaml"
	protobuf      = "application/vnd.kubernetes.protobuf"
	onlyMetadata  = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataList  = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	asKubectlGets = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)

// Run runs the suite on an API that serves deploy/crds; config must have all rights. The suite creates
// namespaces, which it does not delete.
func Run(t *testing.T, config *rest.Config) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, *bench)
	}{
		{"Create", testCreate},
		{"Update", testUpdate},
		{"Patch", testPatch},
		{"StrategicPatch", testStrategicPatch},
		{"Apply", testApply},
		{"Status", testStatus},
		{"Delete", testDelete},
		{"Finalizers", testFinalizers},
		{"DeleteCollection", testDeleteCollection},
		{"Refusals", testRefusals},
		{"ListSelects", testListSelects},
		{"ListPages", testListPages},
		{"ListVersions", testListVersions},
		{"WatchSelects", testWatchSelects},
		{"WatchFromVersion", testWatchFromVersion},
		{"WatchBegins", testWatchBegins},
		{"WatchEnds", testWatchEnds},
		{"Metadata", testMetadata},
		{"Table", testTable},
		{"KubectlLabel", testKubectlLabel},
		{"Discovery", testDiscovery},
		{"Definition", testDefinition},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, newBench(t, config))
		})
	}
}

// benches numbers the namespaces.
var benches atomic.Int32

// bench is a test with its client and its namespace.
type bench struct {
	t         *testing.T
	config    *rest.Config
	client    *http.Client
	namespace string
}

func newBench(t *testing.T, config *rest.Config) *bench {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	b := &bench{t: t, config: config, client: client, namespace: fmt.Sprintf("kubetest-%d-%d", time.Now().UnixNano()%1e9, benches.Add(1))}
	b.post("/api/v1/namespaces", object("v1", "Namespace", b.namespace, "")).is(http.StatusCreated, "")
	return b
}

// object returns a manifest. content has further JSON members, or is empty.
func object(apiVersion, kind, name, content string) string {
	if content != "" {
		content = "," + content
	}
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}%s}`, apiVersion, kind, name, content)
}

// The paths of ConfigMaps and Shoots in the namespace.
func (b *bench) configMaps() string { return "/api/v1/namespaces/" + b.namespace + "/configmaps" }
func (b *bench) shoots() string {
	return "/apis/core.gardener.cloud/v1beta1/namespaces/" + b.namespace + "/shoots"
}

// configMap creates a ConfigMap with labels like a=b,c=d.
func (b *bench) configMap(name, labels string) reply {
	b.t.Helper()
	return b.post(b.configMaps(), configMap(name, labels)).is(http.StatusCreated, "")
}

func configMap(name, labels string) string {
	of := map[string]string{}
	for pair := range strings.SplitSeq(labels, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			of[key] = value
		}
	}
	content, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "labels": of}, "data": map[string]any{"k": "v"},
	})
	if err != nil {
		panic(err) // cannot happen: there are only strings
	}
	return string(content)
}

// shoot creates a Shoot.
func (b *bench) shoot(name string) reply {
	b.t.Helper()
	return b.post(b.shoots(), object("core.gardener.cloud/v1beta1", "Shoot", name, `"spec":{"region":"eu","further":{"a":1}}`)).is(http.StatusCreated, "")
}

// reply is a response of the API.
type reply struct {
	t    *testing.T
	what string
	code int
	body map[string]any
	raw  []byte
}

// is fails the test unless the response has this code and this reason; an empty reason is not compared.
func (r reply) is(code int, reason string) reply {
	r.t.Helper()
	if got, _ := r.body["reason"].(string); r.code != code || reason != "" && got != reason {
		r.t.Fatalf("%s is answered %d %s, want %d %s\n%.600s", r.what, r.code, got, code, reason, r.raw)
	}
	return r
}

// at returns a value of the response, nil if it has none.
func (r reply) at(path ...string) any { return at(r.body, path...) }

func at(content map[string]any, path ...string) any {
	var value any = content
	for _, name := range path {
		members, _ := value.(map[string]any)
		value = members[name]
	}
	return value
}

func (r reply) text(path ...string) string {
	if r.at(path...) == nil {
		return ""
	}
	return fmt.Sprint(r.at(path...))
}

func (r reply) version() string { return r.text("metadata", "resourceVersion") }

// names returns the names of a list's items, separated by spaces.
func (r reply) names() string {
	var names []string
	items, _ := r.body["items"].([]any)
	for _, item := range items {
		item, _ := item.(map[string]any)
		names = append(names, fmt.Sprint(at(item, "metadata", "name")))
	}
	return strings.Join(names, " ")
}

func (b *bench) get(path string, accept ...string) reply {
	b.t.Helper()
	return b.do(http.MethodGet, path, "", "", accept...)
}

func (b *bench) post(path, content string) reply {
	b.t.Helper()
	return b.do(http.MethodPost, path, inJSON, content)
}

func (b *bench) put(path, content string) reply {
	b.t.Helper()
	return b.do(http.MethodPut, path, inJSON, content)
}

func (b *bench) patch(path, sort, content string) reply {
	b.t.Helper()
	return b.do(http.MethodPatch, path, sort, content)
}

func (b *bench) delete(path, content string) reply {
	b.t.Helper()
	return b.do(http.MethodDelete, path, inJSON, content)
}

// do sends a request, and reads the response.
func (b *bench) do(method, path, sort, content string, accept ...string) reply {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	r := b.request(ctx, method, path, sort, content, accept...)
	response, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		b.t.Fatal(err)
	}
	answer := reply{t: b.t, what: method + " " + path, code: response.StatusCode, raw: raw}
	_ = json.Unmarshal(raw, &answer.body) // a body that is not JSON has no members
	return answer
}

func (b *bench) request(ctx context.Context, method, path, sort, content string, accept ...string) *http.Request {
	b.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, b.config.Host+path, bytes.NewBufferString(content))
	if err != nil {
		b.t.Fatal(err)
	}
	if sort != "" && content != "" {
		r.Header.Set("Content-Type", sort)
	}
	r.Header.Set("Accept", inJSON)
	if len(accept) > 0 {
		r.Header.Set("Accept", strings.Join(accept, ","))
	}
	return r
}
