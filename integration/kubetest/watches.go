package kubetest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// watched is an open watch.
type watched struct {
	t      *testing.T
	events chan event
}

// event is an event of a watch.
type event struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

func (e event) name() string    { return text(e.Object, "metadata", "name") }
func (e event) version() string { return text(e.Object, "metadata", "resourceVersion") }

func text(content map[string]any, path ...string) string {
	value, _ := at(content, path...).(string)
	return value
}

// watch starts a watch, which ends with the test at the latest.
func (b *bench) watch(path, query string, accept ...string) *watched {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	response, err := b.client.Do(b.request(ctx, http.MethodGet, path+"?watch=true&"+query, "", "", accept...)) //nolint:bodyclose // the goroutine below closes it
	if err != nil {
		b.t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		content, _ := io.ReadAll(response.Body)
		b.t.Fatalf("the watch %s is answered %s: %s", query, response.Status, content)
	}
	w := &watched{t: b.t, events: make(chan event, 100)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := w.read(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil && ctx.Err() == nil {
			w.t.Error(err)
		}
	}()
	b.t.Cleanup(func() {
		cancel()
		<-ended
	})
	return w
}

// read reads events until the end.
func (w *watched) read(from io.Reader) error {
	defer close(w.events)
	decoder := json.NewDecoder(from)
	for {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		w.events <- e
	}
}

// next returns the next event that is not a bookmark.
func (w *watched) next() event {
	w.t.Helper()
	for {
		e, ok := w.any()
		if !ok {
			w.t.Fatal("the watch has ended")
		}
		if e.Type != "BOOKMARK" {
			return e
		}
	}
}

func (w *watched) any() (event, bool) {
	w.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case e, ok := <-w.events:
		return e, ok
	case <-timer.C:
		w.t.Fatal("nothing comes")
		return event{}, false
	}
}

// want fails the test unless the next events are these, such as "ADDED a, MODIFIED b". It returns the last one.
func (w *watched) want(events string) (last event) {
	w.t.Helper()
	for want := range strings.SplitSeq(events, ", ") {
		last = w.next()
		if got := last.Type + " " + last.name(); got != want {
			w.t.Fatalf("got %s, want %s of %s\n%v", got, want, events, last.Object)
		}
	}
	return last
}

// testWatchSelects: an object that starts to match the selector is added; one that stops matching is deleted.
func testWatchSelects(t *testing.T, b *bench) {
	b.configMap("a", "l=1")
	b.configMap("b", "")
	version := b.get(b.configMaps()).version()
	w := b.watch(b.configMaps(), "labelSelector=l&resourceVersion="+version)
	named := b.watch("/api/v1/configmaps", "fieldSelector=metadata.name=b,metadata.namespace="+b.namespace+"&resourceVersion="+version)
	label := func(name, labels string) reply {
		return b.patch(b.configMaps()+"/"+name, mergePatch, `{"metadata":{"labels":`+labels+`}}`).is(http.StatusOK, "")
	}
	label("b", `{"l":"1"}`)
	label("a", `{"l":"2"}`)
	left := label("b", `{"l":null}`)
	b.patch(b.configMaps()+"/b", mergePatch, `{"data":{"k":"not seen"}}`)
	b.delete(b.configMaps()+"/a", "").is(http.StatusOK, "")
	b.delete(b.configMaps()+"/b", "").is(http.StatusOK, "")
	b.configMap("c", "l=1")
	w.want("ADDED b, MODIFIED a")
	if e := w.want("DELETED b"); e.version() != left.version() || text(e.Object, "metadata", "labels", "l") != "1" {
		t.Errorf("what left is %v, want as it was inside, of version %s", e.Object, left.version())
	}
	if e := w.want("DELETED a"); text(e.Object, "metadata", "labels", "l") != "2" || e.version() == "" {
		t.Errorf("what was deleted is %v", e.Object)
	}
	w.want("ADDED c")
	named.want("MODIFIED b, MODIFIED b, MODIFIED b, DELETED b")
}

// testWatchFromVersion: a watch continues after a version. Without a version, or with version 0, it begins with
// the existing objects.
func testWatchFromVersion(t *testing.T, b *bench) {
	b.configMap("a", "l=1")
	version := b.get(b.configMaps()).version()
	b.configMap("b", "l=1")
	changed := b.patch(b.configMaps()+"/a", mergePatch, `{"data":{"k":"w"}}`).is(http.StatusOK, "")
	if e := b.watch(b.configMaps(), "labelSelector=l&resourceVersion="+version).want("ADDED b, MODIFIED a"); e.version() != changed.version() {
		t.Errorf("version %s, want %s", e.version(), changed.version())
	}
	for _, query := range []string{"labelSelector=l", "labelSelector=l&resourceVersion=0"} {
		b.watch(b.configMaps(), query).want("ADDED a, ADDED b")
	}
}

// testWatchBegins: with sendInitialEvents, a watch replaces a list, and a bookmark marks the end of the
// existing objects.
func testWatchBegins(t *testing.T, b *bench) {
	b.configMap("a", "l=1")
	last := b.configMap("b", "l=1")
	w := b.watch(b.configMaps(), "labelSelector=l&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	w.want("ADDED a, ADDED b")
	e, _ := w.any()
	if e.Type != "BOOKMARK" || text(e.Object, "metadata", "annotations", "k8s.io/initial-events-end") != "true" || e.version() < last.version() || text(e.Object, "kind") != "ConfigMap" {
		t.Errorf("after what there is: %+v", e)
	}
	b.configMap("c", "l=1")
	w.want("ADDED c")
	b.get(b.configMaps()+"?watch=true&sendInitialEvents=true").is(http.StatusUnprocessableEntity, "Invalid")
}

// testWatchEnds: a watch ends without an error after timeoutSeconds.
func testWatchEnds(t *testing.T, b *bench) {
	w := b.watch(b.configMaps(), "labelSelector=l&timeoutSeconds=1")
	if e, ok := w.any(); ok {
		t.Errorf("it has %+v", e)
	}
}
