package wire_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hap-worker/hap-worker/events"
)

// blocksOf returns the code blocks of docs/clients.md, by language.
func blocksOf(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for _, block := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		if blocks[block[1]] != "" {
			t.Errorf("there are two blocks of %s", block[1])
		}
		blocks[block[1]] = block[2]
	}
	return blocks
}

// TestClientsPage: schema and decoder accept the event of the recipes, and each recipe has the
// subjects, headers and streams of the code.
func TestClientsPage(t *testing.T) {
	t.Parallel()
	blocks := blocksOf(t)
	s, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	header := nats.Header{"Content-Type": {events.ContentType}}
	e, err := events.Decode("hap.v1.provision.ga-1", header, []byte(blocks["json"]))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := jsonschema.UnmarshalJSON(strings.NewReader(blocks["json"]))
	if err != nil {
		t.Fatal(err)
	}
	all := schemas(t)
	if err := all["envelope"].Validate(whole); err != nil {
		t.Error(err)
	}
	if err := all["provision"].Validate(whole.(map[string]any)["data"]); err != nil {
		t.Error(err)
	}
	published, err := events.Publication(s, e)
	if err != nil {
		t.Fatal(err)
	}
	id := published.Header.Get(nats.MsgIdHdr)
	written := strings.NewReplacer( // the values that the Python takes from the event
		"{data['runtimeID']}", e.RuntimeID, "{request}", e.ID, "{data['globalAccountID']}", e.Provision.GlobalAccountID)
	for _, language := range []string{"sh", "python", "java"} {
		text := written.Replace(blocks[language])
		for _, word := range []string{published.Subject, s.Reply(e.RuntimeID, e.ID), id, events.ContentType, events.StreamEvents, events.StreamReplies} {
			if !strings.Contains(text, word) {
				t.Errorf("the %s does not name %s", language, word)
			}
		}
		for _, name := range regexp.MustCompile(`hap\.v1\.[\w.-]+|HAP_\w+`).FindAllString(text, -1) {
			if !slices.Contains([]string{published.Subject, s.Reply(e.RuntimeID, e.ID), events.StreamEvents, events.StreamReplies}, name) {
				t.Errorf("the %s names %s", language, name)
			}
		}
	}
	for _, status := range []events.Status{events.StatusWaiting, events.StatusSealed} {
		if status.Final() || !strings.Contains(blocks["python"], `"`+string(status)+`"`) || !strings.Contains(blocks["java"], `\"`+string(status)+`\"`) {
			t.Errorf("a recipe does not pass over %s", status)
		}
	}
}

// TestPythonOfTheClientsPage: the recipe is valid Python, checked if there is an interpreter.
func TestPythonOfTheClientsPage(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil && os.Getenv("HAP_REQUIRE_ALL") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("not run: there is no python3")
	}
	c := exec.CommandContext(t.Context(), python, "-c", "import ast, sys; ast.parse(sys.stdin.read())")
	c.Stdin = strings.NewReader(blocksOf(t)["python"])
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
