package config

import (
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/engine/terms"
)

// Values of single keys.
const (
	ModeActive = "active"
	ModeShadow = "shadow"

	CredentialsBindings = "credentialsbindings"
	SecretBindings      = "secretbindings"
	Secrets             = "secrets"

	// LegacyLabels is the preset of gardener.labels for the older scheme of Secrets.
	LegacyLabels = "legacy"
	// DefaultLabels is the preset of gardener.labels that renames nothing.
	DefaultLabels = "default"
	// AnyTenant stands for every tenant in allowedGlobalAccounts.
	AnyTenant = terms.AnyTenant
	// DefaultLimit is the key in limits for all providers without an entry.
	DefaultLimit = rule.DefaultLimit
)

// InitialRules returns the rules of a configuration without rules: the initial rules of Kyma Environment Broker.
func InitialRules() []string {
	return []string{
		"aws",
		"aws(PR=cf-eu11) -> EU",
		"azure",
		"azure(PR=cf-ch20) -> EU",
		"gcp",
		"gcp(PR=cf-sa30) -> PR",
		"trial -> S",
		"sap-converged-cloud -> HR, S",
		"azure_lite",
		"preview",
		"free",
	}
}

// StandardLabels returns the label keys of CredentialsBindings and SecretBindings.
func StandardLabels() Labels { return Labels(rule.StandardLabels()) }

func legacyLabels() Labels { return Labels(rule.LegacyLabels()) }

// Default returns the configuration that applies without a file and without environment variables.
func Default() *Config {
	return &Config{
		HAP: HAP{
			Rule:                    InitialRules(),
			MultiHyperscalerAccount: MultiHyperscalerAccount{Strategy: account.FillMostPopulated},
			Waiting:                 Waiting{Timeout: 10 * time.Minute, Longest: 30 * 24 * time.Hour},
		},
		Policy:  Policy{ConfigMap: "hap-policy", Key: "policy.yaml"},
		Network: Network{Config: "ipam"},
		NATS: NATS{
			URL: URLs{"nats://127.0.0.1:4222"}, Prefix: "hap.v1", Manage: true, Replicas: 1,
			MaxBytes: 1 << 30, Retention: 7 * day, MaxAckPending: 8192,
		},
		Redis: Redis{URL: URLs{"redis://127.0.0.1:6379"}, Prefix: "hap", PoolSize: 32},
		Gardener: Gardener{
			Resource: CredentialsBindings, Labels: StandardLabels(), Budget: 10 * time.Second,
			Shoots: Shoots{RuntimeID: []string{
				"infrastructuremanager.kyma-project.io/runtime-id",
				"kcp.provisioner.kyma-project.io/runtime-id",
			}, Tenant: []string{"account"}},
		},
		Worker: Worker{
			Mode: ModeActive, Concurrency: 288,
			AckWait: 30 * time.Second, Budget: 20 * time.Second, Drain: 25 * time.Second,
			Reconcile: Reconcile{Interval: day, Repair: true},
			Shadow:    Shadow{Interval: 15 * time.Second, Patience: time.Hour},
		},
		Telemetry: Telemetry{
			Listen: ":8080", LogLevel: "info", LogFormat: "json", TraceRatio: 1,
			Page: Page{Enabled: true, OIDC: OIDC{GroupsClaim: "groups", Scopes: []string{"groups"}}},
		},
	}
}

// WithDefaults returns a copy of c with the default in each empty field. The rules get their default only if
// none are set in either form. It does not change fields whose zero value has a meaning (manage, repair,
// waiting.timeout, reconcile.interval, traceRatio, page.enabled): start from [Default] for their defaults.
func (c *Config) WithDefaults() *Config {
	filled, standard := c.clone(), Default()
	if !filled.HAP.anyRule() {
		filled.HAP.Rule = standard.HAP.Rule
	}
	have, want := leaves(filled), leaves(standard)
	for i, leaf := range have {
		if leaf.value.IsZero() && !zeroSpeaks[leaf.path] && !hapRules[leaf.path] {
			leaf.value.Set(want[i].value)
		}
	}
	return filled
}

var zeroSpeaks = map[string]bool{
	"nats.manage": true, "worker.reconcile.repair": true, "worker.reconcile.interval": true,
	"hap.waiting.timeout": true, "telemetry.traceRatio": true, "telemetry.page.enabled": true,
}

var hapRules = map[string]bool{
	"hap.rule": true, "hap.platformRegionRule": true, "hap.clusterRegionRule": true,
	"hap.sharedRule": true, "hap.euAccessRule": true,
}

func (h *HAP) anyRule() bool { return h.Rule != nil || h.olderRules() }

func (h *HAP) olderRules() bool {
	return h.PlatformRegionRule != "" || h.ClusterRegionRule != "" || h.SharedRule != "" || h.EUAccessRule != ""
}

func (c *Config) clone() *Config {
	copied := *c
	for _, leaf := range leaves(&copied) {
		leaf.detach()
	}
	copied.warnings = slices.Clone(c.warnings)
	return &copied
}
