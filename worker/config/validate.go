package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/spelling"
)

// Validate checks c as a whole. The error is a [document.Faults] with every fault.
func (c *Config) Validate() error {
	var wrong faults
	c.check(&wrong)
	return wrong.err("", sources{})
}

// Warnings returns the warnings about a loaded configuration. The worker can start nevertheless.
func (c *Config) Warnings() []string { return slices.Clone(c.warnings) }

func (c *Config) warn() {
	if c.ruleless {
		c.warnings = append(c.warnings, "hap.rule: no rules are configured, so the initial rules of Kyma Environment Broker apply")
	}
	if decisions, err := c.Decisions(); err == nil {
		for _, w := range decisions.Rules().Warnings() {
			c.warnings = append(c.warnings, fmt.Sprintf("%s: %s: %s", rulePlace(w), w.Text, w.Message))
		}
		if warning := decisions.Unlimited(); warning != "" {
			c.warnings = append(c.warnings, warning)
		}
	}
	if c.present["policy"] && c.Policy.Catalog == "" {
		c.warnings = append(c.warnings, "policy.catalog: not set, so there is no policy")
	}
}

func (c *Config) check(wrong *faults) {
	c.HAP.check(wrong)
	c.Policy.check(wrong)
	c.Network.check(wrong)
	c.NATS.check(wrong)
	c.Redis.check(wrong)
	c.Gardener.check(wrong)
	c.Worker.check(wrong)
	c.Telemetry.check(wrong)
	if c.NATS.MaxAckPending < c.Worker.Concurrency {
		wrong.add("nats.maxAckPending", "%d is below worker.concurrency (%d): workers would sit idle", c.NATS.MaxAckPending, c.Worker.Concurrency)
	}
	if c.NATS.Retention <= c.HAP.Waiting.Timeout {
		wrong.add("nats.retention", "%s must be longer than hap.waiting.timeout (%s): an answer must outlive its request",
			formatDuration(c.NATS.Retention), formatDuration(c.HAP.Waiting.Timeout))
	}
}

