package wire_test

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.yaml.in/yaml/v3"

	"github.com/hap-worker/hap-worker/events"
)

// asyncAPI is the part of deploy/asyncapi.yaml that the code knows as well.
type asyncAPI struct {
	Version  string `yaml:"asyncapi"`
	Channels map[string]struct {
		Address    string
		Parameters map[string]any
		Messages   map[string]map[string]string
	}
	Operations map[string]struct {
		Action  string
		Channel map[string]string
		Reply   struct{ Channel map[string]string }
	}
	Components struct {
		Schemas  map[string]any
		Messages map[string]struct {
			Name     string
			Headers  map[string]string
			Payload  struct{ Schema any }
			Examples []struct {
				Headers map[string]string
				Payload map[string]any
			}
		}
	}
}

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// TestAsyncAPI compares the document with subjects, types and schemas: both name the same.
func TestAsyncAPI(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc asyncAPI
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Version != "3.0.0" {
		t.Errorf("asyncapi %s", doc.Version)
	}
	s, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[string]string{"reply": s.Reply("x", "x"), "releaseReply": s.BindingReply("x", "x")}
	for _, info := range events.Types() {
		kind := info.Type
		addresses[string(kind)] = s.Prefix() + "." + string(kind) + ".x"
	}
	for name, want := range addresses {
		channel := doc.Channels[name]
		if got := parameter.ReplaceAllString(channel.Address, "x"); got != want {
			t.Errorf("channel %s has the address %q, the code %q", name, got, want)
		}
		for _, p := range parameter.FindAllStringSubmatch(channel.Address, -1) {
			if channel.Parameters[p[1]] == nil {
				t.Errorf("channel %s does not describe %s", name, p[1])
			}
		}
	}
	if len(doc.Channels) != len(addresses) {
		t.Errorf("%d channels, the code has %d", len(doc.Channels), len(addresses))
	}
	for _, info := range events.Types() {
		kind := info.Type
		if o := doc.Operations[string(kind)]; o.Action != "receive" || o.Reply.Channel["$ref"] == "" {
			t.Errorf("operation %s: %+v", kind, o)
		}
		if m := doc.Components.Messages[string(kind)]; m.Name != "hap."+string(kind)+".v1" {
			t.Errorf("message %s is called %s", kind, m.Name)
		}
	}
	refs := regexp.MustCompile(`\$ref: '?([^'}\s]+)`).FindAllStringSubmatch(string(text), -1)
	var files []string
	for _, ref := range refs {
		if local, is := strings.CutPrefix(ref[1], "#/"); is {
			if !doc.has(strings.Split(local, "/")) {
				t.Errorf("%s is not there", ref[1])
			}
			continue
		}
		if _, err := os.Stat(filepath.Join("../../deploy", ref[1])); err != nil {
			t.Error(err)
		}
		files = append(files, filepath.Base(ref[1]))
	}
	schemas, err := events.Schemas.ReadDir("schema")
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range schemas {
		if !slices.Contains(files, schema.Name()) {
			t.Errorf("the schema %s is not referred to", schema.Name())
		}
	}
}

// TestEveryTypeHasItsRights: the permissions on NATS name the subjects of every type.
func TestEveryTypeHasItsRights(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../../deploy/nats/permissions.conf", "../../deploy/nats/shadow.conf"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range events.Types() {
			if !strings.Contains(string(text), `"hap.v1.`+string(info.Type)+`.*"`) {
				t.Errorf("%s allows nothing on the subjects of %s", file, info.Type)
			}
		}
	}
}

// has reports whether the target of a reference is in the document.
func (d asyncAPI) has(path []string) bool {
	switch {
	case path[0] == "components" && path[1] == "schemas":
		_, known := d.Components.Schemas[path[2]]
		return known
	case path[0] == "components":
		_, known := d.Components.Messages[path[2]]
		return known
	case len(path) == 2:
		_, known := d.Channels[path[1]]
		return known
	default:
		_, known := d.Channels[path[1]].Messages[path[3]]
		return known
	}
}

// TestAsyncAPIExamples: each message has an example, which the code takes.
func TestAsyncAPIExamples(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc asyncAPI
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	s, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range doc.Components.Messages {
		if m.Headers["$ref"] == "" || len(m.Examples) == 0 {
			t.Errorf("message %s has the headers %v and %d examples", name, m.Headers, len(m.Examples))
		}
		for _, example := range m.Examples {
			payload, err := json.Marshal(example.Payload)
			if err != nil {
				t.Fatal(err)
			}
			if name == "reply" {
				if _, err := events.DecodeReply(payload); err != nil {
					t.Errorf("the example of %s: %v", name, err)
				}
				continue
			}
			header := nats.Header{}
			for key, value := range example.Headers {
				header[key] = []string{value}
			}
			var data struct {
				Data struct{ GlobalAccountID, Binding, RuntimeID string }
			}
			if err := json.Unmarshal(payload, &data); err != nil {
				t.Fatal(err)
			}
			token := cmp.Or(data.Data.GlobalAccountID, data.Data.Binding, data.Data.RuntimeID)
			e, err := events.Decode(s.Prefix()+"."+name+"."+token, header, payload)
			if err != nil {
				t.Errorf("the example of %s: %v", name, err)
				continue
			}
			msg, err := events.Publication(s, e)
			if err != nil || msg.Header.Get("Nats-Msg-Id") != example.Headers["Nats-Msg-Id"] {
				t.Errorf("the example of %s has the id %s, the code %v, %v", name, example.Headers["Nats-Msg-Id"], msg, err)
			}
		}
	}
}
