package kubetest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// testCreate: the server sets uid, version, timestamp and, for a custom kind, generation, and keeps unknown fields of
// a custom kind. It refuses objects that exist, and objects in a namespace that does not exist.
func testCreate(t *testing.T, b *bench) {
	made := b.shoot("one")
	if made.version() == "" || made.text("metadata", "uid") == "" || made.text("metadata", "creationTimestamp") == "" || made.text("metadata", "generation") != "1" {
		t.Errorf("metadata: %s", made.raw)
	}
	if made.text("spec", "further", "a") != "1" || made.text("metadata", "namespace") != b.namespace {
		t.Errorf("content: %s", made.raw)
	}
	shoot := object("core.gardener.cloud/v1beta1", "Shoot", "one", "")
	b.post(b.shoots(), shoot).is(http.StatusConflict, "AlreadyExists")
	b.post(strings.Replace(b.shoots(), b.namespace, "nowhere", 1), shoot).is(http.StatusNotFound, "NotFound")
	generated := b.post(b.configMaps(), `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"some-"}}`).is(http.StatusCreated, "")
	if name := generated.text("metadata", "name"); !strings.HasPrefix(name, "some-") || len(name) != len("some-")+5 {
		t.Errorf("generated name %q", name)
	}
	if generated.at("metadata", "generation") != nil {
		t.Errorf("a ConfigMap has a generation: %s", generated.raw)
	}
	b.post(b.configMaps()+"?dryRun=All", configMap("dry", "")).is(http.StatusCreated, "")
	b.get(b.configMaps()+"/dry").is(http.StatusNotFound, "NotFound")
	secret := b.post("/api/v1/namespaces/"+b.namespace+"/secrets", object("v1", "Secret", "s", `"stringData":{"k":"v"}`)).is(http.StatusCreated, "")
	if secret.text("data", "k") != "dg==" || secret.text("type") != "Opaque" || secret.at("stringData") != nil {
		t.Errorf("Secret: %s", secret.raw)
	}
}

// testUpdate: an update replaces only the version that it names, and an update of a custom kind has to name one.
// Without a change, the version stays.
func testUpdate(t *testing.T, b *bench) {
	made := b.shoot("one")
	path := b.shoots() + "/one"
	body := func(version, region string) string {
		return fmt.Sprintf(`{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Shoot","metadata":{"name":"one","resourceVersion":%q},"spec":{"region":%q}}`, version, region)
	}
	b.put(path, body("", "us")).is(http.StatusUnprocessableEntity, "Invalid")
	changed := b.put(path, body(made.version(), "us")).is(http.StatusOK, "")
	if changed.version() == made.version() || changed.text("metadata", "generation") != "2" ||
		changed.text("metadata", "uid") != made.text("metadata", "uid") || changed.at("spec", "further") != nil {
		t.Errorf("changed: %s", changed.raw)
	}
	b.put(path, body(made.version(), "cn")).is(http.StatusConflict, "Conflict")
	if same := b.put(path, body(changed.version(), "us")).is(http.StatusOK, ""); same.version() != changed.version() {
		t.Errorf("an update without a change goes from %s to %s", changed.version(), same.version())
	}
	b.put(b.shoots()+"/none", strings.Replace(body("1", "us"), `"one"`, `"none"`, 1)).is(http.StatusNotFound, "NotFound")
	b.put(b.shoots()+"/other", body(changed.version(), "us")).is(http.StatusBadRequest, "BadRequest")

	b.configMap("map", "")
	// A built-in kind may be replaced without a version.
	b.put(b.configMaps()+"/map", configMap("map", "a=b")).is(http.StatusOK, "")
}