var (
	subjectPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	objectName    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	dataKey       = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)
	labelName     = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	keyPrefix     = regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`)
)

func (m *MultiHyperscalerAccount) check(wrong *faults, providers []string) {
	const path = "hap.multiHyperscalerAccount"
	for i, tenant := range m.AllowedGlobalAccounts {
		if tenant != AnyTenant && !engine.ValidID(tenant) {
			wrong.add(element(path+".allowedGlobalAccounts", i), "%q is not a global account id%s", tenant, spelling.Note(tenant))
		}
	}
	for _, provider := range sortedKeys(m.Limits) {
		at := join(path+".limits", provider)
		if provider != DefaultLimit && !slices.Contains(providers, provider) {
			wrong.add(at, "unknown provider%s (known: %s)%s", didYouMean(provider, append(providers, DefaultLimit)), strings.Join(providers, ", "), spelling.Note(provider))
		}
		if m.Limits[provider] < 0 {
			wrong.add(at, "%d is negative; 0 is no limit", m.Limits[provider])
		}
	}
	oneOf(wrong, path+".strategy", string(m.Strategy), string(account.FillMostPopulated), string(account.FillFirst), string(account.RoundRobin))
}

func (p *Policy) check(wrong *faults) {
	matches(wrong, "policy.configMap", p.ConfigMap, objectName, "the name of a ConfigMap")
	matches(wrong, "policy.key", p.Key, dataKey, "a key of a ConfigMap")
	if p.Namespace != "" {
		matches(wrong, "policy.namespace", p.Namespace, namespaceName, "the name of a namespace")
	}
}

func (n *Network) check(wrong *faults) {
	matches(wrong, "network.config", n.Config, objectName, "the name of an IPAMConfig")
	if n.Clusters != "" {
		oneOf(wrong, "network.clusters", n.Clusters, FollowClusters)
	}
}

func (g *Gardener) check(wrong *faults) {
	if g.Namespace != "" {
		matches(wrong, "gardener.namespace", g.Namespace, namespaceName, "the name of a namespace")
	}
	oneOf(wrong, "gardener.resource", g.Resource, CredentialsBindings, SecretBindings, Secrets)
	g.Labels.check(wrong)
	shootKeys(wrong, "gardener.shoots.runtimeID", g.Shoots.RuntimeID)
	shootKeys(wrong, "gardener.shoots.tenant", g.Shoots.Tenant)
	lasts(wrong, "gardener.budget", g.Budget, 5*time.Second)
}

func shootKeys(wrong *faults, path string, keys []string) {
	if len(keys) == 0 {
		wrong.add(path, "needs at least one key")
	}
	for i, key := range keys {
		if !validLabelKey(key) {
			wrong.add(element(path, i), "%q is not a valid key of an annotation or label%s", key, spelling.Note(key))
		}
	}
}

func (l *Labels) check(wrong *faults) {
	used := map[string]string{}
	for _, label := range []struct{ key, value string }{
		{"hyperscalerType", l.HyperscalerType},
		{"tenantName", l.TenantName},
		{"dirty", l.Dirty},
		{"internal", l.Internal},
		{"shared", l.Shared},
		{"euAccess", l.EUAccess},
	} {
		at := join("gardener.labels", label.key)
		if !validLabelKey(label.value) {
			wrong.add(at, "%q is not a valid label key%s", label.value, spelling.Note(label.value))
		}
		if other := used[label.value]; other != "" {
			wrong.add(at, "%q is already the key of %s", label.value, other)
		}
		used[label.value] = label.key
	}
}

func (w *Worker) check(wrong *faults) {
	oneOf(wrong, "worker.mode", w.Mode, ModeActive, ModeShadow)
	lasts(wrong, "worker.shadow.interval", w.Shadow.Interval, time.Second)
	if w.Shadow.Patience < w.Shadow.Interval {
		wrong.add("worker.shadow.patience", "%s must be at least worker.shadow.interval (%s)",
			formatDuration(w.Shadow.Patience), formatDuration(w.Shadow.Interval))
	}
	atLeast(wrong, "worker.concurrency", w.Concurrency, 1)
	lasts(wrong, "worker.budget", w.Budget, time.Second)
	if w.AckWait <= w.Budget {
		wrong.add("worker.ackWait", "%s must be longer than worker.budget (%s): NATS would redeliver events that are still being processed",
			formatDuration(w.AckWait), formatDuration(w.Budget))
	}
	if w.Drain < w.Budget {
		wrong.add("worker.drain", "%s must be at least worker.budget (%s): a shutdown would interrupt events in progress",
			formatDuration(w.Drain), formatDuration(w.Budget))
	}
	if w.Reconcile.Interval != 0 {
		lasts(wrong, "worker.reconcile.interval", w.Reconcile.Interval, time.Minute)
	}
}

func (t *Telemetry) check(wrong *faults) {
	oneOf(wrong, "telemetry.logLevel", t.LogLevel, "debug", "info", "warn", "error")
	oneOf(wrong, "telemetry.logFormat", t.LogFormat, "json", "text")
	if t.TraceRatio < 0 || t.TraceRatio > 1 {
		wrong.add("telemetry.traceRatio", "%g is not between 0 and 1", t.TraceRatio)
	}
	if fault := hostPort(t.Listen); fault != "" {
		wrong.add("telemetry.listen", "%q %s", t.Listen, fault)
	}
	t.Page.check(wrong, t.Listen)
	if t.OTLP.Endpoint == "" {
		return
	}
	if !strings.Contains(t.OTLP.Endpoint, "://") {
		if fault := hostPort(t.OTLP.Endpoint); fault != "" {
			wrong.add("telemetry.otlp.endpoint", "%s", fault)
		}
		return
	}
	checkURL(wrong, "telemetry.otlp.endpoint", t.OTLP.Endpoint, "http", "https")
}

func hostPort(text string) string {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return "must be host:port or :port"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "must have a port from 0 to 65535"
	}
	return ""
}

// checkURL returns the parsed URL, or nil after a fault. Faults do not contain the URL, which may have a password.
func checkURL(wrong *faults, path, text string, schemes ...string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		wrong.add(path, "is not a URL")
		return nil
	}
	if !slices.Contains(schemes, u.Scheme) {
		wrong.add(path, "must begin with %s://", strings.Join(schemes, ":// or "))
		return nil
	}
	if u.Host == "" && u.Scheme != "unix" {
		wrong.add(path, "has no host")
		return nil
	}
	return u
}

func oneOf(wrong *faults, path, value string, words ...string) {
	if !slices.Contains(words, value) {
		wrong.add(path, "%q must be one of %s%s%s", value, strings.Join(words, ", "), didYouMean(value, words), spelling.Note(value))
	}
}

func matches(wrong *faults, path, value string, pattern *regexp.Regexp, what string) {
	if !pattern.MatchString(value) {
		wrong.add(path, "%q cannot be %s%s", value, what, spelling.Note(value))
	}
}

func atLeast(wrong *faults, path string, value, least int) {
	if value < least {
		wrong.add(path, "%d must be at least %d", value, least)
	}
}

func lasts(wrong *faults, path string, value, least time.Duration) {
	if value < least {
		wrong.add(path, "%s must be at least %s", formatDuration(value), formatDuration(least))
	}
}

func validLabelKey(key string) bool {
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		return labelName.MatchString(key)
	}
	return len(prefix) <= 253 && objectName.MatchString(prefix) && labelName.MatchString(name)
}
