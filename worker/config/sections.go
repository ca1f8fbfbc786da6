package config

import "time"

// NATS is the section nats.
type NATS struct {
	// URL has the servers: one URL, several separated by commas, or a list.
	// Defaults to nats://127.0.0.1:4222.
	URL URLs `key:"url"`
	// Credentials is the path of a .creds file. Only one of Credentials, NKey and a user in URL may be set.
	// Defaults to none.
	Credentials string `key:"credentials"`
	// NKey is the path of a file with an nkey seed.
	// Defaults to none.
	NKey string `key:"nkey"`
	// TLS has the files for TLS. TLS is used if URL has the scheme tls:// or wss://, or if a file is set.
	// Defaults to the system's certificate authorities.
	TLS TLS `key:"tls"`
	// Prefix is the prefix of all subjects.
	// Defaults to hap.v1.
	Prefix string `key:"prefix"`
	// Manage lets the worker create missing streams and a missing consumer, and record its landscape in the
	// ledger's metadata.
	// Defaults to true.
	Manage bool `key:"manage"`
	// Replicas is the number of replicas of each stream, 1 or 3.
	// Defaults to 1.
	Replicas int `key:"replicas"`
	// MaxBytes is the maximum size of HAP_EVENTS, in bytes or with a unit as in 512Mi. When it is reached,
	// the server rejects further events.
	// Defaults to 1Gi.
	MaxBytes int64 `key:"maxBytes" unit:"bytes"`
	// Retention is how long the replies of a released runtime are kept at least. It must be at least 1h, and
	// longer than hap.waiting.timeout.
	// Defaults to 168h.
	Retention time.Duration `key:"retention"`
	// MaxAckPending is the maximum number of events that all workers together may have received and not
	// settled. It must be at least worker.concurrency.
	// Defaults to 8192.
	MaxAckPending int `key:"maxAckPending"`
}

// Redis is the section redis.
type Redis struct {
	// URL has the servers, with redis://, rediss:// or unix://: one server, nodes of a cluster, or sentinels.
	// Defaults to redis://127.0.0.1:6379.
	URL URLs `key:"url"`
	// Cluster means that a single URL is a node of a Redis Cluster. Several URLs without SentinelMaster are
	// always nodes of one.
	// Defaults to false.
	Cluster bool `key:"cluster"`
	// SentinelMaster is the name of the master. If it is set, URL has the sentinels.
	// Defaults to none.
	SentinelMaster string `key:"sentinelMaster"`
	// SentinelUsername is the user at the sentinels, whose users differ from those of the servers. It needs
	// SentinelPasswordFile.
	// Defaults to none.
	SentinelUsername string `key:"sentinelUsername"`
	// SentinelPasswordFile is the path of a file with the password for the sentinels, read at each connection
	// to a sentinel. It needs SentinelMaster.
	// Defaults to none.
	SentinelPasswordFile string `key:"sentinelPasswordFile"`
	// Username is the user. It cannot be combined with a user in URL.
	// Defaults to none.
	Username string `key:"username"`
	// PasswordFile is the path of a file with the password. It is read at each connection, and cannot be
	// combined with a user in URL.
	// Defaults to none.
	PasswordFile string `key:"passwordFile"`
	// TLS has the files for TLS. TLS is used if URL has the scheme rediss://.
	// Defaults to the system's certificate authorities.
	TLS TLS `key:"tls"`
	// Prefix is the prefix of all keys.
	// Defaults to hap.
	Prefix string `key:"prefix"`
	// PoolSize is the size of a worker's connection pool to each server.
	// Defaults to 32.
	PoolSize int `key:"poolSize"`
}

// TLS names the files of a TLS connection.
type TLS struct {
	// CA is the path of a file with the certificate authorities of the server's certificate.
	// Defaults to the system's.
	CA string `key:"ca"`
	// Cert is the path of a file with the client's certificate. It needs Key.
	// Defaults to none.
	Cert string `key:"cert"`
	// Key is the path of a file with the client's key. It needs Cert.
	// Defaults to none.
	Key string `key:"key"`
}

