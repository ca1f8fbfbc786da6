package integration_test

import (
	"fmt"
	"net"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/integration/faulty"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// whyConfig has the rules of the stories about why. Who finds a pool empty waits
// for longer than a story takes.
const whyConfig = `
hap:
  rule: [aws, aws(PR=cf-eu11) -> EU, azure, gcp, trial -> S, "sap-converged-cloud -> HR, S", azure_lite, preview, free, alicloud, build-runtime-aws(PR=cf-find) -> PR]
  multiHyperscalerAccount:
    allowedGlobalAccounts: ["*"]
    limits: {default: 3, gcp: 1}
  waiting: {timeout: 1h}
  plans: {trial: {providers: [aws, azure], default: aws}, free: {providers: [aws, azure], default: aws}}
`

// TestHapctlWhy runs the stories of explain, waiting, cordon, pause, dead letters
// and simulate. The worker's way to the Kubernetes API can be disturbed:
//
//	conflict PREFIX           the next claim of a binding with such a name is refused: another writer wrote it meanwhile
//	stolen PREFIX TENANT      the same, and that it was labelled for another tenant
//	label BINDING KEY VALUE   writes a label by hand
//	shoot RUNTIME BINDING     makes a Shoot
//	await SERIES VALUE        waits until a metric of the worker has the value
//	silent NAME               sets a variable to the address of a server that never answers
func TestHapctlWhy(t *testing.T) {
	t.Parallel()
	own := append(append(accounts("aws", 3), accounts("azure", 4)...), accounts("gcp", 1)...)
	own = append(append(own, accounts("alicloud", 3)...),
		stack.Account{Name: "find-01", HyperscalerType: "aws_cf-find"},
		stack.Account{Name: "eu-01", HyperscalerType: "aws", Labels: map[string]string{"euAccess": "true"}},
		stack.Account{Name: "eu-02", HyperscalerType: "aws", Labels: map[string]string{"euAccess": "true"}},
		stack.Account{Name: "eu-03", HyperscalerType: "aws", Labels: map[string]string{"euAccess": "true"}},
		stack.Account{Name: "openstack-01", HyperscalerType: "openstack_eu-de-1", Labels: map[string]string{"shared": "true"}},
		stack.Account{Name: "openstack-02", HyperscalerType: "openstack_eu-de-1", Labels: map[string]string{"shared": "true"}},
		stack.Account{Name: "shared-01", HyperscalerType: "aws", Labels: map[string]string{"shared": "true"}},
		stack.Account{Name: "shared-02", HyperscalerType: "aws", Labels: map[string]string{"shared": "true"}})
	l := newLandscape(t, whyConfig, own)
	proxy, through := l.faultyAPI()
	w := l.work(daemon.Options{Env: through})
	runHapctl(t, l.stack, "testdata/hapctl-why", map[string]func(*testscript.TestScript, bool, []string){
		"conflict": func(_ *testscript.TestScript, _ bool, args []string) { refuseClaim(proxy, args[0], func(string) {}) },
		"stolen": func(_ *testscript.TestScript, _ bool, args []string) {
			refuseClaim(proxy, args[0], func(binding string) { l.label(binding, map[string]any{"tenantName": args[1]}) })
		},
		"label": func(ts *testscript.TestScript, _ bool, args []string) {
			ts.Check(label(l.stack, args[0], args[1], args[2]))
		},
		"await": func(_ *testscript.TestScript, _ bool, args []string) {
			eventually(l.ctx, t, func() error {
				if value := w.metric(args[0]); value != args[1] {
					return fmt.Errorf("%s is %q, want %s", args[0], value, args[1])
				}
				return nil
			})
		},
		"shoot":  func(_ *testscript.TestScript, _ bool, args []string) { l.shoot(args[0], args[1]) },
		"silent": func(ts *testscript.TestScript, _ bool, args []string) { ts.Setenv(args[0], silent(t)) },
	})
}

// silent returns the address of a server to which clients connect and which never
// answers, until the test ends.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// refuseClaim has the next patch of a binding with such a name refused as a
// conflict, after first.
func refuseClaim(proxy *faulty.KubeAPI, prefix string, first func(binding string)) {
	var done atomic.Bool
	proxy.Choose(func(r *http.Request) faulty.Fault {
		binding := path.Base(r.URL.Path)
		if r.Method != http.MethodPatch || !strings.HasPrefix(binding, prefix) || done.Swap(true) {
			return faulty.Fault{}
		}
		first(binding)
		return faulty.Fault{Status: http.StatusConflict}
	})
}

// unsteady matches what differs between two runs of the same story.
var unsteady = []struct {
	found *regexp.Regexp
	text  string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`( \+|for )(\d+m)?[\d.]+(ms|µs|s)\b`), "${1}<d>"},
	{regexp.MustCompile(`("streamSequence": |streamSequence: |Hap-Stream-Seq: |"sequence": |"number": |"eventSequence": )\d+`), "${1}<n>"},
	{regexp.MustCompile(`(?m)^\d+( +<time>)`), "<n>$1"}, // the number of a dead letter
	{regexp.MustCompile(`(letter |dead show |"messages": |HAP_[A-Z]+: )\d+`), "${1}<n>"},
	{regexp.MustCompile(`garden-\d+`), "garden-<n>"},
	{regexp.MustCompile(`("epoch": |epoch: )"?[^",\n]+"?`), "${1}<epoch>"},
}

func steady(text string) string {
	for _, u := range unsteady {
		text = u.found.ReplaceAllString(text, u.text)
	}
	return text
}
