package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

// testMetadata: metadata can be read, listed, patched and watched without the rest of the objects.
func testMetadata(t *testing.T, b *bench) {
	b.configMap("a", "l=1")
	check := func(what, kind string, content map[string]any) {
		t.Helper()
		if content["kind"] != kind || content["apiVersion"] != "meta.k8s.io/v1" || content["data"] != nil {
			t.Errorf("%s: %v", what, content)
		}
	}
	one := b.get(b.configMaps()+"/a", onlyMetadata).is(http.StatusOK, "")
	check("object", "PartialObjectMetadata", one.body)
	if one.text("metadata", "labels", "l") != "1" {
		t.Errorf("object: %s", one.raw)
	}
	list := b.get(b.configMaps()+"?labelSelector=l", protobuf+";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;x=unknown", metadataList).is(http.StatusOK, "")
	if kind := list.text("kind"); kind != "PartialObjectMetadataList" && kind != "" {
		t.Errorf("list: %s", list.raw)
	}
	list = b.get(b.configMaps()+"?labelSelector=l", metadataList).is(http.StatusOK, "")
	check("list", "PartialObjectMetadataList", list.body)
	items, _ := list.at("items").([]any)
	for _, item := range items {
		item, _ := item.(map[string]any)
		check("item", "PartialObjectMetadata", item)
	}
	if list.names() != "a" {
		t.Errorf("list: %s", list.raw)
	}
	patched := b.do(http.MethodPatch, b.configMaps()+"/a", mergePatch, `{"metadata":{"labels":{"l":"2"}}}`, onlyMetadata).is(http.StatusOK, "")
	check("patch", "PartialObjectMetadata", patched.body)
	w := b.watch(b.configMaps(), "labelSelector=l", onlyMetadata)
	check("event", "PartialObjectMetadata", w.want("ADDED a").Object)
	b.delete(b.configMaps()+"/a", "")
	check("event", "PartialObjectMetadata", w.want("DELETED a").Object)
}

