package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/worker/simulate"
)

// simulatedRules have limits, regions, a shared pool, a policy and two network blocks.
const simulatedRules = `
hap:
  rule: [aws, aws(PR=cf-eu11) -> EU, azure, gcp, trial -> S, "sap-converged-cloud -> HR, S", azure_lite, preview, free]
  multiHyperscalerAccount: {allowedGlobalAccounts: [ga-1], limits: {default: 2}}
  waiting: {timeout: 1h}
  plans: {trial: {providers: [aws, azure], default: aws}, free: {providers: [aws, azure], default: aws}}
policy: {file: %[1]q, catalog: %[2]q, typeInstances: %[4]q}
network: {file: %[3]q}
`

// simulatedNetworks have room for four clusters.
const simulatedNetworks = `
parentCIDRs: {foo: [10.27.0.0/28], bar: [10.28.0.0/28]}
injectionRules:
- id: mcp-clusters
  matchPurposes: [{operator: ContainsAll, values: [mcp]}]
  injections: [{path: .spec.network.cidr, parents: [foo, bar], subnetSize: 29}]
`

// simulatedReply has what a reply of the stack and a result of simulate say alike.
type simulatedReply struct {
	ID, Status, Pool, Rule, Binding, Implementation, Code string
	RuleNumber, Clusters                                  int
	Network                                               []string
}

// TestSimulateAsTheStack simulates events on what pools save saved, has a worker on real
// parts decide the same events, and compares what both say of each.
func TestSimulateAsTheStack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	policy, networks, instances := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "ipam.yaml"), filepath.Join(dir, "typeinstances.yaml")
	for path, text := range map[string]string{
		policy: forProvider("azure"), networks: simulatedNetworks,
		instances: "- {id: i-2, typeRef: {path: cap.type.azure.auth.service-principal, revision: 0.1.0}}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	catalog := filepath.Join(root, "deploy", "policy", "catalog")
	own := slices.Concat(accounts("aws", 2), accounts("azure", 1), []stack.Account{
		{Name: "eu-01", HyperscalerType: "aws", Labels: map[string]string{"euAccess": "true"}},
		{Name: "shared-01", HyperscalerType: "aws", Labels: map[string]string{"shared": "true"}},
	})
	l := newLandscape(t, fmt.Sprintf(simulatedRules, policy, catalog, networks, instances), own)
	l.work(daemon.Options{})
	// Before: an account in use, with a block, and a request that waits.
	before := []events.Event{
		cluster("rt-1", "ga-1", []string{"mcp"}, nil), ask("rt-2", "ga-1"), ask("rt-3", "ga-2"), inEurope(ask("rt-4", "ga-1")),
	}
	on := map[string]string{}
	for _, e := range before {
		l.provision(e)
		on[e.RuntimeID] = l.assigned(e)
	}
	waiting := ask("rt-w", "ga-3")
	l.provision(waiting)
	l.waits(waiting)
	hapctl := operatorOf(t, l)
	saved := filepath.Join(dir, "saved.json")
	hapctl(0, "pools", "save", saved)

	all := simulatedEvents(on["rt-1"])
	simulated := simulatedBy(t, hapctl, saved, dir, all)
	asked := map[string]events.Event{waiting.ID: waiting}
	for _, e := range all {
		asked[e.ID] = e
	}
	var stood []simulatedReply
	for i, e := range all {
		switch {
		case e.Provision != nil:
			l.provision(e)
		case e.Deprovision != nil:
			l.depart(e)
		default:
			l.free(e)
		}
		stood = append(stood, ofReply(l.awaitReply(e, func(r events.Reply) bool { return r.Status != "" && r.Status != events.StatusSealed })))
		for _, r := range simulated[i].Serves { // before the next event
			stood = append(stood, ofReply(l.answered(asked[r.RequestID])))
		}
	}
	var want []simulatedReply
	for _, r := range simulated {
		for _, r := range append([]simulate.Result{r}, r.Serves...) {
			want = append(want, ofResult(r))
		}
	}
	for i, got := range stood {
		if got.ID == waiting.ID {
			got.Rule, got.RuleNumber = "", 0 // a saved request does not say what it asked for
		}
		if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want[i]); a != b {
			t.Errorf("of %s the stack says\n%s\nand simulate\n%s", got.ID, a, b)
		}
	}
	for _, status := range []string{"assigned", "waiting", "released", "returned", "rejected"} {
		if !slices.ContainsFunc(want, func(r simulatedReply) bool { return r.Status == status }) {
			t.Errorf("no event is %s", status)
		}
	}
	if served := want[len(want)-3]; served.ID != waiting.ID || served.Status != "assigned" {
		t.Errorf("the request that waited before is not served: %+v", served)
	}
}

