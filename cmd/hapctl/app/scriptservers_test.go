package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// scriptServers starts servers for scripts. They run until the test ends.
type scriptServers struct{ t *testing.T }

// commands returns the script commands that start servers and look into them.
func (s scriptServers) commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"streams": s.streams, "store": s.store, "holds": s.holds, "bindings": s.bindings,
	}
}

// streams starts NATS with the worker's streams: "streams".
func (s scriptServers) streams(ts *testscript.TestScript, _ bool, _ []string) {
	server := ledgertest.Server(s.t)
	_, err := storage.Setup(s.t.Context(), server.JetStream(), storage.Options{Manage: true})
	ts.Check(err)
	ts.Setenv("HAP_NATS_URL", server.URL())
}

func (s scriptServers) js(ts *testscript.TestScript) jetstream.JetStream {
	nc, err := nats.Connect(ts.Getenv("HAP_NATS_URL"))
	ts.Check(err)
	s.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	ts.Check(err)
	return js
}

// store stores a file as it is: "store SUBJECT FILE".
func (s scriptServers) store(ts *testscript.TestScript, _ bool, args []string) {
	_, err := s.js(ts).Publish(s.t.Context(), args[0], []byte(ts.ReadFile(args[1])))
	ts.Check(err)
}

// holds counts the messages of a stream: "holds STREAM NUMBER".
func (s scriptServers) holds(ts *testscript.TestScript, _ bool, args []string) {
	stream, err := s.js(ts).Stream(s.t.Context(), args[0])
	ts.Check(err)
	want, err := strconv.ParseUint(args[1], 10, 64)
	ts.Check(err)
	if got := stream.CachedInfo().State.Msgs; got != want {
		ts.Fatalf("%s holds %d messages, want %d", args[0], got, want)
	}
}

// bindings starts an API server with the bindings that are named, each with its labels:
// "bindings NAME[:KEY=VALUE]...".
func (s scriptServers) bindings(ts *testscript.TestScript, _ bool, args []string) {
	labels := map[string]string{}
	for _, arg := range args {
		name, label, _ := strings.Cut(arg, ":")
		key, value, _ := strings.Cut(label, "=")
		labels[name] = fmt.Sprintf(`{"hyperscalerType":"aws",%q:%q}`, key, value)
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, name, binding := strings.Cut(r.URL.Path, "/credentialsbindings/")
		switch {
		case !binding:
			fmt.Fprint(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"garden-kyma","uid":"u-1"}}`)
		case labels[name] == "":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found","details":{"name":%q}}`, name)
		default:
			fmt.Fprintf(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,"namespace":"garden-kyma","resourceVersion":"1","labels":%s}}`, name, labels[name])
		}
	}))
	s.t.Cleanup(api.Close)
	ts.Check(writeKubeconfig(ts.MkAbs("kubeconfig"), api.URL))
	ts.Setenv("KUBECONFIG", ts.MkAbs("kubeconfig"))
}
