package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/gardener/policyconfig"
	"github.com/hap-worker/hap-worker/worker/config"
)

const (
	textBefore = "apiVersion: 0.1.0\nrules: {}\n"
	textAfter  = textBefore + "# another\n"
)

// lossyAPI has one ConfigMap with a policy, and loses the answer to each change.
type lossyAPI struct {
	changes string // what a change makes of the policy, "" for nothing
	deaf    bool   // it refuses to say what there is after a change

	text    string
	version int
}

func (a *lossyAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		_, _ = io.Copy(io.Discard, r.Body)
		if a.changes != "" {
			a.text, a.version = a.changes, a.version+1
		}
	}
	switch {
	case r.Method == http.MethodPut:
		panic(http.ErrAbortHandler)
	case a.deaf && a.version > 1:
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	text, _ := json.Marshal(a.text)
	fmt.Fprintf(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"hap-policy","namespace":"garden-kyma","resourceVersion":"%d"},"data":{"policy.yaml":%s}}`, a.version, text)
}

// TestLostAnswerOfPolicy: a change whose answer is lost is looked up, so that no operator repeats a rollback which took
// place.
func TestLostAnswerOfPolicy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		api  lossyAPI
		code int
		says string // in the error or on standard error
	}{
		{"written", lossyAPI{changes: textAfter}, cli.ExitDone, "the policy was replaced, though the answer was lost"},
		{"not written", lossyAPI{}, cli.ExitFailure, "nothing was changed"},
		{"another wrote", lossyAPI{changes: textBefore + "# a third\n"}, cli.ExitFailure, "look at hapctl policy show before you repeat it"},
		{"unknown", lossyAPI{changes: textAfter, deaf: true}, cli.ExitFailure, "look at hapctl policy show before you repeat it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.api.text, c.api.version = textBefore, 1
			server := httptest.NewServer(&c.api)
			defer server.Close()
			store, err := policyconfig.NewStore(&rest.Config{Host: server.URL}, "garden-kyma", "hap-policy", "")
			if err != nil {
				t.Fatal(err)
			}
			p := policyInForce{content: []byte(textBefore), store: store}
			if p.version, err = store.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			after, err := policy.Parse([]byte(textAfter))
			if err != nil {
				t.Fatal(err)
			}
			var out, talk bytes.Buffer
			s := cli.New(strings.NewReader(""), &out, &talk)
			s.Format = cli.FormatJSON
			cfg := config.Default()
			err = changePolicy(t.Context(), s, cfg, &p, &policyChange{yes: true}, []byte(textAfter), after, "the one of a test")
			if said := fmt.Sprint(talk.String(), err); cli.ExitCode(err) != c.code || !strings.Contains(said, c.says) || strings.Contains(said, policySetting) {
				t.Errorf("exit code %d, it says\n%s", cli.ExitCode(err), said)
			}
			if written := strings.Contains(out.String(), `"resourceVersion": "2"`) && strings.Contains(out.String(), `"changed": true`); written != (c.code == cli.ExitDone) {
				t.Errorf("it prints\n%s", &out)
			}
		})
	}
}

// TestPolicyOutOfTime: the time of the command is why it failed, the time of a request is not.
func TestPolicyOutOfTime(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	store, err := policyconfig.NewStore(&rest.Config{Host: "https://api.test"}, "garden-kyma", "hap-policy", "")
	if err != nil {
		t.Fatal(err)
	}
	p := policyInForce{store: store}
	failed := p.failed(context.DeadlineExceeded)
	if code := cli.ExitCode(cli.InTime(over, failed)); code != cli.ExitTimeout {
		t.Errorf("the time of the command is over: exit code %d", code)
	}
	if code := cli.ExitCode(cli.InTime(t.Context(), failed)); code != cli.ExitFailure {
		t.Errorf("the time of a request is over: exit code %d", code)
	}
}
