package integration_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/worker/config"
)

// turning are a NATS and a Redis that ask for all that a worker can bring: certificates
// on both sides, a key, a password. Worker and publisher read the same files.
type turning struct {
	t      *testing.T
	nats   config.NATS
	redis  config.Redis
	server *server.Server
	reload func(text string)

	authority *authority
	pair      pair // the clients', whose files are replaced
	key       string
	served    pair // of the servers
	password  string
}

func newTurning(t *testing.T) *turning {
	t.Helper()
	r := &turning{t: t, authority: newAuthority(t), password: "first"}
	_, key, seed := user(t)
	r.key, r.served, r.pair = key, r.authority.sign("server"), r.authority.sign("client")
	r.server, r.reload = natsReloaded(t, r.natsConf())
	port := freePort(t)
	redisProcess(t, port, "--port", "0", "--tls-port", fmt.Sprint(port), "--requirepass", r.password, "--appendonly", "no",
		"--tls-cert-file", r.served.cert, "--tls-key-file", r.served.key, "--tls-ca-cert-file", r.authority.CA)
	passwordFile := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(passwordFile, []byte(r.password), 0o600); err != nil {
		t.Fatal(err)
	}
	secure := config.TLS{CA: filepath.Join(t.TempDir(), "ca.crt"), Cert: r.pair.cert, Key: r.pair.key}
	replace(t, secure.CA, r.authority.CA)
	r.nats = config.NATS{URL: config.URLs{strings.Replace(r.server.ClientURL(), "nats://", "tls://", 1)}, NKey: seed, TLS: secure}
	r.redis = config.Redis{URL: config.URLs{fmt.Sprintf("rediss://127.0.0.1:%d", port)}, PasswordFile: passwordFile, TLS: secure, PoolSize: 8, Prefix: "hap"}
	return r
}

func (r *turning) natsConf() string {
	return fmt.Sprintf("authorization {users = [{nkey: %s}]}\ntls {cert_file: %q, key_file: %q, ca_file: %q, verify: true}",
		r.key, r.served.cert, r.served.key, r.authority.CA)
}

func (r *turning) env() []string {
	var env []string
	for key, value := range map[string]string{
		"NATS_URL": r.nats.URL[0], "NATS_NKEY": r.nats.NKey, "NATS_TLS_CA": r.nats.TLS.CA, "NATS_TLS_CERT": r.nats.TLS.Cert, "NATS_TLS_KEY": r.nats.TLS.Key,
		"REDIS_URL": r.redis.URL[0], "REDIS_PASSWORD_FILE": r.redis.PasswordFile, "REDIS_TLS_CA": r.redis.TLS.CA, "REDIS_TLS_CERT": r.redis.TLS.Cert, "REDIS_TLS_KEY": r.redis.TLS.Key,
	} {
		env = append(env, "HAP_"+key+"="+value)
	}
	return env
}

// admin is a connection to Redis with what is valid now.
func (r *turning) admin() *redis.Client {
	r.t.Helper()
	pool := x509.NewCertPool()
	authority, errAuthority := os.ReadFile(r.authority.CA)
	mine := r.authority.sign("admin")
	certificate, errCertificate := tls.LoadX509KeyPair(mine.cert, mine.key)
	if err := errors.Join(errAuthority, errCertificate); err != nil || !pool.AppendCertsFromPEM(authority) {
		r.t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{
		Addr: strings.TrimPrefix(r.redis.URL[0], "rediss://"), Password: r.password, PoolSize: 1, DisableIdentity: true,
		TLSConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}},
	})
	r.t.Cleanup(func() { client.Close() })
	return client
}

