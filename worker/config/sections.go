package config

import "time"

// NATS is the section nats.
type NATS struct {
	// URL are the servers: one URL, several with commas between, or a list.
	// Defaults to nats://127.0.0.1:4222.
	URL URLs `key:"url"`
	// Credentials is a .creds file.
	// Defaults to none. At most one of Credentials, NKey and a user in URL.
	Credentials string `key:"credentials"`
	// NKey is a file with an nkey seed.
	// Defaults to none.
	NKey string `key:"nkey"`
	// TLS is used where URL asks for it (tls://) or a file is named.
	// Defaults to the system's certificate authorities.
	TLS TLS `key:"tls"`
	// Prefix begins every subject.
	// Defaults to hap.v1.
	Prefix string `key:"prefix"`
	// Manage creates the streams and the consumer that are missing.
	// Defaults to true.
	Manage bool `key:"manage"`
	// Replicas is how many servers keep each stream, 1 or 3.
	// Defaults to 1.
	Replicas int `key:"replicas"`
	// MaxBytes is how large HAP_EVENTS may grow before publishers are refused, in bytes; units as in 512Mi are read.
	// Defaults to 1Gi.
	MaxBytes int64 `key:"maxBytes" unit:"bytes"`
	// Retention is how long the replies of a released runtime are kept.
	// Defaults to 168h. Longer than hap.waiting.timeout.
	Retention time.Duration `key:"retention"`
	// MaxAckPending is how many events may be with all workers at once.
	// Defaults to 8192. At least worker.concurrency.
	MaxAckPending int `key:"maxAckPending"`
}

// Redis is the section redis.
type Redis struct {
	// URL are the servers, redis:// or rediss://: one, or several of a cluster or of the sentinels.
	// Defaults to redis://127.0.0.1:6379.
	URL URLs `key:"url"`
	// Cluster says that a single URL is the way into a Redis Cluster; several URLs without SentinelMaster always are.
	// Defaults to false.
	Cluster bool `key:"cluster"`
	// SentinelMaster is the master's name; URL are then sentinels.
	// Defaults to none.
	SentinelMaster string `key:"sentinelMaster"`
	// SentinelUsername is the user at the sentinels, which have users of their own.
	// Defaults to none. Needs SentinelPasswordFile.
	SentinelUsername string `key:"sentinelUsername"`
	// SentinelPasswordFile is a file with the password of the sentinels, read at every connection to one.
	// Defaults to none. Needs SentinelMaster.
	SentinelPasswordFile string `key:"sentinelPasswordFile"`
	// Username is the user, unless URL has one.
	// Defaults to none.
	Username string `key:"username"`
	// PasswordFile is a file with the password, read at every connection, unless URL has one.
	// Defaults to none.
	PasswordFile string `key:"passwordFile"`
	// TLS is used where URL asks for it (rediss://).
	// Defaults to the system's certificate authorities.
	TLS TLS `key:"tls"`
	// Prefix begins every key.
	// Defaults to hap.
	Prefix string `key:"prefix"`
	// PoolSize is how many connections a worker keeps to each server.
	// Defaults to 32.
	PoolSize int `key:"poolSize"`
}

// TLS names the files of a TLS connection.
type TLS struct {
	// CA is a file with the certificate authorities that the server's certificate must come from.
	// Defaults to the system's.
	CA string `key:"ca"`
	// Cert is a file with the client's certificate.
	// Defaults to none. Needs Key.
	Cert string `key:"cert"`
	// Key is a file with the client's key.
	// Defaults to none. Needs Cert.
	Key string `key:"key"`
}

