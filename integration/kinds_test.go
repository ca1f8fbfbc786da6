package integration_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// accountKind is a kind of object that stands for an account. The zero value is
// the default kind.
type accountKind struct {
	gardener string // further keys of the section gardener
	kind     string // as replies call it
	field    string // of a Shoot's spec that names what it uses
	// on returns the shared stack that serves it; nil is sharedStack.
	on func(*testing.T) *stack.Stack
}

func accountKinds() map[string]accountKind {
	return map[string]accountKind{
		"credentialsbindings": {"", "CredentialsBinding", "credentialsBindingName", nil},
		"secretbindings":      {", resource: secretbindings", "SecretBinding", "secretBindingName", nil},
		// The stack makes a SecretBinding for every Secret.
		"secrets": {", resource: secrets, labels: legacy", "Secret", "secretBindingName", nil},
	}
}

// olderRules are the initial rules in the older form.
const olderRules = `
hap:
  platformRegionRule: "gcp:cf-sa30"
  clusterRegionRule: "sap-converged-cloud"
  sharedRule: "trial;sap-converged-cloud"
  euAccessRule: "azure:cf-ch20;aws:cf-eu11"
`

// TestMainJobOfEachKind is the main job, under duplicates and with two workers,
// where accounts are CredentialsBindings, SecretBindings or Secrets with the
// labels of the older scheme: from the claim to the account that is clean again.
func TestMainJobOfEachKind(t *testing.T) {
	t.Parallel()
	for name, kind := range accountKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mainJobOf(t, kind)
		})
	}
}

func mainJobOf(t *testing.T, kind accountKind) {
	const runtimes, tenants = 150, 50
	l := newLandscapeOf(t, kind, olderRules, roomyAccounts(tenants))
	l.work(daemon.Options{})
	l.work(daemon.Options{})
	random := newRandom(t)
	asked := make([]events.Event, runtimes)
	for n := range asked {
		asked[n] = randomProvision(random, n)
		l.publish(asked[n], "")
		l.publish(asked[n], "again/"+asked[n].ID)
	}
	l.flush()
	l.awaitSettled()
	l.holds(checker.Terms{OneAccount: true})
	dedicated := ""
	for _, e := range asked {
		r := l.answered(e)
		l.usable(kind, r)
		if !r.Binding.Shared {
			dedicated = r.Binding.Name
		}
	}
	for _, e := range asked {
		l.deprovision(goes(e.RuntimeID, e.Provision.GlobalAccountID))
	}
	l.flush()
	l.awaitSettled()
	l.holds(checker.Terms{OneAccount: true})
	for name, b := range l.facts().Bindings {
		if b.Dirty != (b.Tenant != "") || b.Shared && b.Dirty {
			t.Errorf("binding %s is %+v after its clusters have gone", name, b)
		}
	}
	if r := l.released(releaseEvent("clean", dedicated, 0)); r.Status != events.StatusReturned {
		t.Errorf("the release is answered %s %+v", r.Status, r.Error)
	}
	if b := l.binding(dedicated); b.Tenant != "" || b.Dirty || b.Generation != 1 || b.Kind != kind.kind {
		t.Errorf("the released binding is %+v", b)
	}
}

// usable fails the test unless a Shoot could use what the reply names.
func (l *landscape) usable(kind accountKind, r events.Reply) {
	l.t.Helper()
	if r.Status != events.StatusAssigned || r.Binding.Kind != kind.kind || r.Binding.Namespace != l.stack.Target.Namespace {
		l.t.Fatalf("the provision of %s is %s %+v: %+v", r.RuntimeID, r.Status, r.Error, r.Binding)
	}
	if len(r.ShootPatch) != 1 || r.ShootPatch[0].Op != "add" || r.ShootPatch[0].Path != "/spec/"+kind.field || r.ShootPatch[0].Value != r.Binding.Name {
		l.t.Fatalf("the Shoot of %s is patched with %+v", r.RuntimeID, r.ShootPatch)
	}
	if merged := map[string]any{"spec": map[string]any{kind.field: r.Binding.Name}}; !reflect.DeepEqual(r.ShootMergePatch, merged) {
		l.t.Fatalf("the Shoot of %s is merged with %+v", r.RuntimeID, r.ShootMergePatch)
	}
}