func inEurope(e events.Event) events.Event {
	e.Provision.PlatformRegion = "cf-eu11"
	return e
}

// simulatedEvents meet limits, an empty pool, full ranges, a policy and refusals; each is
// decided before the next is published. full is the account of rt-1 and rt-2.
func simulatedEvents(full string) []events.Event {
	plan := func(e events.Event, plan string) events.Event {
		e.Provision.Plan = plan
		return e
	}
	wants := func(e events.Event) events.Event {
		e.Provision.Interface = &events.Interface{Path: postgres}
		return e
	}
	again := ask("rt-2", "ga-1")
	again.ID = "req-again"
	other := ask("rt-2", "ga-9")
	other.ID = "req-other"
	return []events.Event{
		again, other,
		ask("rt-5", "ga-1"),
		cluster("rt-6", "ga-2", []string{"mcp"}, nil),
		cluster("rt-7", "ga-2", []string{"mcp"}, nil),
		cluster("rt-8", "ga-2", []string{"mcp"}, nil),
		cluster("rt-9", "ga-2", []string{"mcp"}, nil), // waits for addresses
		goes("rt-6", "ga-2"),                          // serves it
		wants(plan(ask("rt-10", "ga-5"), "free")),     // by its implementation on azure
		wants(plan(ask("rt-11", "ga-5"), "gcp")),
		plan(ask("rt-12", "ga-5"), "nope"),
		plan(ask("rt-13", "ga-5"), "trial"),
		returns(full),
		goes("rt-1", "ga-1"), // serves rt-5
		goes("rt-2", "ga-1"),
		goes("rt-5", "ga-1"), // its account is dirty
		returns(full),        // serves rt-w
		goes("rt-unknown", "ga-1"),
		ask("rt-unknown", "ga-1"),
	}
}

// simulatedReleases tell releases of one binding apart.
var simulatedReleases atomic.Int32

// returns is a release of a binding; each has its own id.
func returns(binding string) events.Event {
	return events.Event{Type: events.TypeRelease, ID: fmt.Sprint("release-", binding, "-", simulatedReleases.Add(1)), Source: "/integration", Binding: binding, Release: &events.Release{Binding: binding}}
}

// simulatedBy has hapctl simulate the events.
func simulatedBy(t *testing.T, hapctl func(int, ...string) (string, string), saved, dir string, all []events.Event) []simulate.Result {
	t.Helper()
	var lines bytes.Buffer
	for _, e := range all {
		data, err := events.EncodeEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(data, '\n'))
	}
	file := filepath.Join(dir, "events.ndjson")
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := hapctl(5, "simulate", "-f", file, "--pool", saved, "-o", "json")
	if stderr != "" {
		t.Fatalf("simulate says %s", stderr)
	}
	var out struct{ First, Results []simulate.Result }
	if err := json.Unmarshal([]byte(stdout), &out); err != nil {
		t.Fatal(err)
	}
	if len(out.First) > 0 || len(out.Results) != len(all) {
		t.Fatalf("simulate answers %d of %d events, and first %+v", len(out.Results), len(all), out.First)
	}
	return out.Results
}

func ofResult(r simulate.Result) simulatedReply {
	out := simulatedReply{
		ID: r.RequestID, Status: string(r.Status), Pool: r.Pool, Rule: r.Rule, RuleNumber: r.RuleNumber, Binding: r.Binding, Network: blockTexts(r.Network),
	}
	if r.Clusters != nil {
		out.Clusters = *r.Clusters
	}
	if r.Implementation != nil {
		out.Implementation = r.Implementation.Path
	}
	if r.Error != nil {
		out.Code = string(r.Error.Code)
	}
	if r.Error != nil && r.Type == events.TypeRelease {
		out.Pool, out.Binding = "", "" // the event's, which its reply does not repeat
	}
	return out
}

func blockTexts(blocks []events.Network) (texts []string) {
	for _, b := range blocks {
		texts = append(texts, strings.Join(append([]string{b.Rule, b.CIDR}, b.Paths...), " "))
	}
	return texts
}

func ofReply(r events.Reply) simulatedReply {
	out := simulatedReply{ID: r.RequestID, Status: string(r.Status)}
	if r.Decision != nil {
		out.Pool, out.Rule, out.RuleNumber = r.Decision.Pool, r.Decision.Rule, r.Decision.RuleNumber
	}
	if r.Binding != nil {
		out.Binding = r.Binding.Name
	}
	if r.Clusters != nil {
		out.Clusters = *r.Clusters
	}
	if r.Implementation != nil {
		out.Implementation = r.Implementation.Path
	}
	if r.Error != nil {
		out.Code = string(r.Error.Code)
	}
	out.Network = blockTexts(r.Network)
	return out
}
