package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/conf"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// signer makes of accounts.conf what nsc makes of the commands in docs/nats.md: accounts
// and users as claims, signed by an operator and by the accounts.
type signer struct {
	t        *testing.T
	read     map[string]any // the accounts of accounts.conf
	bare     bool           // the users have no permissions
	operator nkeys.KeyPair
	accounts map[string]nkeys.KeyPair // by name
	ids      map[string]string        // of the accounts, by name
	users    map[string]string        // files with credentials, by public nkey of accounts.conf
}

// operatorOptions are those of a server with the accounts of a directory's
// nats-server.conf in operator mode. Instead of the users' nkeys there are files with
// credentials, by role, and by account those of an administrator.
func (g *guarded) operatorOptions(dir string, keys map[string]string) *server.Options {
	t := g.t
	t.Helper()
	read, err := conf.ParseFile(filepath.Join(dir, "nats-server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	s := &signer{t: t, read: read["accounts"].(map[string]any), bare: g.bare, accounts: map[string]nkeys.KeyPair{}, ids: map[string]string{}, users: map[string]string{}}
	s.operator = must(nkeys.CreateOperator())
	for name := range s.read {
		s.accounts[name] = must(nkeys.CreateAccount())
		s.ids[name] = must(s.accounts[name].PublicKey())
	}
	system := must(must(nkeys.CreateAccount()).PublicKey()) // JetStream does not start without one
	preload := fmt.Sprintf("%s: %q\n", system, must(jwt.NewAccountClaims(system).Encode(s.operator)))
	for name, account := range s.read {
		preload += fmt.Sprintf("  %s: %q\n", s.ids[name], s.account(name, account.(map[string]any)))
		g.files[name], _, _ = credentials(t, s.accounts[name])
	}
	for role, key := range keys {
		g.files[role] = s.users[key]
	}
	operator := must(jwt.NewOperatorClaims(must(s.operator.PublicKey())).Encode(s.operator))
	file := filepath.Join(dir, "operator.conf")
	text := fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream {store_dir: %q, max_file_store: 64G, max_memory_store: 1G}\noperator: %q\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {\n  %s}\n",
		filepath.Join(dir, "data"), operator, system, preload)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return must(server.ProcessConfigFile(file))
}

// account are the claims of an account, and of its users.
func (s *signer) account(name string, of map[string]any) (token string) {
	s.t.Helper()
	claims := jwt.NewAccountClaims(s.ids[name])
	claims.Name = name
	if limits, some := of["limits"].(map[string]any); some {
		claims.Limits.Conn, claims.Limits.Subs, claims.Limits.Payload = limits["max_connections"].(int64), limits["max_subscriptions"].(int64), limits["max_payload"].(int64)
	}
	if limits, some := of["jetstream"].(map[string]any); some {
		claims.Limits.DiskStorage, claims.Limits.MemoryStorage = limits["max_file"].(int64), limits["max_mem"].(int64)
		claims.Limits.Streams, claims.Limits.Consumer = limits["max_streams"].(int64), limits["max_consumers"].(int64)
	}
	exports, _ := of["exports"].([]any)
	for _, one := range exports {
		export := one.(map[string]any)
		kind, subject := service(export)
		made := &jwt.Export{Name: subject.(string), Subject: jwt.Subject(subject.(string)), Type: kind, TokenReq: true}
		if kind == jwt.Service {
			made.ResponseType = jwt.ResponseTypeSingleton
			if export["response_type"] == "stream" {
				made.ResponseType = jwt.ResponseTypeStream
			}
		}
		claims.Exports.Add(made)
	}
	imports, _ := of["imports"].([]any)
	for _, one := range imports {
		claims.Imports.Add(s.imported(name, one.(map[string]any)))
	}
	users, _ := of["users"].([]any)
	for _, one := range users {
		s.user(name, one.(map[string]any))
	}
	found := jwt.CreateValidationResults()
	claims.Validate(found)
	for _, err := range found.Errors() {
		s.t.Errorf("account %s: %v", name, err)
	}
	return must(claims.Encode(s.operator))
}

// permits reports whether the file exports a subject to an account.
func (s *signer) permits(from, to string, kind jwt.ExportType, subject string) bool {
	return slices.ContainsFunc(s.read[from].(map[string]any)["exports"].([]any), func(one any) bool {
		exported, what := service(one.(map[string]any))
		return exported == kind && what == subject && slices.Contains(texts(one.(map[string]any)["accounts"]), to)
	})
}

// imported is an import with the token by which the exporter permits it.
func (s *signer) imported(by string, of map[string]any) *jwt.Import {
	s.t.Helper()
	kind, source := service(of)
	from, subject := source.(map[string]any)["account"].(string), source.(map[string]any)["subject"].(string)
	if !s.permits(from, by, kind, subject) {
		s.t.Fatalf("%s imports %s, which %s does not export to it", by, subject, from)
	}
	activation := jwt.NewActivationClaims(s.ids[by])
	activation.ImportSubject, activation.ImportType = jwt.Subject(subject), kind
	made := &jwt.Import{Name: subject, Subject: jwt.Subject(subject), Account: s.ids[from], Type: kind, Token: must(activation.Encode(s.accounts[from]))}
	if to, other := of["to"].(string); other {
		made.LocalSubject = jwt.RenamingSubject(to)
	}
	return made
}

// user makes a user with the permissions that it has in the file.
func (s *signer) user(account string, of map[string]any) {
	s.t.Helper()
	key, public, _ := user(s.t)
	claims := jwt.NewUserClaims(public)
	if permissions, some := of["permissions"].(map[string]any); some && !s.bare {
		claims.Pub.Allow.Add(texts(permissions["publish"])...)
		claims.Sub.Allow.Add(texts(permissions["subscribe"])...)
	}
	content := must(jwt.FormatUserConfig(must(claims.Encode(s.accounts[account])), must(key.Seed())))
	file := filepath.Join(s.t.TempDir(), "user.creds")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.users[of["nkey"].(string)] = file
}

// service tells whether an export or import is of a service or of a stream, and what it says of it.
func service(of map[string]any) (jwt.ExportType, any) {
	if what, is := of["service"]; is {
		return jwt.Service, what
	}
	return jwt.Stream, of["stream"]
}

func texts(list any) (all []string) {
	for _, one := range list.([]any) {
		all = append(all, one.(string))
	}
	return all
}

// must is for what fails only where the test itself is wrong.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