// poolAsks are requests for each sort of pool of the initial rules.
var poolAsks = []struct {
	name, plan, pr, hr, provider string
	pool                         engine.Pool
	older, rule                  string // what the decision says in either form
}{
	{"plain", "aws", "cf-us10", "us-east-1", "", engine.Pool{HyperscalerType: "aws"}, "none of the four rules", "aws"},
	{"EU access on aws", "aws", "cf-eu11", "eu-central-1", "", engine.Pool{HyperscalerType: "aws", EUAccess: true}, "euAccessRule aws:cf-eu11", "aws(PR=cf-eu11) -> EU"},
	{"EU access on azure", "azure", "cf-ch20", "switzerlandnorth", "", engine.Pool{HyperscalerType: "azure", EUAccess: true}, "euAccessRule azure:cf-ch20", "azure(PR=cf-ch20) -> EU"},
	{"assured workloads", "gcp", "cf-sa30", "me-central2", "", engine.Pool{HyperscalerType: "gcp_cf-sa30"}, "platformRegionRule gcp:cf-sa30", "gcp(PR=cf-sa30) -> PR"},
	{"gcp elsewhere", "gcp", "cf-eu30", "europe-west3", "", engine.Pool{HyperscalerType: "gcp"}, "none of the four rules", "gcp"},
	{"shared, one region", "sap-converged-cloud", "cf-eu20", "eu-de-1", "", engine.Pool{HyperscalerType: "openstack_eu-de-1", Shared: true}, "clusterRegionRule sap-converged-cloud, sharedRule sap-converged-cloud", "sap-converged-cloud -> HR, S"},
	{"shared, another region", "sap-converged-cloud", "cf-eu20", "eu-de-2", "", engine.Pool{HyperscalerType: "openstack_eu-de-2", Shared: true}, "clusterRegionRule sap-converged-cloud, sharedRule sap-converged-cloud", "sap-converged-cloud -> HR, S"},
	{"trial on aws", "trial", "cf-us10", "us-east-1", "aws", engine.Pool{HyperscalerType: "aws", Shared: true}, "sharedRule trial", "trial -> S"},
	{"trial on azure", "trial", "cf-us21", "eastus", "azure", engine.Pool{HyperscalerType: "azure", Shared: true}, "sharedRule trial", "trial -> S"},
	{"free on azure", "free", "cf-eu20", "westeurope", "azure", engine.Pool{HyperscalerType: "azure"}, "none of the four rules", "free"},
}

// TestPoolsOfEachKind asks for a cluster of every sort of pool, in the older form
// of the rules and, once the worker has taken it over, in the newer one, which
// assigns every tenant the account that it has.
func TestPoolsOfEachKind(t *testing.T) {
	t.Parallel()
	for name, kind := range accountKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLandscapeOf(t, kind, olderRules, roomyAccounts(2))
			w := l.work(daemon.Options{})
			first := map[string]string{}
			for n, a := range poolAsks {
				for _, tenant := range []string{"ga-1", "ga-2"} {
					r := l.inPool(kind, fmt.Sprintf("rt-older-%d-%s", n, tenant), tenant, n)
					if r.Decision.Rule != a.older || r.Decision.RuleNumber != 0 {
						t.Errorf("%s is decided by %q (%d), want %q", a.name, r.Decision.Rule, r.Decision.RuleNumber, a.older)
					}
					first[a.name+tenant] = r.Binding.Name
				}
				if shared := a.pool.Shared; !shared && first[a.name+"ga-1"] == first[a.name+"ga-2"] {
					t.Errorf("%s: two tenants on %s", a.name, first[a.name+"ga-1"])
				} else if shared && first[a.name+"ga-1"] == first[a.name+"ga-2"] {
					t.Errorf("%s: both clusters on %s, the other one is unused", a.name, first[a.name+"ga-1"])
				}
			}
			l.configure("hap", oneAccountRules)
			l.shows(w, "hap_config_reloads_total", "1")
			for n, a := range poolAsks {
				r := l.inPool(kind, fmt.Sprintf("rt-newer-%d", n), "ga-1", n)
				if r.Decision.Rule != a.rule || r.Decision.RuleNumber == 0 {
					t.Errorf("%s is decided by %q (%d), want %q", a.name, r.Decision.Rule, r.Decision.RuleNumber, a.rule)
				}
				if found := l.foundBy(r.Decision.LabelSelector); !slices.Contains(found, r.Binding.Name) {
					t.Errorf("%s: the selector %s of the answer finds %v, not %s", a.name, r.Decision.LabelSelector, found, r.Binding.Name)
				}
				if !a.pool.Shared && (r.Binding.Name != first[a.name+"ga-1"] || r.Binding.Claimed) {
					t.Errorf("%s: on %+v, want %s, which the tenant has", a.name, r.Binding, first[a.name+"ga-1"])
				}
			}
			l.awaitSettled()
			l.holds(checker.Terms{OneAccount: true})
		})
	}
}

// foundBy are the names of the accounts that a label selector finds, as kubectl get -l does.
func (l *landscape) foundBy(selector string) []string {
	l.t.Helper()
	list, err := l.api.Resource(l.bindings()).Namespace(l.stack.Target.Namespace).List(l.ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		l.t.Fatal(err)
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].GetName()
	}
	return names
}