// testPatch: merge patches, with and without a resourceVersion, JSON patches, and refused ones.
func testPatch(t *testing.T, b *bench) {
	made := b.shoot("one")
	path := b.shoots() + "/one"
	labelled := b.patch(path, mergePatch, fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"labels":{"a":"b"}}}`, made.version())).is(http.StatusOK, "")
	if labelled.text("metadata", "labels", "a") != "b" || labelled.text("metadata", "generation") != "1" || labelled.version() == made.version() {
		t.Errorf("labelled: %s", labelled.raw)
	}
	b.patch(path, mergePatch, fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"labels":{"a":"c"}}}`, made.version())).is(http.StatusConflict, "Conflict")
	if same := b.patch(path, mergePatch, `{"metadata":{"labels":{"a":"b"}}}`).is(http.StatusOK, ""); same.version() != labelled.version() {
		t.Errorf("a patch without a change goes from %s to %s", labelled.version(), same.version())
	}
	bare := b.patch(path, mergePatch, `{"metadata":{"labels":{"a":null}},"spec":{"further":null}}`).is(http.StatusOK, "")
	if bare.at("metadata", "labels", "a") != nil || bare.at("spec", "further") != nil || bare.text("metadata", "generation") != "2" {
		t.Errorf("bare: %s", bare.raw)
	}
	b.patch(path, jsonPatch, `[{"op":"test","path":"/spec/region","value":"us"},{"op":"add","path":"/spec/x","value":1}]`).is(http.StatusUnprocessableEntity, "")
	moved := b.patch(path, jsonPatch, `[{"op":"test","path":"/spec/region","value":"eu"},{"op":"replace","path":"/spec/region","value":"us"}]`).is(http.StatusOK, "")
	if moved.text("spec", "region") != "us" {
		t.Errorf("moved: %s", moved.raw)
	}
	b.patch(path, mergePatch, `{"metadata":{"labels":{"a":"not a value!"}}}`).is(http.StatusUnprocessableEntity, "Invalid")
	b.patch(path, mergePatch, `{"metadata":{"name":"two"}}`).is(http.StatusBadRequest, "BadRequest")
	b.patch(path, mergePatch, `{"metadata":{"labels":`).is(http.StatusBadRequest, "BadRequest")
	b.patch(path, jsonPatch, `{"not":"a list"}`).is(http.StatusBadRequest, "BadRequest")
	b.patch(path, strategic, `{"metadata":{"labels":{"a":"b"}}}`).is(http.StatusUnsupportedMediaType, "UnsupportedMediaType")
	b.patch(b.shoots()+"/none", mergePatch, `{}`).is(http.StatusNotFound, "NotFound")
	if after := b.get(path).is(http.StatusOK, ""); after.version() != moved.version() {
		t.Errorf("what was refused has changed it: %s", after.raw)
	}
}

// testStrategicPatch: built-in kinds accept the patches that kubectl apply sends.
func testStrategicPatch(t *testing.T, b *bench) {
	b.configMap("map", "a=b")
	got := b.patch(b.configMaps()+"/map", strategic, `{"data":{"k":null,"n":"w"},"metadata":{"labels":{"c":"d"}}}`).is(http.StatusOK, "")
	if got.at("data", "k") != nil || got.text("data", "n") != "w" || got.text("metadata", "labels", "a") != "b" || got.text("metadata", "labels", "c") != "d" {
		t.Errorf("patched: %s", got.raw)
	}
}

// testApply: an applied configuration creates an object, or is merged into it.
func testApply(t *testing.T, b *bench) {
	path := b.configMaps() + "/map"
	b.patch(path, applyPatch, configMap("map", "")).is(http.StatusUnprocessableEntity, "Invalid") // no field manager
	path += "?fieldManager=test&force=true"
	made := b.patch(path, applyPatch, configMap("map", "a=b")).is(http.StatusCreated, "")
	again := b.patch(path, applyPatch, configMap("map", "a=b")).is(http.StatusOK, "")
	if made.version() != again.version() {
		t.Errorf("applied again, it goes from %s to %s", made.version(), again.version())
	}
	b.patch(b.configMaps()+"/map", mergePatch, `{"data":{"other":"kept"}}`).is(http.StatusOK, "")
	got := b.patch(path, applyPatch, `{"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "w"}, "metadata": {"labels": {"a": "c"}}}`).is(http.StatusOK, "")
	if got.text("data", "other") != "kept" || got.text("data", "k") != "w" || got.text("metadata", "labels", "a") != "c" {
		t.Errorf("applied: %s", got.raw)
	}
	// Fields that a manager no longer applies are removed; fields that others wrote are kept.
	apply := func(content string) reply {
		return b.patch(b.shoots()+"/one?fieldManager=test&force=true", applyPatch,
			object("core.gardener.cloud/v1beta1", "Shoot", "one", `"spec":`+content)).is(http.StatusOK, "")
	}
	b.shoot("one")
	apply(`{"of":{"foo":["1"],"zoo":["2"]},"list":[1,2],"gone":{"a":{"b":1}}}`)
	b.patch(b.shoots()+"/one", mergePatch, `{"spec":{"of":{"bar":["3"]}}}`).is(http.StatusOK, "")
	got = apply(`{"of":{"zoo":["2"]},"list":[3]}`)
	if content := fmt.Sprint(got.at("spec")); content != "map[further:map[a:1] list:[3] of:map[bar:[3] zoo:[2]] region:eu]" {
		t.Errorf("applied without foo: %s", content)
	}
	b.patch(path, applyPatch, configMap("else", "")).is(http.StatusBadRequest, "BadRequest")
}

