package config

import (
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Config is the whole configuration of a worker. The zero value is not usable:
// begin with [Default] or [Load].
type Config struct {
	// HAP says which pool a request draws from and how full an account may be.
	// Defaults to the rules of [InitialRules] and one account per tenant and pool.
	HAP HAP `key:"hap"`
	// Policy says where the preferences for implementations come from.
	// Defaults to none: there is one where Catalog is set.
	Policy Policy `key:"policy"`
	// Network says where the network ranges for clusters come from.
	// Defaults to none: there are such ranges where the section is given.
	Network Network `key:"network"`
	// NATS is the connection to NATS and the streams there.
	// Defaults to a server on this machine.
	NATS NATS `key:"nats"`
	// Redis is the connection to Redis.
	// Defaults to a server on this machine.
	Redis Redis `key:"redis"`
	// Gardener is the connection to the cluster that has the bindings.
	// Defaults to what KUBECONFIG names, else to the cluster that the worker runs in.
	Gardener Gardener `key:"gardener"`
	// Worker is how much is done at once and how long it may take.
	// Defaults to 192 events at once.
	Worker Worker `key:"worker"`
	// Telemetry is logs, metrics, traces and the HTTP listener.
	// Defaults to JSON logs and a listener on :8080.
	Telemetry Telemetry `key:"telemetry"`

	warnings []string
	ruleless bool            // neither form of rules is given
	present  map[string]bool // the sections that file or environment name
	env      []string        // the environment it was loaded with, for Watch
	sum      uint64          // of the file it was loaded from, for Watch
}

// HAP is the section hap: hyperscaler account pools.
type HAP struct {
	// Rule are the rules, in the language of docs/rules.md.
	// Defaults to [InitialRules] where neither form is given.
	Rule []string `key:"rule"`
	// PlatformRegionRule is the older form: pools by platform region.
	// Defaults to "". Never beside Rule.
	PlatformRegionRule string `key:"platformRegionRule"`
	// ClusterRegionRule is the older form: pools by hyperscaler region.
	// Defaults to "". Never beside Rule.
	ClusterRegionRule string `key:"clusterRegionRule"`
	// SharedRule is the older form: shared pools.
	// Defaults to "". Never beside Rule.
	SharedRule string `key:"sharedRule"`
	// EUAccessRule is the older form: pools of accounts under EU access.
	// Defaults to "". Never beside Rule.
	EUAccessRule string `key:"euAccessRule"`
	// InternalGlobalAccounts are the tenants that keep using internal bindings that carry their name.
	// Defaults to none.
	InternalGlobalAccounts []string `key:"internalGlobalAccounts"`
	// MultiHyperscalerAccount says who may have several accounts in a pool.
	// Defaults to nobody.
	MultiHyperscalerAccount MultiHyperscalerAccount `key:"multiHyperscalerAccount"`
	// Waiting is what happens to requests that find their pool empty.
	// Defaults to waiting for 10 minutes.
	Waiting Waiting `key:"waiting"`
	// Plans extend and override the built-in table of plans, by plan.
	// Defaults to none.
	Plans map[string]Plan `key:"plans"`
}

// MultiHyperscalerAccount is the section hap.multiHyperscalerAccount.
type MultiHyperscalerAccount struct {
	// AllowedGlobalAccounts are the tenants that may have several accounts; "*" is everybody.
	// Defaults to none, which is off.
	AllowedGlobalAccounts []string `key:"allowedGlobalAccounts"`
	// Limits are clusters per account, by provider, and "default" for all others; 0 is no limit.
	// Defaults to none. Read only for tenants that may have several accounts.
	Limits map[string]int `key:"limits"`
	// Strategy chooses among a tenant's accounts below the limit: fill-most-populated, fill-first or round-robin.
	// Defaults to fill-most-populated.
	Strategy account.Strategy `key:"strategy"`
}

// Waiting is the section hap.waiting.
type Waiting struct {
	// Timeout is how long a request waits for an account, unless it has a deadline of its own; 0 rejects at once.
	// Defaults to 10m.
	Timeout time.Duration `key:"timeout"`
}

// Plan is an entry of hap.plans.
type Plan struct {
	// Providers are the hyperscalers that the plan may run on.
	// Defaults to none; an entry needs at least one.
	Providers []string `key:"providers"`
	// Default is the provider of requests that name none, where Providers are several.
	// Defaults to none: such a request is UnknownProvider.
	Default string `key:"default"`
}

// Policy is the section policy.
type Policy struct {
	// ConfigMap is the name of the ConfigMap that has the policy.
	// Defaults to hap-policy.
	ConfigMap string `key:"configMap"`
	// Key is the key in ConfigMap.
	// Defaults to policy.yaml.
	Key string `key:"key"`
	// Namespace is where ConfigMap is.
	// Defaults to the namespace of Kubeconfig's context.
	Namespace string `key:"namespace"`
	// File is a policy file that is read instead of ConfigMap.
	// Defaults to none.
	File string `key:"file"`
	// Kubeconfig is the file that says which cluster has ConfigMap.
	// Defaults to gardener.kubeconfig.
	Kubeconfig string `key:"kubeconfig"`
	// Catalog is the directory or file with the manifests of the implementations.
	// Defaults to none: every request for an interface is refused.
	Catalog string `key:"catalog"`
	// TypeInstances is the file with the TypeInstances that the system has. Only who
	// they are is read, what they hold is not kept.
	// Defaults to none.
	TypeInstances string `key:"typeInstances"`
}

// Network is the section network.
type Network struct {
	// Config is the name of the IPAMConfig.
	// Defaults to ipam.
	Config string `key:"config"`
	// File is a file of the same form that is read instead of Config.
	// Defaults to none.
	File string `key:"file"`
	// Kubeconfig is the file that says which cluster has Config.
	// Defaults to gardener.kubeconfig.
	Kubeconfig string `key:"kubeconfig"`
	// ClusterConfigs says that ClusterConfigs are written beside the replies.
	// Defaults to false.
	ClusterConfigs bool `key:"clusterConfigs"`
	// Required makes requests wait while there is no valid network configuration.
	// Defaults to false: they are answered without ranges, which the reply says and a further reply makes good.
	Required bool `key:"required"`
}
