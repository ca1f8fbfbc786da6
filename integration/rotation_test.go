package integration_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/worker/config"
)

// rotated is a server whose credentials change under a connection.
type rotated struct {
	at   *server.Server
	nats config.NATS
	// server has the server take the new credentials only; its connections end.
	server func(nc *nats.Conn)
	// client puts the new credentials in the place of the old ones.
	client func()
}

// TestRotationNATS: a credential is changed under load, first at the client or first at
// the server. What is published arrives, once.
func TestRotationNATS(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T) rotated{
		"nkey": func(t *testing.T) rotated {
			_, old, file := user(t)
			_, anew, other := user(t)
			s, reload := natsReloaded(t, "authorization {users = [{nkey: "+old+"}]}")
			return rotated{
				at:     s,
				nats:   config.NATS{URL: config.URLs{s.ClientURL()}, NKey: file},
				server: func(*nats.Conn) { reload("authorization {users = [{nkey: " + anew + "}]}") },
				client: func() { replace(t, file, other) },
			}
		},
		"certificates": func(t *testing.T) rotated {
			ours, other := newAuthority(t), newAuthority(t)
			secure := func(a *authority, p pair) string {
				return fmt.Sprintf("tls {cert_file: %q, key_file: %q, ca_file: %q, verify: true}", p.cert, p.key, a.CA)
			}
			client, next := ours.sign("client"), other.sign("client")
			s, reload := natsReloaded(t, secure(ours, ours.sign("server")))
			return rotated{
				at: s,
				nats: config.NATS{
					URL: config.URLs{strings.Replace(s.ClientURL(), "nats://", "tls://", 1)},
					TLS: config.TLS{CA: ours.CA, Cert: client.cert, Key: client.key},
				},
				server: func(nc *nats.Conn) {
					reload(secure(other, other.sign("server")))
					if err := nc.ForceReconnect(); err != nil { // a reload leaves connections alone
						t.Error(err)
					}
				},
				client: func() {
					replace(t, ours.CA, other.CA)
					replace(t, client.key, next.key)
					replace(t, client.cert, next.cert)
				},
			}
		},
		"credentials": func(t *testing.T) rotated {
			s, account := operatedNATS(t)
			file, _, _ := credentials(t, account)
			other, _, _ := credentials(t, account)
			return rotated{
				at:   s,
				nats: config.NATS{URL: config.URLs{s.ClientURL()}, Credentials: file},
				server: func(nc *nats.Conn) {
					if err := os.WriteFile(file, nil, 0o600); err != nil { // those of before are no longer any
						t.Error(err)
					}
					if err := nc.ForceReconnect(); err != nil {
						t.Error(err)
					}
				},
				client: func() { replace(t, file, other) },
			}
		},
	} {
		for _, first := range []string{"client", "server"} {
			if name == "credentials" && first == "client" {
				continue // the server takes both
			}
			t.Run(name+", first at the "+first, func(t *testing.T) {
				t.Parallel()
				underRotation(t, begin(t), first)
			})
		}
	}
}

// underRotation publishes 200 messages, again until the server has each, while the
// credentials change after the first hundred.
func underRotation(t *testing.T, r rotated, first string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	nc, err := connect.NATS(ctx, r.nats, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "LOAD", Subjects: []string{"load"}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		if n == 100 {
			if first == "client" {
				r.client()
			}
			r.server(nc)
			if first == "server" {
				threeTries(ctx, t, r.at)
				r.client()
			}
		}
		for {
			attempt, done := context.WithTimeout(ctx, 2*time.Second)
			_, err := js.Publish(attempt, "load", nil, jetstream.WithMsgID(fmt.Sprint(n)))
			done()
			if err == nil {
				break
			}
			if ctx.Err() != nil || nc.IsClosed() {
				t.Fatalf("message %d: %v, closed %t", n, err, nc.IsClosed())
			}
		}
	}
	info, err := stream.Info(ctx)
	if err != nil || info.State.Msgs != 200 {
		t.Fatalf("the stream has %+v: %v", info, err)
	}
}

// threeTries returns when a server was connected to three times more: after two refusals
// in a row the library stops, unless it is told not to.
func threeTries(ctx context.Context, t *testing.T, s *server.Server) {
	t.Helper()
	tried := func() uint64 {
		v, err := s.Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		return v.TotalConnections
	}
	before := tried()
	eventually(ctx, t, func() error {
		if n := tried() - before; n < 3 {
			return fmt.Errorf("%d tries", n)
		}
		return nil
	})
}

// replace puts what one file has in the place of another, as a mounted Secret does.
func replace(t *testing.T, file, by string) {
	t.Helper()
	content, err := os.ReadFile(by)
	if err == nil {
		err = os.WriteFile(file+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestRotationRedis: certificates and authority are changed under a store.
func TestRotationRedis(t *testing.T) {
	t.Parallel()
	ours, other := newAuthority(t), newAuthority(t)
	server, client := ours.sign("server"), ours.sign("client")
	nextServer, nextClient := other.sign("server"), other.sign("client")
	port := freePort(t)
	redisProcess(t, port, "--port", "0", "--tls-port", fmt.Sprint(port), "--tls-cert-file", server.cert, "--tls-key-file", server.key, "--tls-ca-cert-file", ours.CA)
	c := config.Redis{
		URL: config.URLs{fmt.Sprintf("rediss://127.0.0.1:%d", port)}, PoolSize: 2,
		TLS: config.TLS{CA: ours.CA, Cert: client.cert, Key: client.key},
	}
	store, err := connected(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := decides(t.Context(), store, "e1"); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	authority, errAuthority := os.ReadFile(ours.CA)
	certificate, errCertificate := tls.LoadX509KeyPair(client.cert, client.key)
	if err := errors.Join(errAuthority, errCertificate); err != nil || !pool.AppendCertsFromPEM(authority) {
		t.Fatal(err)
	}
	admin := redis.NewClient(&redis.Options{
		Addr: fmt.Sprintf("127.0.0.1:%d", port), PoolSize: 1, DisableIdentity: true,
		TLSConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}},
	})
	defer admin.Close()
	ctx := t.Context()
	if err := admin.Do(ctx, "CONFIG", "SET", "tls-cert-file", nextServer.cert, "tls-key-file", nextServer.key, "tls-ca-cert-file", other.CA).Err(); err != nil {
		t.Fatal(err)
	}
	if err := admin.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Queue(ctx, "aws"); err == nil {
		t.Fatal("the server takes the old certificates")
	}
	replace(t, ours.CA, other.CA)
	replace(t, client.key, nextClient.key)
	replace(t, client.cert, nextClient.cert)
	if _, err := store.Queue(ctx, "aws"); err != nil {
		t.Errorf("with the new ones: %v", err)
	}
}