// Gardener is the section gardener.
type Gardener struct {
	// Kubeconfig is the kubeconfig file of the cluster with the bindings.
	// Defaults to the files in KUBECONFIG, or else to ~/.kube/config. Without any of these files, the worker
	// uses the cluster in which it runs.
	Kubeconfig string `key:"kubeconfig"`
	// Namespace is the namespace of bindings and Shoots.
	// Defaults to the namespace of Kubeconfig's context.
	Namespace string `key:"namespace"`
	// Resource is the kind of the bindings: credentialsbindings, secretbindings or secrets.
	// Defaults to credentialsbindings.
	Resource string `key:"resource"`
	// Labels has the keys of the labels on bindings, or the word legacy for the older scheme of Secrets.
	// Defaults to hyperscalerType, tenantName, dirty, internal, shared and euAccess.
	Labels Labels `key:"labels"`
	// Shoots configures how Shoots are read.
	// Defaults to the annotations of the Infrastructure Manager and of the Provisioner.
	Shoots Shoots `key:"shoots"`
	// Budget is how long one call to the cluster is retried while the cluster is unavailable. It must be at
	// least 5s, the time-out of one request.
	// Defaults to 10s.
	Budget time.Duration `key:"budget"`
	// Events makes the worker write Kubernetes Events about bindings, for kubectl describe. It needs the
	// permissions to create and patch events.
	// Defaults to false, since older installations do not have these permissions.
	Events bool `key:"events"`
}

// Labels are the keys of the labels on bindings.
type Labels struct {
	// HyperscalerType is the key of the pool's hyperscaler type.
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
	// RuntimeID lists keys of annotations or labels of a Shoot. The runtime id is the first of their values that
	// is not empty. Without any, it is the Shoot's name.
	// Defaults to infrastructuremanager.kyma-project.io/runtime-id,
	// kcp.provisioner.kyma-project.io/runtime-id.
	RuntimeID []string `key:"runtimeID"`
	// Tenant lists keys of annotations or labels of a Shoot. The global account is the first of their values that
	// is not empty. hapctl migrate plan uses it, and so does a rebuild of Redis, for clusters on shared accounts of
	// which no event told.
	// Defaults to account.
	Tenant []string `key:"tenant"`
}

// Worker is the section worker.
type Worker struct {
	// Mode is active or shadow. In shadow mode the worker decides every event beside a running broker and
	// compares with the broker's choice; it writes nothing to Gardener.
	// Defaults to active.
	Mode string `key:"mode"`
	// Shadow configures the shadow mode.
	// Defaults to a comparison every 15 seconds.
	Shadow Shadow `key:"shadow"`
	// Concurrency is the number of events that one worker handles at once.
	// Defaults to 288.
	Concurrency int `key:"concurrency"`
	// AckWait is the time without a progress report after which NATS redelivers an event. The worker reports
	// progress three times in AckWait. AckWait must be longer than Budget.
	// Defaults to 30s.
	AckWait time.Duration `key:"ackWait"`
	// Budget is how long a handler retries before it returns the event to the stream.
	// Defaults to 20s.
	Budget time.Duration `key:"budget"`
	// Drain is how long a worker that shuts down waits for events in flight. It must be at least Budget, and
	// should be below the Pod's grace period.
	// Defaults to 25s.
	Drain time.Duration `key:"drain"`
	// Reconcile configures the audit of Redis, Gardener and the ledger.
	// Defaults to once a day.
	Reconcile Reconcile `key:"reconcile"`
}

// Shadow is the section worker.shadow.
type Shadow struct {
	// Interval is the time between two comparisons with the broker's choices.
	// Defaults to 15s.
	Interval time.Duration `key:"interval"`
	// Patience is how long a decision waits for the Shoot of its runtime. It must be at least Interval.
	// Defaults to 1h.
	Patience time.Duration `key:"patience"`
}

// Reconcile is the section worker.reconcile.
type Reconcile struct {
	// Interval is the time between two audits; with 0 there is none.
	// Defaults to 24h.
	Interval time.Duration `key:"interval"`
	// Repair makes audits repair drift. Otherwise they only report it.
	// Defaults to true.
	Repair bool `key:"repair"`
}

