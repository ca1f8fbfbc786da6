package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// layout is how a server divides the roles of deploy/nats.
type layout string

const (
	oneAccount   layout = "one account"              // permissions.conf alone
	roleAccounts layout = "an account for each role" // accounts.conf
	byOperator   layout = "an operator"              // accounts.conf, as claims that an operator signs
)

// guarded is a NATS server with the configuration of deploy/nats, and what it refused.
type guarded struct {
	t      *testing.T
	layout layout
	url    string
	bare   bool              // the users have no permissions
	seeds  map[string]string // by role, files with the seed of its nkey
	files  map[string]string // by role or account, files with credentials of an operator's

	mu      sync.Mutex
	refused []string
	seen    map[string]bool // every subject that anybody published on
}

var roles = []string{"PUBLISHER", "CLEANUP", "WORKER", "OPERATOR", "SHADOW"}

// newGuarded starts the server. An administrator of the test's own listens to
// everything that a role publishes.
func newGuarded(t *testing.T, way layout) *guarded {
	t.Helper()
	g := &guarded{t: t, layout: way}
	g.serve(nil, refusals{g})
	for _, account := range g.accountsOf(roles) {
		admin := g.admin(account)
		// Of all inboxes only that of the copies: to the server, a pull request whose client
		// is gone is worth serving as long as anybody listens to its inbox.
		for _, subject := range []string{"hap.>", "$JS.>", "_INBOX.publisher.copies"} {
			if _, err := admin.Subscribe(subject, g.saw); err != nil {
				t.Fatal(err)
			}
		}
		if err := admin.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// serve starts the server, with the configuration as change has edited it.
func (g *guarded) serve(change func(text string) string, log server.Logger) {
	g.t.Helper()
	g.seeds, g.files, g.seen = map[string]string{}, map[string]string{}, map[string]bool{}
	keys := map[string]string{}
	for _, role := range roles {
		_, keys[role], g.seeds[role] = user(g.t)
	}
	dir := g.configured(keys, change)
	var options *server.Options
	if g.layout == byOperator {
		options = g.operatorOptions(dir, keys)
	} else {
		options = g.fileOptions(dir)
	}
	options.NoSigs = true
	options.JetStreamRequestQueueLimit = 1 << 20 // the server drops all that waits where more wait
	g.url = started(g.t, options, log).ClientURL()
}

// configured writes the configuration of deploy/nats into a directory, with the users'
// public nkeys by role, after change has edited it.
func (g *guarded) configured(keys map[string]string, change func(text string) string) (dir string) {
	t := g.t
	t.Helper()
	dir = t.TempDir()
	write := func(file, text string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"permissions.conf", "shadow.conf"} {
		write(file, deployed(t, file))
	}
	main := deployed(t, "nats-server.conf")
	main = edited(t, main, `"0.0.0.0:4222"`, `"127.0.0.1:-1"`)
	main = edited(t, main, `"/data"`, fmt.Sprintf("%q", filepath.Join(dir, "data")))
	main = edited(t, main, "  sync_interval: always\n", "") // the machine of a test does not fail
	if g.layout == oneAccount {
		var users strings.Builder
		for _, role := range roles {
			fmt.Fprintf(&users, "    {nkey: %s, permissions: $HAP_%s}\n", keys[role], role)
		}
		main = edited(t, main, "include accounts.conf", "include permissions.conf\ninclude shadow.conf\nauthorization {\n  users = [\n"+users.String()+"  ]\n}")
	} else {
		users := edited(t, deployed(t, "users.conf"), "\nHAP_SHADOW_USERS = []", "")
		users = edited(t, edited(t, users, "#   include shadow.conf", "include shadow.conf"), "#   HAP_SHADOW_USERS", "HAP_SHADOW_USERS")
		for role, key := range keys {
			users = edited(t, users, "$HAP_"+role+"_NKEY", key)
		}
		accounts := deployed(t, "accounts.conf")
		if change != nil {
			accounts = change(accounts)
		}
		write("users.conf", users)
		write("accounts.conf", accounts)
	}
	write("nats-server.conf", main)
	return dir
}

// fileOptions reads the configuration in a directory. An administrator of each account is added.
func (g *guarded) fileOptions(dir string) *server.Options {
	t := g.t
	t.Helper()
	options, err := server.ProcessConfigFile(filepath.Join(dir, "nats-server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if g.bare {
		for _, user := range options.Nkeys {
			user.Permissions = nil
		}
	}
	if g.layout == oneAccount {
		options.Users = append(options.Users, &server.User{Username: "admin", Password: "admin"})
	}
	for _, account := range options.Accounts {
		options.Users = append(options.Users, &server.User{Username: account.Name, Password: "admin", Account: account})
	}
	return options
}

// edited replaces what has to be in a text.
func edited(t *testing.T, text, old, by string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("the configuration lacks %q", old)
	}
	return strings.ReplaceAll(text, old, by)
}

// started runs a server until the test ends.
func started(t *testing.T, options *server.Options, log server.Logger) *server.Server {
	t.Helper()
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	if log != nil {
		s.SetLoggerV2(log, false, false, false)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server does not serve")
	}
	return s
}

// accountsOf are the accounts of roles.
func (g *guarded) accountsOf(roles []string) (accounts []string) {
	for _, role := range roles {
		accounts = append(accounts, g.account("HAP_"+role))
	}
	return slices.Compact(accounts)
}

// account is the name of an administrator of an account of accounts.conf.
func (g *guarded) account(name string) string {
	if g.layout == oneAccount {
		return "admin"
	}
	return name
}

// admin connects as the administrator of an account.
func (g *guarded) admin(account string) *nats.Conn {
	g.t.Helper()
	login := nats.UserInfo(g.account(account), "admin")
	if file := g.files[account]; file != "" {
		login = nats.UserCredentials(file)
	}
	nc, err := nats.Connect(g.url, login)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(nc.Close)
	return nc
}

// deployed reads a file of deploy/nats.
func deployed(t *testing.T, file string) string {
	t.Helper()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "deploy", "nats", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func (g *guarded) saw(msg *nats.Msg) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen[msg.Subject] = true
}

// refusals is the server's log, of which only what was refused is kept.
type refusals struct{ g *guarded }

func (r refusals) Errorf(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); strings.Contains(text, "Violation") {
		r.g.mu.Lock()
		defer r.g.mu.Unlock()
		r.g.refused = append(r.g.refused, text)
	}
}
func (r refusals) Noticef(string, ...any)            {}
func (r refusals) Warnf(string, ...any)              {}
func (r refusals) Fatalf(format string, args ...any) { r.g.t.Errorf(format, args...) }
func (r refusals) Debugf(string, ...any)             {}
func (r refusals) Tracef(string, ...any)             {}

func (g *guarded) takeRefused() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	refused := g.refused
	g.refused = nil
	return refused
}

// as connects in a role.
func (g *guarded) as(role string, options ...nats.Option) *nats.Conn {
	g.t.Helper()
	nc, err := g.dial(role, options...)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(nc.Close)
	return nc
}

// dial is as, for who may be refused and closes the connection.
func (g *guarded) dial(role string, options ...nats.Option) (*nats.Conn, error) {
	login, err := nats.NkeyOptionFromSeed(g.seeds[role])
	if err != nil {
		return nil, err
	}
	if file := g.files[role]; file != "" {
		login = nats.UserCredentials(file)
	}
	return nats.Connect(g.url, append(options, login)...)
}

// login is how the environment of a worker says who it is.
func (g *guarded) login(role string) string {
	if file := g.files[role]; file != "" {
		return "HAP_NATS_CREDENTIALS=" + file
	}
	return "HAP_NATS_NKEY=" + g.seeds[role]
}

// client is a publisher in a role, with its own inbox.
func (g *guarded) client(role string) *requests.Client {
	g.t.Helper()
	nc := g.as(role, nats.CustomInboxPrefix("_INBOX."+strings.ToLower(role)))
	c, err := requests.NewClient(nc, requests.ClientOptions{Source: "/" + strings.ToLower(role)})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(c.Close)
	return c
}
