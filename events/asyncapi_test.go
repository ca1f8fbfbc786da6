package events_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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
		Messages map[string]struct {
			Name    string
			Payload struct{ Schema any }
		}
	}
}

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// TestAsyncAPI holds the document to subjects, types and schemas: nothing is missing
// in it, nothing is named that is not there.
func TestAsyncAPI(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../deploy/asyncapi.yaml")
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
	for _, kind := range typesInOrder() {
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
	for _, kind := range typesInOrder() {
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
		if _, err := os.Stat(filepath.Join("../deploy", ref[1])); err != nil {
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

// has reports whether the document has what a reference of its own names.
func (d asyncAPI) has(path []string) bool {
	switch {
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
