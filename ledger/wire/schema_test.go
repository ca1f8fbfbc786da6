package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
	"github.com/hap-worker/hap-worker/events/eventstest"
)

// schemas compiles the schemas as they are delivered.
func schemas(t testing.TB) map[string]*jsonschema.Schema {
	t.Helper()
	files, err := fs.Glob(events.Schemas, "schema/*.json")
	if err != nil || len(files) != len(events.Types())+2 { // and envelope, reply
		t.Fatalf("schemas: %v, %v", files, err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	for _, file := range files {
		text, err := events.Schemas.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := compiler.AddResource(events.SchemaBase+strings.TrimPrefix(file, "schema/"), doc); err != nil {
			t.Fatal(err)
		}
	}
	compiled := map[string]*jsonschema.Schema{}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "schema/"), ".json")
		if compiled[name], err = compiler.Compile(events.SchemaBase + name + ".json"); err != nil {
			t.Fatal(err)
		}
	}
	return compiled
}

// decodeData decodes the data in a valid envelope.
func decodeData(kind string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	members, _ := data.(map[string]any)
	id, token := "req-1", "unknown"
	if kind == "reply" {
		id = textOr(members["requestID"], "") + "/" + textOr(members["status"], "")
	} else {
		token = contract.Token(textOr(members[events.Type(kind).Info().Token], token))
	}
	message := fmt.Appendf(nil, `{"specversion":"1.0","id":%q,"source":"/s","type":"hap.%s.v1","data":%s}`, id, kind, text)
	if kind == "reply" {
		_, err = events.DecodeReply(message)
	} else {
		_, err = events.Decode("hap.v1."+kind+"."+token, nil, message)
	}
	return err
}

func textOr(value any, other string) string {
	if text, ok := value.(string); ok && text != "" {
		return text
	}
	return other
}

// odd are values that one reader may accept and another refuse.
var odd = []any{
	nil, true, false, "", "x", "x ", "a.b", "-a", "a-", "a_b", "A1", "ä", "\x00", "a\n", strings.Repeat("x", 63), strings.Repeat("x", 64),
	strings.Repeat("x", 253), strings.Repeat("x", 254), strings.Repeat("ä", 253), strings.Repeat("a.", 126) + "a",
	"_INBOX", "_INBOX.", "_INBOX.a", "_INBOX.a.b", "_INBOX..a", "_INBOX.a.", "_INBOX.*", "_INBOX.a>", "_INBOX.ä", "_INBOX.a b", "_inbox.a",
	"_INBOX." + strings.Repeat("x", 248), "_INBOX." + strings.Repeat("x", 249), "_INBOX.$,+/<?",
	"2026-11-20T12:00:00Z", "2026-11-20t12:00:00z", "2026-11-20 12:00:00Z", "2026-11-20T12:00:00", "2026-11-20T12:00:00+01:00",
	"2026-11-20T12:00:00.5Z", "2026-11-20T12:00:00,5Z", "2026-11-20T12:00:00.1234567891Z", "2026-11-20T12:00:60Z", "2026-11-20T24:00:00Z",
	"2026-02-29T12:00:00Z", "2028-02-29T12:00:00Z", "2026-00-20T12:00:00Z", "2026-1-20T12:00:00Z", "2026-11-20T1:00:00Z", "0000-01-01T00:00:00Z",
	"2026-11-20T12:00:00+24:00", "2026-11-20T12:00:00-23:59", "2026-11-20T12:00:00+01:60", "2026-11-20T12:00:00.Z", "0001-01-01T00:00:00Z",
	json.Number("0"), json.Number("-0"), json.Number("3"), json.Number("3.0"), json.Number("3.5"), json.Number("-1"), json.Number("30e-1"), json.Number("0.3E+1"),
	json.Number("9007199254740991"), json.Number("9007199254740992"), json.Number("9007199254740991.5"), json.Number("0.99999999999999999999"),
	json.Number("1e15"), json.Number("1e16"), json.Number("12345678901234567890"), json.Number("0e99"), json.Number("1e-400"),
	[]any{}, []any{"a"}, []any{nil}, []any{json.Number("1")}, map[string]any{}, map[string]any{"a": "b"}, map[string]any{"a": nil},
	map[string]any{"path": "x"}, map[string]any{"path": ""}, map[string]any{"name": "x"}, []any{map[string]any{}},
	"assigned", "waiting", "released", "returned", "resolved", "rejected", "sealed", "Assigned",
}

// same fails if Go and the schema disagree about the data.
func same(t interface{ Fatalf(string, ...any) }, schema *jsonschema.Schema, kind string, data any) {
	bySchema, byGo := schema.Validate(data), decodeData(kind, data)
	if (bySchema == nil) != (byGo == nil) {
		text, _ := json.Marshal(data)
		t.Fatalf("%s data %s\nschema: %v\nGo:     %v", kind, text, bySchema, byGo)
	}
}

// TestSchemaEveryMember sets each member, at every depth, to each odd value, and removes it.
func TestSchemaEveryMember(t *testing.T) {
	t.Parallel()
	compiled := schemas(t)
	for kind, text := range eventstest.Full {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			accepted, refused := 0, 0
			try := func(data any) {
				same(t, compiled[kind], kind, data)
				if decodeData(kind, data) == nil {
					accepted++
				} else {
					refused++
				}
			}
			for _, place := range places(parse(t, text)) {
				for _, value := range odd {
					data := parse(t, text)
					change(data, place, value)
					try(data)
				}
				data := parse(t, text)
				remove(data, place)
				try(data)
			}
			if accepted < 20 || refused < 20 {
				t.Errorf("%d accepted and %d refused show nothing", accepted, refused)
			}
		})
	}
}

