package kubetest

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
)

// testListSelects: lists are selected by labels and names, sorted by name, in one namespace or in all.
func testListSelects(t *testing.T, b *bench) {
	b.configMap("c", "of="+b.namespace)
	b.configMap("a", "of="+b.namespace+",x=1")
	b.configMap("b", "x=2")
	of := "of=" + b.namespace
	for _, c := range []struct{ path, query, want string }{
		{b.configMaps(), "labelSelector=of", "a c"},
		{b.configMaps(), "labelSelector=" + url.QueryEscape("x in (1,2)"), "a b"},
		{b.configMaps(), "labelSelector=" + url.QueryEscape("x,!of"), "b"},
		{b.configMaps(), "labelSelector=x!=1,of", "c"},
		{b.configMaps(), "labelSelector=nothing", ""},
		{b.configMaps(), "fieldSelector=metadata.name=c", "c"},
		{b.configMaps(), "fieldSelector=metadata.name=c&labelSelector=x", ""},
		{"/api/v1/configmaps", "labelSelector=" + url.QueryEscape(of), "a c"},
		{"/api/v1/configmaps", "labelSelector=x&fieldSelector=metadata.namespace=" + b.namespace, "a b"},
	} {
		if got := b.get(c.path+"?"+c.query).is(http.StatusOK, "").names(); got != c.want {
			t.Errorf("%s has %q, want %q", c.query, got, c.want)
		}
	}
}

// testListPages: all pages belong to the list at the version of the first page.
func testListPages(t *testing.T, b *bench) {
	for n := range 5 {
		b.configMap(fmt.Sprint("m", n), "l=1")
	}
	query := b.configMaps() + "?labelSelector=l&limit=2"
	first := b.get(query).is(http.StatusOK, "")
	next := first.text("metadata", "continue")
	if first.names() != "m0 m1" || next == "" {
		t.Fatalf("first: %s", first.raw)
	}
	b.delete(b.configMaps()+"/m2", "").is(http.StatusOK, "")
	b.configMap("m25", "l=1")
	b.patch(b.configMaps()+"/m3", mergePatch, `{"metadata":{"labels":{"l":null}}}`).is(http.StatusOK, "")
	second := b.get(query+"&continue="+url.QueryEscape(next)).is(http.StatusOK, "")
	if second.names() != "m2 m3" || second.version() != first.version() {
		t.Errorf("second: %s of %s, first of %s", second.names(), second.version(), first.version())
	}
	third := b.get(query+"&continue="+url.QueryEscape(second.text("metadata", "continue"))).is(http.StatusOK, "")
	if third.names() != "m4" || third.text("metadata", "continue") != "" || third.version() != first.version() {
		t.Errorf("third: %s", third.raw)
	}
	if now := b.get(b.configMaps()+"?labelSelector=l").is(http.StatusOK, ""); now.names() != "m0 m1 m25 m4" || now.version() == first.version() {
		t.Errorf("now: %s", now.raw)
	}
	counted := b.get(b.shoots()+"?limit=1").is(http.StatusOK, "")
	if counted.at("metadata", "remainingItemCount") != nil {
		t.Errorf("nothing remains: %s", counted.raw)
	}
}

// testListVersions: a list may request the state at a version, or one that is at least as new.
func testListVersions(t *testing.T, b *bench) {
	b.configMap("a", "l=1")
	then := b.get(b.configMaps()+"?labelSelector=l").is(http.StatusOK, "").version()
	b.configMap("b", "l=1")
	for _, c := range []struct{ query, want string }{
		{"resourceVersion=" + then + "&resourceVersionMatch=Exact", "a"},
		{"resourceVersion=" + then + "&resourceVersionMatch=NotOlderThan", "a b"},
		{"resourceVersion=0", "a b"},
		{"", "a b"},
	} {
		got := b.get(b.configMaps()+"?labelSelector=l&"+c.query).is(http.StatusOK, "")
		// With NotOlderThan or version 0 the server may answer with a state before the last write, without b.
		if got.names() != c.want && (c.want != "a b" || c.query == "" || got.names() != "a") {
			t.Errorf("%q has %q, want %q", c.query, got.names(), c.want)
		}
	}
	b.get(b.configMaps()+"?resourceVersion=999999999999&resourceVersionMatch=NotOlderThan").is(http.StatusGatewayTimeout, "Timeout")
}