// Gardener is the section gardener.
type Gardener struct {
	// Kubeconfig is the file that says which cluster has the bindings.
	// Defaults to what KUBECONFIG names, else to the cluster that the worker runs in.
	Kubeconfig string `key:"kubeconfig"`
	// Namespace is where bindings and Shoots are.
	// Defaults to the namespace of Kubeconfig's context.
	Namespace string `key:"namespace"`
	// Resource is the kind of the bindings: credentialsbindings, secretbindings or secrets.
	// Defaults to credentialsbindings.
	Resource string `key:"resource"`
	// Labels are the keys of the labels on bindings, or the word legacy for the older scheme of Secrets.
	// Defaults to hyperscalerType, tenantName, dirty, internal, shared and euAccess.
	Labels Labels `key:"labels"`
	// Shoots says how Shoots are read.
	// Defaults to the annotations of the Infrastructure Manager and of the Provisioner.
	Shoots Shoots `key:"shoots"`
	// Budget is how long one call of the cluster is tried again while it does not serve.
	// Defaults to 10s. At least 5s, the time that one request may take.
	Budget time.Duration `key:"budget"`
	// Events says whether what happens to accounts is written as Events about their bindings,
	// for kubectl describe. It needs the rights to create and patch events.
	// Defaults to false: an installation of before has no such right.
	Events bool `key:"events"`
}

// Labels are the keys of the labels on bindings.
type Labels struct {
	// HyperscalerType is the key of the pool's name.
	// Defaults to hyperscalerType; legacy: hyperscaler-type.
	HyperscalerType string `key:"hyperscalerType"`
	// TenantName is the key of the tenant.
	// Defaults to tenantName; legacy: tenant-name.
	TenantName string `key:"tenantName"`
	// Dirty is the key of the mark on accounts to be cleaned.
	// Defaults to dirty.
	Dirty string `key:"dirty"`
	// Internal is the key of the mark on accounts that are never claimed.
	// Defaults to internal.
	Internal string `key:"internal"`
	// Shared is the key of the mark on accounts for several tenants.
	// Defaults to shared.
	Shared string `key:"shared"`
	// EUAccess is the key of the mark on accounts under EU access.
	// Defaults to euAccess.
	EUAccess string `key:"euAccess"`
}

// Shoots is the section gardener.shoots.
type Shoots struct {
	// RuntimeID are keys of annotations or labels of a Shoot, in order; the first that is there has the runtime's id.
	// Defaults to infrastructuremanager.kyma-project.io/runtime-id, kcp.provisioner.kyma-project.io/runtime-id.
	// Where none is there, the Shoot's name is the id.
	RuntimeID []string `key:"runtimeID"`
	// Tenant are keys of annotations or labels of a Shoot, in order; the first that is there has the global account.
	// Defaults to account. Only hapctl migrate plan reads it.
	Tenant []string `key:"tenant"`
}

// Worker is the section worker.
type Worker struct {
	// Mode is active, or shadow: decide every event beside a running broker, compare with what that chose, write nothing to Gardener.
	// Defaults to active.
	Mode string `key:"mode"`
	// Shadow is read where Mode is shadow.
	// Defaults to a comparison every 15 seconds.
	Shadow Shadow `key:"shadow"`
	// Concurrency is how many events one worker handles at once.
	// Defaults to 192.
	Concurrency int `key:"concurrency"`
	// AckWait is how long NATS waits for a sign of life before it delivers an event again; one is sent every third of it.
	// Defaults to 30s. Above Budget.
	AckWait time.Duration `key:"ackWait"`
	// Budget is how long a handler tries before it hands the event back.
	// Defaults to 20s.
	Budget time.Duration `key:"budget"`
	// Drain is how long a worker that shuts down lets begun events finish. Keep it below the pod's grace period.
	// Defaults to 25s. At least Budget.
	Drain time.Duration `key:"drain"`
	// Reconcile compares Redis, Gardener and the ledger.
	// Defaults to once a day.
	Reconcile Reconcile `key:"reconcile"`
}

// Shadow is the section worker.shadow.
type Shadow struct {
	// Interval is the time between two looks at what the broker chose.
	// Defaults to 15s.
	Interval time.Duration `key:"interval"`
	// Patience is how long a decision is kept for the Shoot of its runtime to appear.
	// Defaults to 1h. At least Interval.
	Patience time.Duration `key:"patience"`
}

// Reconcile is the section worker.reconcile.
type Reconcile struct {
	// Interval is the time between two comparisons; 0 is never.
	// Defaults to 24h.
	Interval time.Duration `key:"interval"`
	// Repair mends the drift that is found; without it, drift is only reported.
	// Defaults to true.
	Repair bool `key:"repair"`
}