// disconnect ends all connections to NATS: a reload leaves alone what it only concerns
// at the next one.
func (r *turning) disconnect() {
	r.t.Helper()
	connections, err := r.server.Connz(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range connections.Conns {
		_ = r.server.DisconnectClientByID(c.Cid) // it may be gone by itself
	}
}

// The credentials that are changed. Each is changed at the server first, whose
// connections end, so that there is a time in which the worker has only the old one.
func (r *turning) natsKey(context.Context) {
	_, public, seed := user(r.t)
	r.key = public
	r.reload(r.natsConf())
	replace(r.t, r.nats.NKey, seed)
}

func (r *turning) redisPassword(ctx context.Context) {
	admin := r.admin()
	r.password = "second"
	if err := admin.ConfigSet(ctx, "requirepass", r.password).Err(); err != nil {
		r.t.Fatal(err)
	}
	if err := admin.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.redis.PasswordFile, []byte(r.password+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// certificates changes the authority and what it signed, of both servers and all clients.
func (r *turning) certificates(ctx context.Context) {
	admin := r.admin()
	r.authority = newAuthority(r.t)
	r.served = r.authority.sign("server")
	r.reload(r.natsConf())
	if err := admin.Do(ctx, "CONFIG", "SET", "tls-cert-file", r.served.cert, "tls-key-file", r.served.key, "tls-ca-cert-file", r.authority.CA).Err(); err != nil {
		r.t.Fatal(err)
	}
	if err := admin.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		r.t.Fatal(err)
	}
	r.disconnect()
	next := r.authority.sign("client")
	replace(r.t, r.nats.TLS.CA, r.authority.CA)
	replace(r.t, r.pair.key, next.key)
	replace(r.t, r.pair.cert, next.cert)
}

// TestRotationUnderLoad changes each credential of a worker and of its publishers while
// requests come. Each request has one answer, and Redis counts what was answered.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	r := newTurning(t)
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	l.work(daemon.Options{Env: r.env()})
	changedUnderLoad(t, l, loaded{nats: r.nats, redis: func() config.Redis { return r.redis }, changes: []func(context.Context){r.natsKey, r.redisPassword, r.certificates}})
}

// TestRotationOfCredentialsUnderLoad is the same with the credentials of an operator's
// server, which ends the connections of a user that it revokes.
func TestRotationOfCredentialsUnderLoad(t *testing.T) {
	t.Parallel()
	s, account := operatedNATS(t)
	file, token, _ := credentials(t, account)
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	c := config.NATS{URL: config.URLs{s.ClientURL()}, Credentials: file}
	l.work(daemon.Options{Env: []string{"HAP_NATS_URL=" + c.URL[0], "HAP_NATS_CREDENTIALS=" + file}})
	changedUnderLoad(t, l, loaded{nats: c, changes: []func(context.Context){func(ctx context.Context) {
		old, err := jwt.DecodeUserClaims(token)
		if err != nil {
			t.Fatal(err)
		}
		id, err := account.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		claims := jwt.NewAccountClaims(id)
		claims.Limits.DiskStorage, claims.Limits.MemoryStorage = -1, -1
		claims.Revoke(old.Subject)
		of, err := s.LookupAccount(id)
		if err != nil {
			t.Fatal(err)
		}
		s.UpdateAccountClaims(of, claims)
		threeTries(ctx, t, s)
		next, _, _ := credentials(t, account)
		replace(t, file, next)
	}}})
}

// TestRotationOfKubeconfigUnderLoad changes the token of a kubeconfig, and the authority
// of its server. Each request is a tenant's first one, so that Gardener has a part in it.
func TestRotationOfKubeconfigUnderLoad(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 400))
	g := newGuardedAPI(t, l.stack)
	l.work(daemon.Options{Env: []string{"HAP_GARDENER_KUBECONFIG=" + g.kubeconfig}})
	changedUnderLoad(t, l, loaded{tenants: 400, changes: []func(context.Context){g.change, g.change}})
	if n := g.refused.Load(); n == 0 {
		t.Error("the API refused nothing: no credential was ever out of date")
	}
}

// loaded is how a worker is asked while its credentials change.
type loaded struct {
	nats    config.NATS         // of the publishers; the stack's if empty
	redis   func() config.Redis // as it is at the end; nil for the stack's
	tenants int                 // how many ask, one request each; 0 for one that asks without end
	changes []func(context.Context)
}

func changedUnderLoad(t *testing.T, l *landscape, o loaded) {
	t.Helper()
	if len(o.nats.URL) == 0 {
		o.nats.URL = config.URLs{l.stack.NATS.URL()}
	}
	nc, err := connect.NATS(l.ctx, o.nats, "publisher", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	client, err := requests.NewClient(nc, requests.ClientOptions{Source: "/test"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const publishers = 4
	load, end := context.WithCancel(l.ctx)
	defer end()
	var answered atomic.Int64
	var all sync.WaitGroup
	for publisher := range publishers {
		all.Go(func() {
			for n := 0; load.Err() == nil && (o.tenants == 0 || n < o.tenants/publishers); n++ {
				id, tenant := fmt.Sprintf("rt-%d-%d", publisher, n), "ga-1"
				if o.tenants > 0 {
					tenant = "ga-" + id
				}
				if err := asked(l.ctx, client, id, tenant); err != nil {
					t.Error(err)
					return
				}
				answered.Add(1)
			}
		})
	}
	further := func(n int64) {
		from := answered.Load()
		within, done := context.WithTimeout(l.ctx, 2*time.Minute)
		defer done()
		eventually(within, t, func() error {
			if now := answered.Load(); now < from+n {
				return fmt.Errorf("%d answers, %d before", now, from)
			}
			return nil
		})
	}
	for _, change := range o.changes {
		further(25)
		change(l.ctx)
		further(25)
	}
	end()
	all.Wait()
	redis := config.Redis{URL: config.URLs{l.stack.Redis.URL()}, Prefix: "hap"}
	if o.redis != nil {
		redis = o.redis()
	}
	counted(l.ctx, t, o.nats, redis, client, answered.Load())
}

// asked asks for an account until there is an answer: the same request each time.
func asked(ctx context.Context, client *requests.Client, id, tenant string) error {
	for {
		attempt, done := context.WithTimeout(ctx, 5*time.Second)
		_, err := client.Provision(attempt, "req-"+id, events.Provision{RuntimeID: id, GlobalAccountID: tenant, Plan: "aws"})
		done()
		if err == nil || ctx.Err() != nil {
			return err
		}
		var refused *requests.Rejected
		if errors.As(err, &refused) || errors.Is(err, requests.ErrClientClosed) {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
}

// counted compares what was answered with the stored answers and with Redis.
func counted(ctx context.Context, t *testing.T, at config.NATS, redis config.Redis, client *requests.Client, answered int64) {
	t.Helper()
	store, err := connected(t, redis)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for record, err := range store.Bindings(ctx, "aws") {
		if err != nil {
			t.Fatal(err)
		}
		found += record.Count
	}
	nc, err := connect.NATS(ctx, at, "reader", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, events.StreamReplies)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	replies, subjects := info.State.Msgs-1, info.State.NumSubjects-1 // without the record of epochs
	if int64(found) != answered || replies != uint64(answered) || subjects != uint64(answered) {
		t.Errorf("%d answers; Redis counts %d, the ledger has %d replies on %d subjects", answered, found, replies, subjects)
	}
	if _, err := client.Await(ctx, "rt-0-0", "req-rt-0-0"); err != nil {
		t.Errorf("the first answer, asked for at the end: %v", err)
	}
}
