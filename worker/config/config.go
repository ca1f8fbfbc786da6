package config

import (
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Config is the whole configuration of a worker. The zero value is not usable:
// begin with [Default] or [Load].
type Config struct {
	// HAP says which pool serves a request and how many clusters an account may have.
	// Defaults to the rules of [InitialRules] and one account per tenant and pool.
	HAP HAP `key:"hap"`
	// Policy says where the policy for implementations is read from.
	// Defaults to none: a policy is read only if Catalog is set.
	Policy Policy `key:"policy"`
	// Network says where the rules for the network ranges of clusters are read from.
	// Defaults to none: clusters get ranges only if the section is present.
	Network Network `key:"network"`
	// NATS configures the connection to NATS and its streams.
	// Defaults to a server on this machine.
	NATS NATS `key:"nats"`
	// Redis configures the connection to Redis.
	// Defaults to a server on this machine.
	Redis Redis `key:"redis"`
	// Gardener configures the connection to the cluster with the bindings.
	// Defaults to the cluster of KUBECONFIG or ~/.kube/config, or else to the one in which the worker runs.
	Gardener Gardener `key:"gardener"`
	// Worker sets how many events are processed at once and how long each may take.
	// Defaults to 288 events at once.
	Worker Worker `key:"worker"`
	// Telemetry configures logs, metrics, traces and the HTTP listener.
	// Defaults to JSON logs and a listener on :8080.
	Telemetry Telemetry `key:"telemetry"`

	warnings []string
	ruleless bool            // no rules are configured, in either form
	present  map[string]bool // the sections that the file or the environment sets
	env      []string        // the environment at the time of Load, for Watch
	sum      uint64          // checksum of the loaded file, for Watch
}

// HAP is the section hap: hyperscaler account pools.
type HAP struct {
	// Rule lists the rules, in the language of docs/rules.md.
	// Defaults to [InitialRules] if the older form is absent too.
	Rule []string `key:"rule"`
	// PlatformRegionRule is the older form: pools by platform region.
	// Defaults to "". It cannot be combined with Rule.
	PlatformRegionRule string `key:"platformRegionRule"`
	// ClusterRegionRule is the older form: pools by hyperscaler region.
	// Defaults to "". It cannot be combined with Rule.
	ClusterRegionRule string `key:"clusterRegionRule"`
	// SharedRule is the older form: shared pools.
	// Defaults to "". It cannot be combined with Rule.
	SharedRule string `key:"sharedRule"`
	// EUAccessRule is the older form: pools of accounts under EU access.
	// Defaults to "". It cannot be combined with Rule.
	EUAccessRule string `key:"euAccessRule"`
	// InternalGlobalAccounts lists the tenants that may use internal bindings whose label names the tenant.
	// Defaults to none.
	InternalGlobalAccounts []string `key:"internalGlobalAccounts"`
	// MultiHyperscalerAccount says which tenants may have several accounts in a pool.
	// Defaults to none.
	MultiHyperscalerAccount MultiHyperscalerAccount `key:"multiHyperscalerAccount"`
	// Waiting says what happens to requests that find their pool empty.
	// Defaults to waiting for 10 minutes.
	Waiting Waiting `key:"waiting"`
	// Plans adds plans to the built-in table, or replaces them, by name.
	// Defaults to none.
	Plans map[string]Plan `key:"plans"`
}

// MultiHyperscalerAccount is the section hap.multiHyperscalerAccount.
type MultiHyperscalerAccount struct {
	// AllowedGlobalAccounts lists the tenants that may have several accounts; "*" means all tenants.
	// Defaults to none: a tenant gets at most one account in a pool.
	AllowedGlobalAccounts []string `key:"allowedGlobalAccounts"`
	// Limits has the maximum number of clusters on an account, by provider, and "default" for all other
	// providers; 0 means no limit. Limits apply only to tenants that may have several accounts.
	// Defaults to none.
	Limits map[string]int `key:"limits"`
	// Strategy chooses among a tenant's accounts below the limit: fill-most-populated, fill-first or round-robin.
	// Defaults to fill-most-populated.
	Strategy account.Strategy `key:"strategy"`
}

// Waiting is the section hap.waiting.
type Waiting struct {
	// Timeout is how long a request without a deadline waits for an account. With 0, no request waits, even
	// with a deadline.
	// Defaults to 10m.
	Timeout time.Duration `key:"timeout"`
	// Longest is the maximum time that a request waits, even if its deadline is later. If Timeout is longer
	// than Longest, Timeout is the maximum.
	// Defaults to 720h.
	Longest time.Duration `key:"longest"`
}

// Plan is an entry of hap.plans.
type Plan struct {
	// Providers lists the hyperscalers on which the plan may run.
	// Defaults to none; an entry needs at least one.
	Providers []string `key:"providers"`
	// Default is the provider of requests that name none, unless the chosen implementation names one.
	// Defaults to the only provider; with several, such a request is rejected as UnknownProvider.
	Default string `key:"default"`
}

// Policy is the section policy.
type Policy struct {
	// ConfigMap is the name of the ConfigMap with the policy.
	// Defaults to hap-policy.
	ConfigMap string `key:"configMap"`
	// Key is the key of the policy in ConfigMap.
	// Defaults to policy.yaml.
	Key string `key:"key"`
	// Namespace is the namespace of ConfigMap.
	// Defaults to the namespace of Kubeconfig's context.
	Namespace string `key:"namespace"`
	// File is the path of a policy file. If it is set, the worker reads it instead of ConfigMap.
	// Defaults to none.
	File string `key:"file"`
	// Kubeconfig is the kubeconfig file of the cluster with the ConfigMap.
	// Defaults to gardener.kubeconfig.
	Kubeconfig string `key:"kubeconfig"`
	// Catalog is the directory or file with the manifests of the implementations from which policies
	// choose. Defaults to none: every request for an interface is rejected.
	Catalog string `key:"catalog"`
	// TypeInstances is the file with the existing TypeInstances. The worker keeps their
	// ids and types, but not their values.
	// Defaults to none.
	TypeInstances string `key:"typeInstances"`
}

// Network is the section network.
type Network struct {
	// Config is the name of the IPAMConfig.
	// Defaults to ipam.
	Config string `key:"config"`
	// File is the path of a file in the same form. If it is set, the worker reads it instead of Config.
	// Defaults to none.
	File string `key:"file"`
	// Kubeconfig is the kubeconfig file of the cluster with Config.
	// Defaults to gardener.kubeconfig.
	Kubeconfig string `key:"kubeconfig"`
	// ClusterConfigs makes the worker write ClusterConfigs, and an annotation on Clusters, in addition to its
	// replies.
	// Defaults to false.
	ClusterConfigs bool `key:"clusterConfigs"`
	// Required makes requests wait while there is no valid network configuration.
	// Defaults to false: the reply then says that ranges are missing, and a later reply has them.
	Required bool `key:"required"`
	// Clusters says whether rules follow Cluster resources. With follow, the worker applies the rules to
	// an answered cluster again whenever labels or purposes of its Cluster resource change.
	// Defaults to none: only the labels and purposes in the event count.
	Clusters string `key:"clusters"`
}

// FollowClusters is the value of network.clusters that makes network rules follow Cluster resources.
const FollowClusters = "follow"
