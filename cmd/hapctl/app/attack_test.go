package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// hostile sets the terminal's title, overwrites the line, reverses the text after it, and colours it by a C1
// control.
const hostile = "a\x1b]0;owned\x07b\rc\u202ed\u009b31me"

// TestNothingActsOnTheTerminal: text from a publisher, a worker's reply and the API server is shown with its
// controls as escapes, in each format.
func TestNothingActsOnTheTerminal(t *testing.T) {
	t.Parallel()
	natsURL := hostileStreams(t)
	kubeconfig := hostileAPI(t)
	for name, c := range map[string]struct {
		args  []string
		shown string // part of stdout and stderr together
	}{
		"dead letters":        {[]string{"dead", "list"}, "NoMatchingRule"},
		"a dead letter":       {[]string{"dead", "show", "1"}, `a\u001b]0;owned\u0007b\rc\u202ed\u009b31me`},
		"a raw C1 control":    {[]string{"dead", "show", "2"}, "31m"},
		"no such letter":      {[]string{"dead", "show", hostile}, `a\u001b]0;owned\u0007b\rc\u202ed\u009b31me`},
		"a reply":             {[]string{"provision", "--runtime", "rt-1", "--global-account", "ga-1", "--plan", "aws", "--id", "req-1"}, `a\u001b]0;owned\u0007b\rc\u202ed\u009b31me`},
		"lines":               {[]string{"provision", "--stdin"}, "InvalidEvent"},
		"an error of the API": {[]string{"cordon", "aws-1", "--kubeconfig", kubeconfig}, `\u001b]0;owned\u0007`},
		"wrong usage":         {[]string{hostile}, `\u202e`},
	} {
		for _, form := range cli.Formats {
			t.Run(name+" as "+form, func(t *testing.T) {
				t.Parallel()
				var stdout, stderr bytes.Buffer
				in := strings.NewReader(fmt.Sprintf(`{"runtimeID":%s,"globalAccountID":"ga-1","plan":"aws"}`+"\n", quoted(t, hostile)))
				Run(t.Context(), append(c.args, "--nats-url", natsURL, "-o", form), in, &stdout, &stderr)
				both := stdout.String() + stderr.String()
				if what, is := clitest.Acts(both); is {
					t.Errorf("%q passes in\n%q", what, both)
				}
				if !strings.Contains(both, c.shown) && (form != "yaml" || !strings.Contains(both, `\U`)) {
					t.Errorf("%s is not in\n%s", c.shown, both)
				}
				if form == "json" && name == "a dead letter" {
					var v struct{ Data string }
					if err := json.Unmarshal(stdout.Bytes(), &v); err != nil || v.Data != hostile {
						t.Errorf("the data is %q, %v", v.Data, err)
					}
				}
			})
		}
	}
}

// hostileStreams returns the URL of streams with two dead letters and a reply.
func hostileStreams(t *testing.T) (url string) {
	t.Helper()
	server := ledgertest.Server(t)
	js := server.JetStream()
	if _, err := storage.Setup(t.Context(), js, storage.Options{Manage: true}); err != nil {
		t.Fatal(err)
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	letter := func(data string) *nats.Msg {
		return &nats.Msg{Subject: subjects.Dead(""), Data: []byte(data), Header: nats.Header{
			dead.HeaderCode: {"NoMatchingRule"}, dead.HeaderReason: {"\x1b[2J\u202e"}, dead.HeaderOrigSubject: {"hap.v1.provision.\u202e\x1b"},
			"X-Other": {"\x1b[2J"},
		}}
	}
	reply := fmt.Sprintf(`{"specversion":"1.0","type":"hap.reply.v1","id":"req-1/rejected","source":"/x","data":`+
		`{"requestID":"req-1","runtimeID":"rt-1","globalAccountID":"ga-1","plan":%[1]s,"status":"rejected","error":{"code":"Internal","message":%[1]s}}}`, quoted(t, hostile))
	for _, msg := range []*nats.Msg{letter(hostile), letter("\x9b31m"), {Subject: subjects.Reply("rt-1", "req-1"), Data: []byte(reply)}} {
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	return server.URL()
}

func quoted(t *testing.T, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}

// hostileAPI returns the kubeconfig of an API server that refuses everything.
func hostileAPI(t *testing.T) (kubeconfig string) {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":%s}`, quoted(t, hostile))
	}))
	t.Cleanup(api.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := writeKubeconfig(kubeconfig, api.URL); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func writeKubeconfig(path, server string) error {
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: x, cluster: {server: '" + server + "'}}]\nusers: [{name: x, user: {token: x}}]\n" +
		"contexts: [{name: x, context: {cluster: x, user: x, namespace: garden-kyma}}]\ncurrent-context: x\n"
	return os.WriteFile(path, []byte(text), 0o600)
}
