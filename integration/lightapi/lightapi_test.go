package lightapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hap-worker/hap-worker/engine/leaktest"
	"github.com/hap-worker/hap-worker/integration/lightapi"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

const namespace = "garden-test"

// started is an API with a namespace.
func started(t *testing.T, o lightapi.Options) (*lightapi.Server, *rest.Config) {
	t.Helper()
	o.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	s, err := lightapi.New(o)
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	space := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	space.SetName(namespace)
	if _, err := objects(t, config).Resource(namespaces).Create(t.Context(), space, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return s, config
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// objects is a client whose connections end with the test.
func objects(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	api, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// maps are the ConfigMaps of the namespace.
func maps(t *testing.T, config *rest.Config) dynamic.ResourceInterface {
	t.Helper()
	return objects(t, config).Resource(configMaps).Namespace(namespace)
}

func create(t *testing.T, api dynamic.ResourceInterface, name, value string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"k": value}}}
	o.SetAPIVersion("v1")
	o.SetKind("ConfigMap")
	o.SetName(name)
	made, err := api.Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func write(t *testing.T, api dynamic.ResourceInterface, name, value string) *unstructured.Unstructured {
	t.Helper()
	patch := fmt.Sprintf(`{"data":{"k":%q}}`, value)
	o, err := api.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// next is the next event of a watch.
func next(t *testing.T, w watch.Interface) (watch.Event, bool) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case e, ok := <-w.ResultChan():
		return e, ok
	case <-timer.C:
		t.Fatal("nothing comes")
		return watch.Event{}, false
	}
}

// TestHistoryEnds: a request for a version that is no longer known gets an error, and the client lists anew;
// newer versions still work.
func TestHistoryEnds(t *testing.T) {
	t.Parallel()
	_, config := started(t, lightapi.Options{History: 8})
	api := maps(t, config)
	old := create(t, api, "a", "0").GetResourceVersion()
	create(t, api, "b", "0")
	first, err := api.List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil || first.GetContinue() == "" {
		t.Fatalf("%v: %+v", err, first)
	}
	var last string
	for n := range 8 {
		last = write(t, api, "a", fmt.Sprint("v", n)).GetResourceVersion()
	}
	if _, err := api.Watch(t.Context(), metav1.ListOptions{ResourceVersion: old}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from %s: %v", old, err)
	}
	if _, err := api.List(t.Context(), metav1.ListOptions{Limit: 1, Continue: first.GetContinue()}); !apierrors.IsResourceExpired(err) {
		t.Errorf("the next page of %s: %v", first.GetResourceVersion(), err)
	}
	if _, err := api.List(t.Context(), metav1.ListOptions{ResourceVersion: old, ResourceVersionMatch: metav1.ResourceVersionMatchExact}); !apierrors.IsResourceExpired(err) {
		t.Errorf("the list of %s: %v", old, err)
	}
	w, err := api.Watch(t.Context(), metav1.ListOptions{ResourceVersion: last})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	write(t, api, "a", "new")
	if e, _ := next(t, w); e.Type != watch.Modified {
		t.Errorf("a watch from the last version: %+v", e)
	}
}