// Telemetry is the section telemetry.
type Telemetry struct {
	// OTLP is where traces and metrics are sent.
	// Defaults to nowhere.
	OTLP OTLP `key:"otlp"`
	// Listen is the address of /metrics, /healthz, /readyz, and of the operations page where that has no separate one, host:port; port 0 is any free one.
	// Defaults to :8080.
	Listen string `key:"listen"`
	// LogLevel is debug, info, warn or error.
	// Defaults to info.
	LogLevel string `key:"logLevel"`
	// LogFormat is json or text.
	// Defaults to json.
	LogFormat string `key:"logFormat"`
	// TraceRatio is the share of traces that are recorded where the publisher has not decided it, 0 to 1.
	// Defaults to 1.
	TraceRatio float64 `key:"traceRatio"`
	// TenantLabel adds to the metrics of events and decisions the label global_account_id: one series per tenant.
	// Defaults to false.
	TenantLabel bool `key:"tenantLabel"`
	// TenantMetrics shows keb_credentials_bindings_per_ga, which names every tenant with an account; TenantLabel shows it, too.
	// Defaults to false.
	TenantMetrics bool `key:"tenantMetrics"`
	// Page is the operations page.
	// Defaults to one that is served on a loopback address, or to who can log in.
	Page Page `key:"page"`
}

// Page is the section telemetry.page.
type Page struct {
	// Enabled serves the page.
	// Defaults to true.
	Enabled bool `key:"enabled"`
	// Username is who logs in by HTTP basic authentication.
	// Defaults to none. Needs PasswordFile.
	Username string `key:"username"`
	// PasswordFile is a file with the password, read at every request.
	// Defaults to none. Needs Username.
	PasswordFile string `key:"passwordFile"`
	// TokenFile is a file with a bearer token, read at every request.
	// Defaults to none.
	TokenFile string `key:"tokenFile"`
	// Listen is an address for the page alone, host:port, apart from metrics and probes.
	// Defaults to none: the page is at / of telemetry.listen.
	Listen string `key:"listen"`
	// TLS is the certificate of the page's own address, read again when it changes.
	// Defaults to none.
	TLS ServerTLS `key:"tls"`
	// OIDC is a login at an OpenID Connect issuer.
	// Defaults to none.
	OIDC OIDC `key:"oidc"`
}

// ServerTLS is the certificate of a listener.
type ServerTLS struct {
	// Cert is a file with the certificate, and those that lead to its authority.
	// Defaults to none. Needs Key.
	Cert string `key:"cert"`
	// Key is a file with its key.
	// Defaults to none. Needs Cert.
	Key string `key:"key"`
}

// OIDC is the section telemetry.page.oidc.
type OIDC struct {
	// Issuer is the URL of the issuer.
	// Defaults to none.
	Issuer string `key:"issuer" secret:"url"`
	// ClientID is the page's id at the issuer. Tokens for other clients are refused.
	// Defaults to none. Needs Issuer.
	ClientID string `key:"clientID"`
	// ClientSecretFile is a file with the client's secret, read at every login.
	// Defaults to none: a public client.
	ClientSecretFile string `key:"clientSecretFile"`
	// RedirectURL is the page's address for browsers, with /oidc/callback behind it.
	// Defaults to none. Needs Issuer.
	RedirectURL string `key:"redirectURL" secret:"url"`
	// Groups may look: a person needs one of them. * lets in everyone whom the issuer knows.
	// Defaults to none. Needs Issuer.
	Groups []string `key:"groups"`
	// GroupsClaim is the claim of the ID token that has a person's groups.
	// Defaults to groups.
	GroupsClaim string `key:"groupsClaim"`
	// Scopes are asked for beside openid.
	// Defaults to groups.
	Scopes []string `key:"scopes"`
	// CA is a file with the authorities of the issuer, read at every connection.
	// Defaults to the system's.
	CA string `key:"ca"`
}

// OTLP is the section telemetry.otlp.
type OTLP struct {
	// Endpoint is the collector for OTLP over HTTP, as a URL or as host:port.
	// Defaults to none: nothing is sent.
	Endpoint string `key:"endpoint" secret:"url"`
	// Insecure takes http instead of https where Endpoint is host:port.
	// Defaults to false.
	Insecure bool `key:"insecure"`
	// Headers are sent with every request. Their values are taken for secrets.
	// Defaults to none.
	Headers map[string]string `key:"headers" secret:"value"`
}