// inPool asks for a cluster of a sort of pool, and fails the test unless it is in it.
func (l *landscape) inPool(kind accountKind, runtime, tenant string, n int) events.Reply {
	l.t.Helper()
	a := poolAsks[n]
	e := askPlan(runtime, tenant, a.plan)
	e.Provision.PlatformRegion, e.Provision.HyperscalerRegion, e.Provision.Provider = a.pr, a.hr, a.provider
	l.provision(e)
	r := l.answered(e)
	l.usable(kind, r)
	got := engine.Pool{HyperscalerType: r.Binding.HyperscalerType, EUAccess: r.Binding.EUAccess, Shared: r.Binding.Shared}
	if got != a.pool || r.Decision.Pool != a.pool.Name() {
		l.t.Errorf("%s: the binding is of %+v, the pool is %s; want %s", a.name, got, r.Decision.Pool, a.pool.Name())
	}
	if b := l.binding(r.Binding.Name); b.Pool() != a.pool || !a.pool.Shared && b.Tenant != tenant || a.pool.Shared && b.Tenant != "" {
		l.t.Errorf("%s: the labels are those of %+v", a.name, b)
	}
	return r
}

// configure replaces a section of the worker's configuration by that of a YAML text.
func (l *landscape) configure(section, text string) {
	l.t.Helper()
	var all, changed map[string]any
	content, err := os.ReadFile(l.stack.Config)
	if err == nil {
		err = yaml.Unmarshal(content, &all)
	}
	if err == nil {
		err = yaml.Unmarshal([]byte(text), &changed)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	all[section] = changed[section]
	if content, err = yaml.Marshal(all); err == nil {
		err = os.WriteFile(l.stack.Config, content, 0o600)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// TestShootsOfEachKind: an account is not dirty while a Shoot uses it, whichever
// field of the Shoot says so.
func TestShootsOfEachKind(t *testing.T) {
	t.Parallel()
	for name, kind := range accountKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shootsOf(t, kind)
		})
	}
}

func shootsOf(t *testing.T, kind accountKind) {
	l := newLandscapeOf(t, kind, olderRules, accounts("aws", 1))
	l.work(daemon.Options{})
	e := ask("rt-1", "ga-1")
	l.provision(e)
	r := l.answered(e)
	l.usable(kind, r)
	l.shootFor(r)
	if gone := l.left(goes(e.RuntimeID, "ga-1")); !gone.Draining || gone.MarkedDirty {
		t.Errorf("while a Shoot uses it, the deprovision is answered %+v", gone)
	}
	if b := l.binding(r.Binding.Name); b.Dirty {
		t.Errorf("dirty under its Shoot: %+v", b)
	}
	l.remove(shootsResource, "c-"+e.RuntimeID)
	eventually(l.ctx, t, func() error {
		if b := l.binding(r.Binding.Name); !b.Dirty || b.Tenant != "ga-1" {
			return fmt.Errorf("after the Shoot has gone: %+v", b)
		}
		return nil
	})
}

// shootFor makes the Shoot that an assigned reply is for, as its patch says.
func (l *landscape) shootFor(r events.Reply) {
	l.t.Helper()
	patch := r.ShootPatch[0]
	l.shootOn(r.RuntimeID, strings.TrimPrefix(patch.Path, "/spec/"), fmt.Sprint(patch.Value))
}

// TestSecretWithoutBinding: a Secret that nothing refers to is of no use to a
// Shoot. Its request is rejected and holds nothing; once there is a binding, it
// serves, and a CredentialsBinding is named before a SecretBinding.
func TestSecretWithoutBinding(t *testing.T) {
	t.Parallel()
	kind := accountKinds()["secrets"]
	l := newLandscapeOf(t, kind, olderRules, accounts("aws", 1))
	l.work(daemon.Options{})
	const secret = "aws-01"
	l.remove(secretBindings, secret)
	first := ask("rt-1", "ga-1")
	l.provision(first)
	refusedWith(t, l.answered(first), engine.CodeUnknownBinding)
	l.awaitSettled()

	o := &unstructured.Unstructured{Object: map[string]any{
		"provider":       map[string]any{"type": "aws"},
		"credentialsRef": map[string]any{"apiVersion": "v1", "kind": "Secret", "name": secret, "namespace": l.stack.Target.Namespace},
	}}
	o.SetAPIVersion("security.gardener.cloud/v1alpha1")
	o.SetKind("CredentialsBinding")
	o.SetName("uses-" + secret)
	if _, err := l.api.Resource(credentialsBindings).Namespace(l.stack.Target.Namespace).Create(l.ctx, o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	second := ask("rt-2", "ga-1")
	l.provision(second)
	r := l.answered(second)
	if r.Status != events.StatusAssigned || r.Binding.Name != secret || *r.Clusters != 1 ||
		r.ShootPatch[0].Path != "/spec/credentialsBindingName" || r.ShootPatch[0].Value != "uses-"+secret {
		t.Fatalf("the second is %s %+v: %+v, %+v", r.Status, r.Error, r.Binding, r.ShootPatch)
	}
	l.awaitSettled()
	l.holds(checker.Terms{OneAccount: true})
}