// TestSlowWatcher: a client that does not read does not block writers. The changes that it missed are not
// kept: it is told that its version has expired, or is disconnected after a long time.
func TestSlowWatcher(t *testing.T) {
	t.Parallel()
	const history, size = 8, 128 << 10
	_, config := started(t, lightapi.Options{History: history})
	api := maps(t, config)
	version := create(t, api, "a", "").GetResourceVersion()
	slow := rest.CopyConfig(config)
	slow.NextProtos = []string{"http/1.1"} // HTTP/2 would read ahead
	client, err := rest.HTTPClientFor(slow)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		config.Host+"/api/v1/namespaces/"+namespace+"/configmaps?watch=true&resourceVersion="+version, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	// More than the buffers of the connection and the history hold.
	for n := range 10 * history {
		write(t, api, "a", fmt.Sprint(n)+strings.Repeat("x", size))
	}
	events, cut, lastType, last := 0, false, "", map[string]any{}
	decoder := json.NewDecoder(bufio.NewReader(response.Body))
	for {
		var e struct {
			Type   string
			Object map[string]any
		}
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if cut = errors.Is(err, io.ErrUnexpectedEOF); cut {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		lastType, last = e.Type, e.Object
		events++
	}
	if !cut && (lastType != "ERROR" || last["reason"] != "Expired") || events > 9*history {
		t.Errorf("after %d events of %d: %s %v", events, 10*history, lastType, last["reason"])
	}
}

// TestBookmarks: bookmarks tell an idle watch the present version.
func TestBookmarks(t *testing.T) {
	t.Parallel()
	_, config := started(t, lightapi.Options{Bookmarks: 20 * time.Millisecond})
	api := maps(t, config)
	create(t, api, "a", "0")
	w, err := api.Watch(t.Context(), metav1.ListOptions{AllowWatchBookmarks: true, LabelSelector: "nothing"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	seen := write(t, api, "a", "1").GetResourceVersion()
	for {
		e, ok := next(t, w)
		o, _ := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type != watch.Bookmark || o.GetKind() != "ConfigMap" {
			t.Fatalf("%+v", e)
		}
		if o.GetResourceVersion() == seen {
			return
		}
	}
}

// TestRestart: objects and address survive a stop and a crash. Both end the watches, and clients continue
// from their versions.
func TestRestart(t *testing.T) {
	t.Parallel()
	s, config := started(t, lightapi.Options{})
	api := maps(t, config)
	made := create(t, api, "a", "0")
	for name, end := range map[string]func() error{
		"stop": s.Stop,
		"kill": func() error { s.Kill(); return nil },
	} {
		w, err := api.Watch(t.Context(), metav1.ListOptions{ResourceVersion: made.GetResourceVersion()})
		if err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if e, ok := next(t, w); ok && e.Type != watch.Error {
			t.Errorf("%s: %+v", name, e)
		}
		w.Stop()
		if _, err := api.Get(t.Context(), "a", metav1.GetOptions{}); err == nil {
			t.Errorf("%s: it still answers", name)
		}
		if err := end(); err != nil {
			t.Errorf("%s twice: %v", name, err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		got, err := api.Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || got.GetUID() != made.GetUID() || got.GetResourceVersion() != made.GetResourceVersion() {
			t.Errorf("after the %s: %v %v", name, err, got)
		}
	}
}

// TestUnauthorized: without the token nothing is answered but that the API is there, and its version.
func TestUnauthorized(t *testing.T) {
	t.Parallel()
	versionTo := map[string]int{"": http.StatusOK, "wrong": http.StatusUnauthorized}
	_, config := started(t, lightapi.Options{})
	for _, token := range []string{"", "wrong"} {
		anyone := rest.AnonymousClientConfig(config)
		anyone.BearerToken = token
		if _, err := maps(t, anyone).List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			t.Errorf("token %q: %v", token, err)
		}
		client, err := rest.HTTPClientFor(anyone)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]int{"/readyz": http.StatusOK, "/version": versionTo[token], "/api": http.StatusUnauthorized} {
			response, err := client.Get(config.Host + path)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("token %q: %s is answered %s", token, path, response.Status)
			}
		}
		client.CloseIdleConnections()
	}
}

// TestOptions: what cannot work is refused before anything is started.
func TestOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []lightapi.Options{{}, {Kubeconfig: "x", Port: -1}, {Kubeconfig: "x", History: -1}, {Kubeconfig: "x", Bookmarks: -1}} {
		if _, err := lightapi.New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// TestNamespaceGoes: a namespace that is being deleted accepts no new objects. It exists until its finalizer
// is removed, which no controller does here.
func TestNamespaceGoes(t *testing.T) {
	t.Parallel()
	_, config := started(t, lightapi.Options{})
	api := objects(t, config)
	spaces := api.Resource(namespaces)
	if err := spaces.Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	going, err := spaces.Get(t.Context(), namespace, metav1.GetOptions{})
	if phase, _, _ := unstructured.NestedString(going.Object, "status", "phase"); err != nil || phase != "Terminating" {
		t.Errorf("%v: %v", err, going.Object)
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	o.SetName("late")
	if _, err := api.Resource(configMaps).Namespace(namespace).Create(t.Context(), o, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("created in a namespace that goes: %v", err)
	}
	if _, err := spaces.Patch(t.Context(), namespace, types.MergePatchType, []byte(`{"spec":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := spaces.Get(t.Context(), namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without its finalizer: %v", err)
	}
}

// TestStrategicLimits: strategic merge patches with lists or directives are refused, instead of merged
// differently from kube-apiserver.
func TestStrategicLimits(t *testing.T) {
	t.Parallel()
	_, config := started(t, lightapi.Options{})
	api := maps(t, config)
	create(t, api, "a", "0")
	for _, patch := range []string{`{"metadata":{"finalizers":["example.org/a"]}}`, `{"data":{"$patch":"replace"}}`} {
		_, err := api.Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		if !apierrors.IsUnsupportedMediaType(err) {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

// TestTokenOfAnotherAPI: a version from the future is an error, and the client lists anew.
func TestTokenOfAnotherAPI(t *testing.T) {
	t.Parallel()
	_, config := started(t, lightapi.Options{})
	api := maps(t, config)
	for what, do := range map[string]func() error{
		"watch": func() error {
			_, err := api.Watch(context.Background(), metav1.ListOptions{ResourceVersion: "18446744073709551615"})
			return err
		},
		"list": func() error {
			_, err := api.List(t.Context(), metav1.ListOptions{ResourceVersion: "18446744073709551615"})
			return err
		},
		"get": func() error {
			_, err := api.Get(t.Context(), "a", metav1.GetOptions{ResourceVersion: "18446744073709551615"})
			return err
		},
	} {
		if err := do(); !apierrors.IsTimeout(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := api.List(t.Context(), metav1.ListOptions{Continue: url.QueryEscape("!")})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("continue: %v", err)
	}
}
