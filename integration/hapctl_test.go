package integration_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// hapctlAccounts are what the scripts share out: each script has its own pools.
func hapctlAccounts() []stack.Account {
	is := func(labels ...string) map[string]string {
		m := map[string]string{}
		for _, l := range labels {
			m[l] = "true"
		}
		return m
	}
	return []stack.Account{
		// request.txtar
		{Name: "aws-1", HyperscalerType: "aws"},
		// pools.txtar
		{Name: "azure-1", HyperscalerType: "azure"},
		{Name: "azure-2", HyperscalerType: "azure", Labels: is("internal")},
		{Name: "azure-3", HyperscalerType: "azure", Labels: is("hap-worker/cordon")},
		{Name: "azure-4", HyperscalerType: "azure", Labels: map[string]string{"tenantName": "ga-old", "dirty": "true"}},
		// release.txtar
		{Name: "aws-eu-1", HyperscalerType: "aws", Labels: is("euAccess")},
		// difference.txtar
		{Name: "sa30-1", HyperscalerType: "gcp_cf-sa30"},
		// lines.txtar
		{Name: "shared-1", HyperscalerType: "aws", Labels: is("shared")},
	}
}

// hapctlConfig has the rules that the scripts name. Who finds a pool empty waits
// for a moment only.
const hapctlConfig = `
hap:
  rule: [aws, aws(PR=cf-eu11) -> EU, azure, gcp, gcp(PR=cf-sa30) -> PR, trial -> S, "sap-converged-cloud -> HR, S", azure_lite, preview, free]
  multiHyperscalerAccount:
    allowedGlobalAccounts: ["*"]
    limits: {default: 3, aws: 180}
  waiting: {timeout: 1s}
  plans: {trial: {providers: [aws, azure], default: aws}, free: {providers: [aws, azure], default: aws}}
`

// TestHapctl runs the stories of hapctl against a worker and all that is around it.
func TestHapctl(t *testing.T) {
	t.Parallel()
	s := hapctlStack(t, stack.Options{Config: []byte(hapctlConfig), Accounts: hapctlAccounts(), Workers: 1})
	runHapctl(t, s, "testdata/hapctl", map[string]func(*testscript.TestScript, bool, []string){
		"label": func(ts *testscript.TestScript, _ bool, args []string) { ts.Check(label(s, args[0], args[1], args[2])) },
	})
}

// TestHapctlAlone runs those in which no worker is there to answer; they follow
// one another in one script, since they share the ledger.
func TestHapctlAlone(t *testing.T) {
	t.Parallel()
	s := hapctlStack(t, stack.Options{Accounts: []stack.Account{}})
	nc, err := nats.Connect(s.NATS.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	ledger := storage.NewLedger(js, subjects, "/test")
	runHapctl(t, s, "testdata/hapctl-alone", map[string]func(*testscript.TestScript, bool, []string){
		"streams": func(ts *testscript.TestScript, _ bool, _ []string) {
			_, err := storage.Setup(context.Background(), js, storage.Options{Manage: true})
			ts.Check(err)
		},
		// reply RUNTIME REQUEST STATUS stores a reply as a worker does.
		"reply": func(ts *testscript.TestScript, _ bool, args []string) {
			r := events.Reply{RuntimeID: args[0], RequestID: args[1], Status: events.Status(args[2])}
			if r.Status == events.StatusWaiting {
				r.Waiting = &events.Waiting{Reason: events.WaitingPoolEmpty, Position: 3}
			} else {
				r.Binding = &events.Binding{Name: "aws-1"}
			}
			subject := subjects.Reply(args[0], args[1])
			stored, _, err := ledger.Last(context.Background(), subject)
			ts.Check(err)
			_, err = ledger.Publish(context.Background(), subject, r, stored.Sequence)
			ts.Check(err)
		},
	})
}

func hapctlStack(t *testing.T, o stack.Options) *stack.Stack {
	t.Helper()
	o.Gardener = cmp.Or(o.Gardener, usualGardener)
	if o.Dir = t.TempDir(); testing.Verbose() && o.WorkerLog == nil {
		o.WorkerLog = os.Stderr
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	s, err := stack.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// runHapctl runs scripts with a hapctl that is built for them. Beside
// testscript's own commands and the given ones they have "exits CODE COMMAND
// ARGS…", which runs a command and holds its exit code against CODE, "converses
// CODE FILE COMMAND ARGS…", which also asks it line by line, and "steady FILE",
// which writes stdout to FILE with the same times and numbers in every run.
func runHapctl(t *testing.T, s *stack.Stack, dir string, commands map[string]func(*testscript.TestScript, bool, []string)) {
	t.Helper()
	runScripts(t, s, buildHapctl(t), testscript.Params{Dir: dir, Cmds: commands})
}

// runScripts runs the scripts of p with the hapctl in folder bin.
func runScripts(t *testing.T, s *stack.Stack, bin string, p testscript.Params) {
	t.Helper()
	commands := p.Cmds
	commands["exits"], commands["converses"] = clitest.Exits, clitest.Converses
	commands["steady"] = func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(steady(ts.ReadFile("stdout"))), 0o600))
	}
	p.UpdateScripts = os.Getenv("UPDATE_SCRIPTS") != ""
	p.RequireUniqueNames, p.RequireExplicitExec = true, true
	p.Setup = func(e *testscript.Env) error {
		e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
		e.Setenv("HAP_NATS_URL", s.NATS.URL())
		e.Setenv("HAP_REDIS_URL", s.Redis.URL())
		e.Setenv("KUBECONFIG", s.Kube.Kubeconfig())
		e.Setenv("HAP_GARDENER_NAMESPACE", s.Target.Namespace)
		e.Setenv("CONFIG", s.Config)
		return nil
	}
	t.Run("scripts", func(t *testing.T) { testscript.RunT(oneByOne{t}, p) })
}

func buildHapctl(t *testing.T) string {
	t.Helper()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/hapctl")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build hapctl: %v\n%s", err, out)
	}
	return filepath.Clean(bin)
}

// label writes a label on a binding, as an operator does by hand.
func label(s *stack.Stack, binding, key, value string) error {
	config, err := s.Kube.Config()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	bindings := schema.GroupVersionResource{Group: "security.gardener.cloud", Version: "v1alpha1", Resource: "credentialsbindings"}
	_, err = client.Resource(bindings).Namespace(s.Target.Namespace).Patch(context.Background(), binding, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value), metav1.PatchOptions{})
	return err
}

// oneByOne runs scripts one after the other in their test's turn. Left to run in
// parallel they would queue behind all other tests, for minutes, while what they
// share is up and its time runs out.
type oneByOne struct{ *testing.T }

func (oneByOne) Parallel()     {}
func (oneByOne) Verbose() bool { return testing.Verbose() }

func (o oneByOne) Run(name string, script func(testscript.T)) {
	o.T.Run(name, func(t *testing.T) { script(oneByOne{t}) })
}
