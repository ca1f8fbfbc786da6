package integration_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/redis/go-redis/v9"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// ground has what all lives share: a Kubernetes API that asks for rights. NATS and
// Redis are each life's own.
type ground struct {
	stack  *stack.Stack
	admin  dynamic.Interface
	typed  kubernetes.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	target *url.URL          // of the Kubernetes API
	anyone http.RoundTripper // to it, without credentials
}

func newGround(t *testing.T) *ground {
	t.Helper()
	g := &ground{stack: startStack(t, stack.Options{
		Accounts: []stack.Account{},
		Gardener: stack.CRDGardener,
		// Where the server cannot begin a watch with what there is, it is listed before.
		KubeArgs: []string{"--authorization-mode=RBAC", "--feature-gates=WatchList=false"},
	})}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	config, err := g.stack.Kube.Config()
	must(err)
	g.admin, err = dynamic.NewForConfig(config)
	must(err)
	g.typed, err = kubernetes.NewForConfig(config)
	must(err)
	g.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(g.typed.Discovery()))
	g.target, err = url.Parse(config.Host)
	must(err)
	g.anyone, err = rest.TransportFor(rest.AnonymousClientConfig(config))
	must(err)
	return g
}

// refusals are what servers have refused to a user of a life.
type refusalBook struct {
	mu   sync.Mutex
	said []string
}

func (b *refusalBook) add(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = append(b.said, text)
}

func (b *refusalBook) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.said...)
}

// The server's log, of which only what was refused is kept.
func (b *refusalBook) Errorf(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); strings.Contains(text, "Violation") {
		b.add(text)
	}
}
func (b *refusalBook) Noticef(string, ...any) {}
func (b *refusalBook) Warnf(string, ...any)   {}
func (b *refusalBook) Fatalf(string, ...any)  {}
func (b *refusalBook) Debugf(string, ...any)  {}
func (b *refusalBook) Tracef(string, ...any)  {}

// guardedNATS starts a server with permissions; seeds are files with the nkey of each role.
func guardedNATS(dir, permissions string, book *refusalBook) (s *server.Server, seeds map[string]string, err error) {
	seeds = map[string]string{}
	var users strings.Builder
	for _, role := range roles {
		if role == "SHADOW" {
			continue // no shadow runs in a life, and its permissions are another file's
		}
		key, err := nkeys.CreateUser()
		if err != nil {
			return nil, nil, err
		}
		public, errPublic := key.PublicKey()
		seed, errSeed := key.Seed()
		seeds[role] = filepath.Join(dir, role+".nk")
		if err := errors.Join(errPublic, errSeed, os.WriteFile(seeds[role], seed, 0o600)); err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(&users, "    {nkey: %s, permissions: $HAP_%s}\n", public, role)
	}
	conf := filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf("%s\nlisten: \"127.0.0.1:-1\"\njetstream {store_dir: %q, max_file_store: 64G}\nauthorization {\n  users = [\n%s  ]\n}\n", permissions, dir, users.String())
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, nil, err
	}
	options, err := server.ProcessConfigFile(conf)
	if err != nil {
		return nil, nil, err
	}
	options.NoSigs = true
	if s, err = server.NewServer(options); err != nil {
		return nil, nil, err
	}
	s.SetLoggerV2(book, false, false, false)
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		s.Shutdown()
		return nil, nil, errors.New("the NATS server does not serve")
	}
	return s, seeds, nil
}

// passwordOf is that of a user in Redis.
func passwordOf(user string) string { return "password-of-" + user }

// grantRedis makes the users of a file.
func (l *life) grantRedis(ctx context.Context, acl string) error {
	for line := range strings.Lines(acl) {
		words := strings.Fields(line)
		if len(words) < 2 || words[1] == "default" {
			continue
		}
		rules := []any{"ACL", "SETUSER", words[1], "reset", ">" + passwordOf(words[1])}
		for _, word := range words[2:] {
			if word[0] != '#' {
				rules = append(rules, word)
			}
		}
		if err := l.redis.Do(ctx, rules...).Err(); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
	}
	return nil
}

// refusedByRedis has what its users were refused.
func (l *life) refusedByRedis(ctx context.Context) (refused []string) {
	if l.redis == nil {
		return nil
	}
	entries, err := l.redis.ACLLog(ctx, 100).Result()
	if err != nil {
		return nil
	}
	for _, e := range entries {
		refused = append(refused, fmt.Sprintf("Redis refuses %s the %s %s", e.Username, e.Reason, e.Object))
	}
	return refused
}

// grantKubernetes applies the manifests, and returns the service account's token.
func (g *ground) grantKubernetes(ctx context.Context, life string, manifests []*unstructured.Unstructured) (token string, err error) {
	account := ""
	for _, object := range manifests {
		kind := object.GroupVersionKind()
		mapping, err := g.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return "", err
		}
		var to dynamic.ResourceInterface = g.admin.Resource(mapping.Resource)
		if mapping.Scope.Name() == "namespace" {
			namespace := object.GetNamespace()
			if namespace == "" {
				namespace = life
			}
			to = g.admin.Resource(mapping.Resource).Namespace(namespace)
		}
		if kind.Kind == "ServiceAccount" {
			account = object.GetName()
		}
		if _, err := to.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return "", fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
		}
	}
	asked, err := g.typed.CoreV1().ServiceAccounts(life).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return asked.Status.Token, nil
}

// watched returns the kubeconfig of a service account that leads through a proxy,
// which writes down what the API refuses.
func (g *ground) watched(dir, token string, book *refusalBook) (kubeconfig string, proxy *httptest.Server, err error) {
	proxy = httptest.NewTLSServer(&httputil.ReverseProxy{ // a token is sent over TLS only
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(g.target) },
		Transport: g.anyone, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized {
				book.add(fmt.Sprintf("Kubernetes refuses %s %s", r.Request.Method, r.Request.URL.Path))
			}
			return nil
		},
	})
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
	kubeconfig = filepath.Join(dir, "kubeconfig")
	var text bytes.Buffer
	fmt.Fprintf(&text, "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n")
	fmt.Fprintf(&text, "clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\nusers: [{name: u, user: {token: %q}}]\n",
		proxy.URL, base64.StdEncoding.EncodeToString(authority), token)
	return kubeconfig, proxy, os.WriteFile(kubeconfig, text.Bytes(), 0o600)
}

// startRedis starts the life's own redis-server: what one of another has loaded
// would hide what is missed.
func (l *life) startRedis(ctx context.Context) error {
	port, err := stack.FreePort()
	if err != nil {
		return err
	}
	stop, err := startRedisServer(ctx, l.dir, port, "--port", strconv.Itoa(port))
	if err != nil {
		return err
	}
	l.later(stop)
	l.redisAddress = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	l.redis = redis.NewClient(&redis.Options{Addr: l.redisAddress, DisableIdentity: true})
	l.later(func() { _ = l.redis.Close() })
	return nil
}