// testTable: tables, as kubectl get requests them, have the columns of the CustomResourceDefinition.
func testTable(t *testing.T, b *bench) {
	b.shoot("one")
	list := b.get(b.shoots()+"?limit=500", asKubectlGets).is(http.StatusOK, "")
	var table struct {
		Kind              string `json:"kind"`
		ColumnDefinitions []struct {
			Name string `json:"name"`
		} `json:"columnDefinitions"`
		Rows []struct {
			Cells  []any          `json:"cells"`
			Object map[string]any `json:"object"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(list.raw, &table); err != nil || table.Kind != "Table" || len(table.Rows) != 1 {
		t.Fatalf("%v: %s", err, list.raw)
	}
	var columns []string
	for _, c := range table.ColumnDefinitions {
		columns = append(columns, c.Name)
	}
	if got := strings.Join(columns, " "); got != "Name CredentialsBinding SecretBinding Region Age" {
		t.Errorf("columns: %s", got)
	}
	if got := fmt.Sprint(table.Rows[0].Cells[:4]); got != "[one <nil> <nil> eu]" {
		t.Errorf("cells: %s", got)
	}
	age, _ := table.Rows[0].Cells[4].(string)
	if _, err := time.ParseDuration(age); err != nil {
		t.Errorf("age: %v", table.Rows[0].Cells)
	}
	if table.Rows[0].Object["kind"] != "PartialObjectMetadata" {
		t.Errorf("object: %v", table.Rows[0].Object)
	}
	one := b.get(b.shoots()+"/one?includeObject=None", asKubectlGets).is(http.StatusOK, "")
	if one.text("kind") != "Table" || strings.Contains(string(one.raw), "PartialObjectMetadata") {
		t.Errorf("one: %s", one.raw)
	}
	b.configMap("map", "")
	if got := b.get(b.configMaps()+"/map", asKubectlGets).is(http.StatusOK, ""); !strings.Contains(string(got.raw), `"cells":["map",1,"`) && !strings.Contains(string(got.raw), `"cells":["map","1","`) {
		t.Errorf("ConfigMap: %s", got.raw)
	}
	w := b.watch(b.shoots(), "", asKubectlGets)
	if e, _ := w.any(); e.Type != "ADDED" || e.Object["kind"] != "Table" {
		t.Errorf("event: %+v", e)
	}
}

// testKubectlLabel: the requests of kubectl label succeed: it reads the whole object, and sends a merge patch.
func testKubectlLabel(t *testing.T, b *bench) {
	b.shoot("one")
	b.get(b.shoots()+"/one").is(http.StatusOK, "")
	got := b.patch(b.shoots()+"/one?fieldManager=kubectl-label", mergePatch, `{"metadata":{"labels":{"a":"b"}}}`).is(http.StatusOK, "")
	if got.text("metadata", "labels", "a") != "b" {
		t.Errorf("labelled: %s", got.raw)
	}
}

// testDiscovery: discovery maps kubectl's words to resources.
func testDiscovery(t *testing.T, b *bench) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(b.config, b.client)
	if err != nil {
		t.Fatal(err)
	}
	cached := memory.NewMemCacheClient(client)
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	for word, want := range map[string]string{
		"credentialsbindings": "security.gardener.cloud/v1alpha1, Resource=credentialsbindings",
		"cb":                  "security.gardener.cloud/v1alpha1, Resource=credentialsbindings",
		"shoot":               "core.gardener.cloud/v1beta1, Resource=shoots",
		"ipamconfigs":         "gardener.clusters.openmcp.cloud/v1alpha1, Resource=ipamconfigs",
		"cm":                  "/v1, Resource=configmaps",
		"ns":                  "/v1, Resource=namespaces",
	} {
		got, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: word})
		if err != nil || got.String() != want {
			t.Errorf("%s is %s, %v; want %s", word, got, err, want)
		}
	}
	shoots, err := mapper.RESTMapping(schema.GroupKind{Group: "core.gardener.cloud", Kind: "Shoot"})
	if err != nil || shoots.Scope.Name() != "namespace" {
		t.Errorf("Shoot: %+v, %v", shoots, err)
	}
	list, err := client.ServerResourcesForGroupVersion("core.gardener.cloud/v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range list.APIResources {
		if resource.Name == "shoots" && !slices.Contains(resource.Verbs, "watch") {
			t.Errorf("verbs of shoots: %v", resource.Verbs)
		}
	}
	if _, err := client.ServerVersion(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		if got := b.get(path, "*/*").is(http.StatusOK, ""); string(got.raw) != "ok" {
			t.Errorf("%s: %s", path, got.raw)
		}
	}
}

// testDefinition: a kind is served once its CustomResourceDefinition is created, and no longer once that is deleted.
func testDefinition(t *testing.T, b *bench) {
	const definitions, things = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/kubetest.example.org/v1/things"
	definition := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.kubetest.example.org"},
	"spec":{"group":"kubetest.example.org","scope":"Cluster","names":{"kind":"Thing","plural":"things","singular":"thing","listKind":"ThingList"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	b.get(things).is(http.StatusNotFound, "")
	b.post(definitions, strings.Replace(definition, "things.kubetest", "wrong.kubetest", 1)).is(http.StatusUnprocessableEntity, "Invalid")
	b.post(definitions, definition).is(http.StatusCreated, "")
	b.until("the kind is served", func() bool {
		return b.post(things, object("kubetest.example.org/v1", "Thing", "one", `"x":{"y":[1]}`)).code == http.StatusCreated
	})
	if list := b.get(things).is(http.StatusOK, ""); list.names() != "one" || list.text("kind") != "ThingList" {
		t.Errorf("list: %s", list.raw)
	}
	served := b.get(definitions+"/things.kubetest.example.org").is(http.StatusOK, "")
	if !strings.Contains(string(served.raw), `"Established"`) {
		t.Errorf("definition: %s", served.raw)
	}
	b.delete(definitions+"/things.kubetest.example.org", "").is(http.StatusOK, "")
	b.until("the kind is gone", func() bool { return b.get(things).code == http.StatusNotFound })
}

// until repeats a check until it holds, and fails the test after patience.
func (b *bench) until(what string, holds func() bool) {
	b.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(end) {
			b.t.Fatalf("it does not come about that %s", what)
		}
	}
}