// TestSchemaRandom changes several members at once.
func TestSchemaRandom(t *testing.T) {
	t.Parallel()
	compiled := schemas(t)
	kinds := slices.Sorted(maps.Keys(eventstest.Full))
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		data := parse(t, eventstest.Full[kind])
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			all := places(data)
			if len(all) == 0 {
				break
			}
			place := rapid.SampledFrom(all).Draw(t, "place")
			if rapid.Bool().Draw(t, "remove") {
				remove(data, place)
				continue
			}
			change(data, place, rapid.OneOf(rapid.SampledFrom(odd), rapid.Map(rapid.String(), func(s string) any { return s })).Draw(t, "value"))
		}
		same(t, compiled[kind], kind, data)
	})
}

// TestSchemaEnvelope does to the envelope what TestSchemaEveryMember does to data.
func TestSchemaEnvelope(t *testing.T) {
	t.Parallel()
	schema := schemas(t)["envelope"]
	text := `{"specversion":"1.0","id":"req-1","source":"/s","type":"hap.deprovision.v1","traceparent":"p","tracestate":"s","replayof":"r",
		"data":{"runtimeID":"rt-1"}}`
	values := append([]any{"1.0", "0.3", "hap.provision.v1", "hap.resolve.v1", "hap.reply.v1", "hap.other.v1"}, odd...)
	check := func(data any) {
		message, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		bySchema := schema.Validate(data)
		_, byGo := events.Decode("hap.v1.deprovision.unknown", nil, message)
		if (bySchema == nil) != (byGo == nil) {
			t.Fatalf("message %s\nschema: %v\nGo:     %v", message, bySchema, byGo)
		}
	}
	for _, place := range places(parse(t, text)) {
		for _, value := range values {
			data := parse(t, text)
			change(data, place, value)
			check(data)
		}
		data := parse(t, text)
		remove(data, place)
		check(data)
	}
}

type fataler interface{ Fatal(...any) }

func parse(t fataler, text string) any {
	data, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// places are the paths of all members and elements below data.
func places(data any) [][]any {
	var found [][]any
	add := func(key, value any) {
		found = append(found, []any{key})
		for _, place := range places(value) {
			found = append(found, append([]any{key}, place...))
		}
	}
	switch data := data.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(data)) {
			add(key, data[key])
		}
	case []any:
		for i, value := range data {
			add(i, value)
		}
	}
	return found
}

// change puts another value there: another change may go into it.
func change(data any, place []any, value any) {
	switch data := data.(type) {
	case map[string]any:
		if key := place[0].(string); len(place) == 1 {
			data[key] = copied(value)
		} else {
			change(data[key], place[1:], value)
		}
	case []any:
		if i := place[0].(int); len(place) == 1 {
			data[i] = copied(value)
		} else {
			change(data[i], place[1:], value)
		}
	}
}

func copied(value any) any {
	switch value := value.(type) {
	case map[string]any:
		own := make(map[string]any, len(value))
		for key, member := range value {
			own[key] = copied(member)
		}
		return own
	case []any:
		own := make([]any, len(value))
		for i, element := range value {
			own[i] = copied(element)
		}
		return own
	default:
		return value
	}
}

func remove(data any, place []any) {
	switch data := data.(type) {
	case map[string]any:
		if key := place[0].(string); len(place) == 1 {
			delete(data, key)
		} else {
			remove(data[key], place[1:])
		}
	case []any:
		if len(place) > 1 {
			remove(data[place[0].(int)], place[1:])
		}
	}
}

// The message with which the schema is tested has every member of a reply, and the schema describes
// each.
func TestSchemaIsComplete(t *testing.T) {
	t.Parallel()
	var reply events.Reply
	if err := json.Unmarshal([]byte(eventstest.Full["reply"]), &reply); err != nil {
		t.Fatal(err)
	}
	everythingSet(t, "reply", reflect.ValueOf(reply))
	text, err := events.Schemas.ReadFile("schema/reply.json")
	if err != nil {
		t.Fatal(err)
	}
	described(t, "reply", parse(t, eventstest.Full["reply"]), parse(t, string(text)))
}

// everythingSet fails for every member that is the zero value.
func everythingSet(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch {
	case v.IsZero() && v.Kind() != reflect.Bool && !strings.HasSuffix(path, ".ID"):
		t.Errorf("%s is not set", path)
	case v.Kind() == reflect.Pointer:
		everythingSet(t, path, v.Elem())
	case v.Kind() == reflect.Slice:
		everythingSet(t, path, v.Index(0))
	case v.Kind() == reflect.Struct && v.Type().PkgPath() != "time":
		for i := range v.NumField() {
			everythingSet(t, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
}

// described fails for every member that the schema has no description of.
func described(t *testing.T, path string, data, schema any) {
	t.Helper()
	rules, _ := schema.(map[string]any)
	if _, elsewhere := rules["$ref"]; elsewhere {
		return
	}
	if rules["additionalProperties"] == true {
		return // its members are not the contract's, but another document's
	}
	switch data := data.(type) {
	case map[string]any:
		members, _ := rules["properties"].(map[string]any)
		for name, value := range data {
			if members[name] == nil {
				t.Errorf("the schema does not describe %s.%s", path, name)
				continue
			}
			described(t, path+"."+name, value, members[name])
		}
	case []any:
		described(t, path, data[0], rules["items"])
	}
}
