package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/config"
)

// natsWith starts a nats-server with JetStream and further configuration.
func natsWith(t *testing.T, text string) *server.Server {
	t.Helper()
	s, _ := natsReloaded(t, text)
	return s
}

// natsReloaded is natsWith, and what takes further configuration in the place of that.
func natsReloaded(t *testing.T, text string) (s *server.Server, reload func(text string)) {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "nats.conf")
	write := func(text string) {
		text = fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream {store_dir: %q, max_file_store: 64G}\n%s\n", dir, text)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	options, err := server.ProcessConfigFile(conf)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	options.NoSigs = true
	if s, err = server.NewServer(options); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server does not serve")
	}
	return s, func(text string) {
		write(text)
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
	}
}

// reaches connects as a worker does and sets its streams up; the error is why the first
// attempt failed.
func reaches(t *testing.T, c config.NATS) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	told := make(chan string, 16)
	nc, err := connect.NATS(ctx, c, "test", func(text string) {
		select {
		case told <- text:
		default:
		}
		cancel()
	})
	if err != nil {
		select {
		case text := <-told:
			return errors.Join(err, errors.New(text))
		default:
			return err
		}
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	_, err = storage.Setup(ctx, js, storage.Options{Manage: true, MaxAckPending: 16, AckWait: time.Second})
	return err
}

// user is an nkey: its seed, in a file, and its public part.
func user(t *testing.T) (key nkeys.KeyPair, public, seedFile string) {
	t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, errPublic := key.PublicKey()
	seed, errSeed := key.Seed()
	seedFile = filepath.Join(t.TempDir(), "seed.nk")
	if err := errors.Join(errPublic, errSeed, os.WriteFile(seedFile, seed, 0o600)); err != nil {
		t.Fatal(err)
	}
	return key, public, seedFile
}

// operatedNATS is a server of an operator, as `nsc` makes it, and the account that its
// users are of.
func operatedNATS(t *testing.T) (s *server.Server, account nkeys.KeyPair) {
	t.Helper()
	operator, errOperator := nkeys.CreateOperator()
	account, errAccount := nkeys.CreateAccount()
	system, errSystem := nkeys.CreateAccount()
	if err := errors.Join(errOperator, errAccount, errSystem); err != nil {
		t.Fatal(err)
	}
	operatorID, _ := operator.PublicKey()
	accountID, _ := account.PublicKey()
	systemID, _ := system.PublicKey()
	claims := jwt.NewAccountClaims(accountID)
	claims.Limits.DiskStorage, claims.Limits.MemoryStorage = -1, -1
	operatorJWT, errOperator := jwt.NewOperatorClaims(operatorID).Encode(operator)
	accountJWT, errAccount := claims.Encode(operator)
	systemJWT, errSystem := jwt.NewAccountClaims(systemID).Encode(operator)
	if err := errors.Join(errOperator, errAccount, errSystem); err != nil {
		t.Fatal(err)
	}
	// JetStream does not start without a system account.
	return natsWith(t, fmt.Sprintf("operator: %q\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {%s: %q, %s: %q}",
		operatorJWT, systemID, systemID, systemJWT, accountID, accountJWT)), account
}

// credentials are those of a new user of an account, in a file: its JWT, and the seed
// that proves it.
func credentials(t *testing.T, account nkeys.KeyPair) (file, token, seed string) {
	t.Helper()
	key, public, seedFile := user(t)
	token, errToken := jwt.NewUserClaims(public).Encode(account)
	secret, errSeed := key.Seed()
	content, errContent := jwt.FormatUserConfig(token, secret)
	file = filepath.Join(filepath.Dir(seedFile), "user.creds")
	if err := errors.Join(errToken, errSeed, errContent, os.WriteFile(file, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	return file, token, string(secret)
}

// TestNATSCredentials is a server of an operator: the worker has a credentials file.
func TestNATSCredentials(t *testing.T) {
	t.Parallel()
	s, account := operatedNATS(t)
	ours, _, _ := credentials(t, account)
	if err := reaches(t, config.NATS{URL: config.URLs{s.ClientURL()}, Credentials: ours}); err != nil {
		t.Error(err)
	}
	other, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	foreign, _, _ := credentials(t, other)
	refusedBy(t, "credentials of another account", reaches(t, config.NATS{URL: config.URLs{s.ClientURL()}, Credentials: foreign}), "authorization")
	refusedBy(t, "no credentials", reaches(t, config.NATS{URL: config.URLs{s.ClientURL()}}), "authorization")
	refusedBy(t, "a file that is not there", reaches(t, config.NATS{URL: config.URLs{s.ClientURL()}, Credentials: "/no/such.creds"}), "/no/such.creds")
}

func refusedBy(t *testing.T, what string, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(part)) {
		t.Errorf("%s: %v, want it to say %s", what, err, part)
	}
}

// TestNATSSeed is a server that knows the public part of an nkey; the worker has a
// file with its seed.
func TestNATSSeed(t *testing.T) {
	t.Parallel()
	_, public, seed := user(t)
	_, _, other := user(t)
	s := natsWith(t, "authorization {users = [{nkey: "+public+"}]}")
	if err := reaches(t, config.NATS{URL: config.URLs{s.ClientURL()}, NKey: seed}); err != nil {
		t.Error(err)
	}
	refusedBy(t, "another seed", reaches(t, config.NATS{URL: config.URLs{s.ClientURL()}, NKey: other}), "authorization")
	refusedBy(t, "a file that is no seed", reaches(t, config.NATS{URL: config.URLs{s.ClientURL()}, NKey: "main_test.go"}), "nats.nkey")
}

// TestNATSTLS reaches a server over TLS, and one that asks for the client's
// certificate; whom the authority does not know is refused on either side.
func TestNATSTLS(t *testing.T) {
	t.Parallel()
	ours, other := newAuthority(t), newAuthority(t)
	serving, client, stranger := ours.sign("server"), ours.sign("client"), other.sign("stranger")
	for _, mutual := range []bool{false, true} {
		t.Run(fmt.Sprintf("client certificates %t", mutual), func(t *testing.T) {
			t.Parallel()
			s := natsWith(t, fmt.Sprintf("tls {cert_file: %q, key_file: %q, ca_file: %q, verify: %t}", serving.cert, serving.key, ours.CA, mutual))
			url := strings.Replace(s.ClientURL(), "nats://", "tls://", 1)
			for _, way := range []struct {
				name string
				tls  config.TLS
				ok   bool
			}{
				{"a known server", config.TLS{CA: ours.CA}, !mutual},
				{"with a certificate", config.TLS{CA: ours.CA, Cert: client.cert, Key: client.key}, true},
				{"a stranger's certificate", config.TLS{CA: ours.CA, Cert: stranger.cert, Key: stranger.key}, !mutual},
				{"an unknown server", config.TLS{CA: other.CA, Cert: client.cert, Key: client.key}, false},
				{"no authority but the system's", config.TLS{}, false},
			} {
				err := reaches(t, config.NATS{URL: config.URLs{url}, TLS: way.tls})
				if (err == nil) != way.ok {
					t.Errorf("%s: %v", way.name, err)
				}
			}
			refusedBy(t, "a key that is not there", reaches(t, config.NATS{URL: config.URLs{url}, TLS: config.TLS{CA: ours.CA, Cert: client.cert, Key: "/no/such.key"}}), "nats.tls")
		})
	}
}