// Telemetry is the section telemetry.
type Telemetry struct {
	// OTLP configures the collector for traces and metrics.
	// Defaults to none.
	OTLP OTLP `key:"otlp"`
	// Listen is the address, host:port, of /metrics, /healthz, /readyz, and of the operations page if
	// Page.Listen is not set. Port 0 means any free port.
	// Defaults to :8080.
	Listen string `key:"listen"`
	// LogLevel is debug, info, warn or error.
	// Defaults to info.
	LogLevel string `key:"logLevel"`
	// LogFormat is json or text.
	// Defaults to json.
	LogFormat string `key:"logFormat"`
	// TraceRatio is the share of traces that are recorded, from 0 to 1. If an event has a trace context of its
	// publisher, the publisher's decision counts instead.
	// Defaults to 1.
	TraceRatio float64 `key:"traceRatio"`
	// TenantLabel adds the label global_account_id to the metrics of events and decisions: one series per
	// tenant.
	// Defaults to false.
	TenantLabel bool `key:"tenantLabel"`
	// TenantMetrics exports keb_credentials_bindings_per_ga, which names every tenant with an account.
	// TenantLabel exports it too.
	// Defaults to false.
	TenantMetrics bool `key:"tenantMetrics"`
	// Page configures the operations page.
	// Defaults to a page that is served on a loopback address, or elsewhere only with a login.
	Page Page `key:"page"`
}

// Page is the section telemetry.page.
type Page struct {
	// Enabled serves the page.
	// Defaults to true.
	Enabled bool `key:"enabled"`
	// Username is the user name for HTTP basic authentication. It needs PasswordFile.
	// Defaults to none.
	Username string `key:"username"`
	// PasswordFile is the path of a file with the password, read at each request. It needs Username.
	// Defaults to none.
	PasswordFile string `key:"passwordFile"`
	// TokenFile is the path of a file with a bearer token, read at each request.
	// Defaults to none.
	TokenFile string `key:"tokenFile"`
	// Listen is a separate address for the page, host:port.
	// Defaults to none: the page is at / of telemetry.listen.
	Listen string `key:"listen"`
	// TLS is the certificate for Listen. It is reloaded when it changes.
	// Defaults to none.
	TLS ServerTLS `key:"tls"`
	// OIDC configures a login at an OpenID Connect issuer.
	// Defaults to none.
	OIDC OIDC `key:"oidc"`
}

// ServerTLS is the certificate of a listener.
type ServerTLS struct {
	// Cert is the path of a file with the certificate, followed by the intermediate certificates. It needs
	// Key.
	// Defaults to none.
	Cert string `key:"cert"`
	// Key is the path of a file with the certificate's key. It needs Cert.
	// Defaults to none.
	Key string `key:"key"`
}

// OIDC is the section telemetry.page.oidc.
type OIDC struct {
	// Issuer is the URL of the issuer.
	// Defaults to none.
	Issuer string `key:"issuer" secret:"url"`
	// ClientID is the page's client id at the issuer. Tokens for other clients are rejected. It needs Issuer.
	// Defaults to none.
	ClientID string `key:"clientID"`
	// ClientSecretFile is the path of a file with the client's secret, read at each login.
	// Defaults to none: a public client.
	ClientSecretFile string `key:"clientSecretFile"`
	// RedirectURL is the page's address for browsers, followed by /oidc/callback. It needs Issuer.
	// Defaults to none.
	RedirectURL string `key:"redirectURL" secret:"url"`
	// Groups lists the groups whose members may open the page; * admits every user of the issuer. It needs
	// Issuer.
	// Defaults to none.
	Groups []string `key:"groups"`
	// GroupsClaim is the claim of the ID token with the user's groups.
	// Defaults to groups.
	GroupsClaim string `key:"groupsClaim"`
	// Scopes are requested in addition to openid.
	// Defaults to groups.
	Scopes []string `key:"scopes"`
	// CA is the path of a file with the certificate authorities of the issuer, read at each connection.
	// Defaults to the system's.
	CA string `key:"ca"`
}

// OTLP is the section telemetry.otlp.
type OTLP struct {
	// Endpoint is the collector for OTLP over HTTP, as a URL or as host:port.
	// Defaults to none: nothing is sent.
	Endpoint string `key:"endpoint" secret:"url"`
	// Insecure selects http instead of https if Endpoint is host:port.
	// Defaults to false.
	Insecure bool `key:"insecure"`
	// Headers are sent with each request. Their values count as secrets.
	// Defaults to none.
	Headers map[string]string `key:"headers" secret:"value"`
}
