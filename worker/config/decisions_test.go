package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/rule"
)

func TestTerms(t *testing.T) {
	t.Parallel()
	several := func(limit int) account.Terms {
		return account.Terms{Several: true, Limit: limit, Strategy: account.RoundRobin}
	}
	for _, test := range []struct {
		name             string
		allowed          []string
		limits           map[string]int
		tenant, provider string
		want             account.Terms
	}{
		{"nobody is allowed", nil, map[string]int{"default": 3}, "ga-1", "aws", account.Terms{}},
		{"another one is allowed", []string{"ga-2"}, nil, "ga-1", "aws", account.Terms{}},
		{"everybody, without limits", []string{"*"}, nil, "ga-1", "aws", several(0)},
		{"the provider's limit", []string{"ga-1"}, map[string]int{"default": 3, "aws": 180}, "ga-1", "aws", several(180)},
		{"the default limit", []string{"ga-1"}, map[string]int{"default": 3, "aws": 180}, "ga-1", "gdch", several(3)},
		{"no limit for this one", []string{"ga-1"}, map[string]int{"default": 3, "aws": 0}, "ga-1", "aws", several(0)},
		{"openstack counts", []string{"ga-1"}, map[string]int{"openstack": 100}, "ga-1", "openstack", several(100)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := Default()
			c.HAP.MultiHyperscalerAccount = MultiHyperscalerAccount{
				AllowedGlobalAccounts: test.allowed, Limits: test.limits, Strategy: account.RoundRobin,
			}
			d, err := c.Decisions()
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Terms(test.tenant, test.provider); got != test.want {
				t.Errorf("terms are %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	c := Default()
	c.HAP.InternalGlobalAccounts = []string{"ga-i"}
	d, err := c.Decisions()
	if err != nil {
		t.Fatal(err)
	}
	match, err := d.Rules().Match(rule.Request{Plan: "aws", PlatformRegion: "cf-eu11", Tenant: "ga-i"})
	if err != nil || match.Pool.Name() != "aws+eu" || !match.Internal() {
		t.Errorf("match is %+v, %v", match, err)
	}
	if !d.Internal("ga-i") || d.Internal("ga-1") {
		t.Error("the internal tenants are not those of the configuration")
	}
	if d.WaitingTimeout() != 10*time.Minute {
		t.Errorf("the waiting time is %v", d.WaitingTimeout())
	}
	if d.LongestWait() != 30*24*time.Hour {
		t.Errorf("a request waits for at most %v", d.LongestWait())
	}
	patient := Default()
	patient.HAP.Waiting.Timeout = 2000 * time.Hour // as was allowed before there was a longest wait
	if d, err := patient.Decisions(); err != nil || d.LongestWait() != 2000*time.Hour {
		t.Errorf("with a longer timeout a request waits for at most %v, %v", d.LongestWait(), err)
	}
}

// TestDecisionsDoNotChange: a later change of the Config does not change its Decisions.
func TestDecisionsDoNotChange(t *testing.T) {
	t.Parallel()
	c := Default()
	c.HAP.MultiHyperscalerAccount.AllowedGlobalAccounts = []string{"*"}
	c.HAP.MultiHyperscalerAccount.Limits = map[string]int{"aws": 1}
	d, err := c.Decisions()
	if err != nil {
		t.Fatal(err)
	}
	c.HAP.MultiHyperscalerAccount.Limits["aws"] = 2
	if got := d.Terms("ga", "aws").Limit; got != 1 {
		t.Errorf("the limit is %d, want 1", got)
	}
}

func TestDecisionsOfAnInvalidConfiguration(t *testing.T) {
	t.Parallel()
	c := Default()
	c.HAP.Rule = []string{"aws", "aws"}
	c.HAP.Waiting.Timeout = -1
	_, err := c.Decisions()
	var invalid document.Faults
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "hap.rule[2]: ") || !strings.Contains(err.Error(), "hap.waiting.timeout: ") {
		t.Errorf("error is %v", err)
	}
}

func TestWithDefaults(t *testing.T) {
	t.Parallel()
	c := (&Config{Redis: Redis{Prefix: "mine"}, HAP: HAP{Waiting: Waiting{Timeout: time.Minute}}}).WithDefaults()
	want := Default()
	want.Redis.Prefix, want.HAP.Waiting.Timeout = "mine", time.Minute
	want.NATS.Manage, want.Worker.Reconcile, want.Telemetry.TraceRatio, want.Telemetry.Page.Enabled = false, Reconcile{}, 0, false
	if c.String() != want.String() {
		t.Errorf("filled:\n%s\nwant:\n%s", c, want)
	}
	older := (&Config{HAP: HAP{SharedRule: "trial"}}).WithDefaults()
	if older.HAP.Rule != nil {
		t.Errorf("the older form was given rules: %v", older.HAP.Rule)
	}
}

// TestInitialConfigurations: for every plan that needs rules, the older form of Kyma Environment Broker's
// initial rules selects the same pools as the rule list.
func TestInitialConfigurations(t *testing.T) {
	t.Parallel()
	older, err := parse("hap.yaml", []byte(`hap:
  platformRegionRule: "gcp:cf-sa30"
  clusterRegionRule: "sap-converged-cloud"
  sharedRule: "trial;sap-converged-cloud"
  euAccessRule: "azure:cf-ch20;aws:cf-eu11"
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	compiled := make([]*rule.Ruleset, 2)
	for i, c := range []*Config{older, Default()} {
		d, err := c.Decisions()
		if err != nil {
			t.Fatal(err)
		}
		compiled[i] = d.Rules()
	}
	regions := []string{"cf-eu11", "cf-ch20", "cf-sa30", "cf-us10", "eu-de-1", "eu-central-1", "me-central2"}
	for _, plan := range rule.BuiltinPlans().Required() {
		for _, provider := range rule.BuiltinPlans()[plan].Providers {
			for _, pr := range regions {
				for _, hr := range regions {
					r := rule.Request{Plan: plan, Provider: provider, PlatformRegion: pr, HyperscalerRegion: hr}
					a, errA := compiled[0].Match(r)
					b, errB := compiled[1].Match(r)
					if errA != nil || errB != nil || a.Pool != b.Pool {
						t.Errorf("%+v: the lists give %v (%v), the rules %v (%v)", r, a.Pool, errA, b.Pool, errB)
					}
				}
			}
		}
	}
}

// TestSelectorsHaveTheConfiguredKeys: selectors use the keys of gardener.labels.
func TestSelectorsHaveTheConfiguredKeys(t *testing.T) {
	t.Parallel()
	for labels, want := range map[string]string{
		"default":                      "hyperscalerType=aws,!euAccess,shared!=true,!dirty,!internal,!tenantName",
		"legacy":                       "hyperscaler-type=aws,!euAccess,shared!=true,!dirty,!internal,!tenant-name",
		"{preset: legacy, dirty: old}": "hyperscaler-type=aws,!euAccess,shared!=true,!old,!internal,!tenant-name",
	} {
		c, err := parse("hap.yaml", []byte("gardener: {labels: "+labels+"}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		d, err := c.Decisions()
		if err != nil {
			t.Fatal(err)
		}
		m, err := d.Rules().Match(rule.Request{Plan: "aws", PlatformRegion: "cf-us10"})
		if err != nil || m.ClaimSelector() != want {
			t.Errorf("labels %s: the selector is %s (%v), want %s", labels, m.ClaimSelector(), err, want)
		}
	}
}