// testStatus: the status of a custom kind is written only at its own path, and the spec is not written there.
func testStatus(t *testing.T, b *bench) {
	made := b.post(b.shoots(), object("core.gardener.cloud/v1beta1", "Shoot", "one", `"status":{"x":1},"spec":{}`)).is(http.StatusCreated, "")
	if made.at("status") != nil {
		t.Errorf("a new object has the status that it was sent with: %s", made.raw)
	}
	path := b.shoots() + "/one"
	got := b.patch(path+"/status", mergePatch, `{"status":{"x":2},"spec":{"region":"eu"}}`).is(http.StatusOK, "")
	if got.text("status", "x") != "2" || got.at("spec", "region") != nil || got.text("metadata", "generation") != "1" {
		t.Errorf("status: %s", got.raw)
	}
	got = b.patch(path, mergePatch, `{"status":{"x":3},"spec":{"region":"eu"}}`).is(http.StatusOK, "")
	if got.text("status", "x") != "2" || got.text("spec", "region") != "eu" {
		t.Errorf("object: %s", got.raw)
	}
	b.patch(b.configMaps()+"/none/status", mergePatch, `{}`).is(http.StatusNotFound, "")
}

// testDelete: with a precondition, only the object that was read is deleted.
func testDelete(t *testing.T, b *bench) {
	made := b.shoot("one")
	path := b.shoots() + "/one"
	options := func(name, value string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{%q:%q}}`, name, value)
	}
	b.delete(path, options("uid", "another")).is(http.StatusConflict, "Conflict")
	b.delete(path, options("resourceVersion", "1")).is(http.StatusConflict, "Conflict")
	b.delete(path+"?dryRun=All", "").is(http.StatusOK, "")
	b.get(path).is(http.StatusOK, "")
	gone := b.delete(path, options("uid", made.text("metadata", "uid"))).is(http.StatusOK, "")
	if gone.text("kind") != "Status" || gone.text("status") != "Success" {
		t.Errorf("deleted: %s", gone.raw)
	}
	b.get(path).is(http.StatusNotFound, "NotFound")
	b.delete(path, "").is(http.StatusNotFound, "NotFound")
	if again := b.shoot("one"); again.text("metadata", "uid") == made.text("metadata", "uid") {
		t.Error("made again, it has the uid that it had")
	}
}

// testFinalizers: a deleted object exists until its last finalizer is removed.
func testFinalizers(t *testing.T, b *bench) {
	b.shoot("one")
	path := b.shoots() + "/one"
	b.patch(path, mergePatch, `{"metadata":{"finalizers":["example.org/a"]}}`).is(http.StatusOK, "")
	kept := b.delete(path, "").is(http.StatusOK, "")
	if kept.text("metadata", "deletionTimestamp") == "" || kept.text("kind") != "Shoot" {
		t.Errorf("kept: %s", kept.raw)
	}
	if again := b.delete(path, "").is(http.StatusOK, ""); again.version() != kept.version() {
		t.Errorf("deleted again, it goes from %s to %s", kept.version(), again.version())
	}
	b.patch(path, mergePatch, `{"metadata":{"finalizers":["example.org/a","example.org/b"]}}`).is(http.StatusUnprocessableEntity, "Invalid")
	b.patch(path, mergePatch, `{"metadata":{"finalizers":null}}`).is(http.StatusOK, "")
	b.get(path).is(http.StatusNotFound, "NotFound")
}

func testDeleteCollection(t *testing.T, b *bench) {
	b.configMap("one", "a=b")
	b.configMap("two", "a=b")
	b.configMap("three", "")
	b.delete(b.configMaps()+"?labelSelector=a", "").is(http.StatusOK, "")
	if left := b.get(b.configMaps()+"?fieldSelector=metadata.name!=kube-root-ca.crt").is(http.StatusOK, "").names(); left != "three" {
		t.Errorf("left: %s", left)
	}
}

// testRefusals: requests that the server refuses, and its errors.
func testRefusals(t *testing.T, b *bench) {
	maps := b.configMaps()
	for _, c := range []struct {
		name, method, path, sort, content, accept string
		code                                      int
		reason                                    string
	}{
		{"no such object", http.MethodGet, maps + "/none", "", "", "", 404, "NotFound"},
		{"no such kind", http.MethodGet, "/apis/core.gardener.cloud/v1beta1/nothings", "", "", "", 404, ""},
		{"no such group", http.MethodGet, "/apis/example.org/v1/things", "", "", "", 404, ""},
		{"no such path", http.MethodGet, "/what", "", "", "", 404, ""},
		{"method", http.MethodPut, maps, inJSON, configMap("x", ""), "", 405, "MethodNotAllowed"},
		{"media type of a body", http.MethodPost, b.shoots(), "text/plain", "k8s", "", 415, "UnsupportedMediaType"},
		{"media type of a patch", http.MethodPatch, b.shoots() + "/x", inJSON, "{}", "", 415, "UnsupportedMediaType"},
		{"no JSON", http.MethodPost, maps, inJSON, "{", "", 400, "BadRequest"},
		{"another kind", http.MethodPost, maps, inJSON, object("v1", "Secret", "x", ""), "", 400, "BadRequest"},
		{"another namespace", http.MethodPost, maps, inJSON, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"default"}}`, "", 400, "BadRequest"},
		{"no name", http.MethodPost, maps, inJSON, `{"apiVersion":"v1","kind":"ConfigMap"}`, "", 422, "Invalid"},
		{"bad name", http.MethodPost, maps, inJSON, configMap("Not_a name", ""), "", 422, "Invalid"},
		{"bad label", http.MethodPost, maps, inJSON, configMap("x", "a=not/a value"), "", 422, "Invalid"},
		{"label of a number", http.MethodPost, b.shoots(), inJSON, `{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Shoot","metadata":{"name":"x","labels":{"a":1}}}`, "", 400, "BadRequest"},
		{"too large", http.MethodPost, maps, inJSON, configMap("x", "a="+strings.Repeat("x", 3<<20)), "", 413, "RequestEntityTooLarge"},
		{"selector", http.MethodGet, maps + "?labelSelector=a%20b%20c", "", "", "", 400, "BadRequest"},
		{"field", http.MethodGet, maps + "?fieldSelector=data.k=v", "", "", "", 400, "BadRequest"},
		{"continue", http.MethodGet, maps + "?limit=1&continue=nonsense", "", "", "", 400, "BadRequest"},
		{"version", http.MethodGet, maps + "?resourceVersion=nonsense", "", "", "", 400, ""},
		{"match without version", http.MethodGet, maps + "?resourceVersionMatch=Exact", "", "", "", 422, "Invalid"},
		{"events of a list", http.MethodGet, maps + "?sendInitialEvents=true", "", "", "", 422, "Invalid"},
		{"form", http.MethodGet, b.shoots(), "", "", "application/json;as=Nothing;g=meta.k8s.io;v=v1", 406, "NotAcceptable"},
		{"list of an object", http.MethodGet, b.shoots(), "", "", onlyMetadata, 406, "NotAcceptable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := *b
			in.t = t
			var accept []string
			if c.accept != "" {
				accept = []string{c.accept}
			}
			in.do(c.method, c.path, c.sort, c.content, accept...).is(c.code, c.reason)
		})
	}
}
