package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// guarded is a NATS server with the permissions of deploy/nats, and what it refused.
type guarded struct {
	t     *testing.T
	url   string
	admin *nats.Conn
	seeds map[string]string // by role, files with the seed of its nkey

	mu      sync.Mutex
	refused []string
	seen    map[string]bool // every subject that anybody published on
}

var roles = []string{"PUBLISHER", "CLEANUP", "WORKER", "OPERATOR"}

// newGuarded starts the server. An administrator of the test's own listens to
// everything.
func newGuarded(t *testing.T) *guarded {
	t.Helper()
	dir := t.TempDir()
	g := &guarded{t: t, seeds: map[string]string{}, seen: map[string]bool{}}
	var users strings.Builder
	for _, role := range slices.Concat(roles, []string{"SHADOW"}) {
		key, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, _ := key.PublicKey()
		seed, _ := key.Seed()
		g.seeds[role] = filepath.Join(dir, role+".nk")
		if err := os.WriteFile(g.seeds[role], seed, 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&users, "    {nkey: %s, permissions: $HAP_%s}\n", public, role)
	}
	text := permissionsIn(t, "permissions.conf") + permissionsIn(t, "shadow.conf") + fmt.Sprintf("\nlisten: \"127.0.0.1:-1\"\njetstream {store_dir: %q}\nauthorization {\n  users = [\n    {user: admin, password: admin}\n%s  ]\n}\n", dir, users.String())
	conf := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	options.NoSigs = true
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.SetLoggerV2(refusals{g}, false, false, false)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server does not serve")
	}
	g.url = s.ClientURL()
	admin, err := nats.Connect(g.url, nats.UserInfo("admin", "admin"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	g.admin = admin
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
	return g
}

// permissionsIn reads a file of deploy/nats.
func permissionsIn(t *testing.T, file string) string {
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
	key, err := nats.NkeyOptionFromSeed(g.seeds[role])
	if err != nil {
		g.t.Fatal(err)
	}
	nc, err := nats.Connect(g.url, append(options, key)...)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(nc.Close)
	return nc
}

// client is a publisher in a role, with an inbox of its own.
func (g *guarded) client(role string) *events.Client {
	g.t.Helper()
	nc := g.as(role, nats.CustomInboxPrefix("_INBOX."+strings.ToLower(role)))
	c, err := events.NewClient(nc, events.ClientOptions{Source: "/" + strings.ToLower(role)})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(c.Close)
	return c
}

// TestNATSRoles is the whole life of an account where everybody has the rights of
// deploy/nats and no others: nothing that is needed is refused, each right is used,
// and what a role must not do it cannot.
func TestNATSRoles(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	old := newRetaining()
	w := l.work(daemon.Options{Retention: old.take, Env: []string{"HAP_NATS_URL=" + g.url, "HAP_NATS_NKEY=" + g.seeds["WORKER"]}})
	kyma, cleanup := g.client("PUBLISHER"), g.client("CLEANUP")
	ctx := l.ctx
	first, err := kyma.Provision(ctx, "req-1", events.Provision{RuntimeID: "rt-1", GlobalAccountID: "ga-1", Plan: "aws", ReplyTo: "_INBOX.publisher.copies"})
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan events.Reply, 1)
	served := make(chan error, 1)
	go func() {
		_, err := kyma.Provision(ctx, "req-2", events.Provision{RuntimeID: "rt-2", GlobalAccountID: "ga-2", Plan: "aws"},
			events.OnWaiting(func(r events.Reply) { waits <- r }))
		served <- err
	}()
	select {
	case <-waits:
	case err := <-served:
		t.Fatalf("the second tenant does not wait: %v", err)
	}
	gone, err := kyma.Deprovision(ctx, "bye-1", events.Deprovision{RuntimeID: "rt-1"})
	if err != nil || !gone.MarkedDirty {
		t.Fatalf("the deprovision: %+v, %v", gone, err)
	}
	if err := l.stack.Redis.Lose(ctx); err != nil { // ledger, events and waiting requests are read again
		t.Fatal(err)
	}
	if _, err := cleanup.Release(ctx, "clean-1", events.Release{Binding: first.Binding.Name, Generation: &gone.Binding.Generation}); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Fatalf("who waited: %v", err)
	}
	_, err = kyma.Provision(ctx, "req-3", events.Provision{RuntimeID: "rt-3", GlobalAccountID: "ga-1", Plan: "mainframe"})
	if engine.CodeOf(err) != engine.CodeNoMatchingRule {
		t.Fatalf("the unknown plan: %v", err)
	}
	_, err = kyma.Resolve(ctx, "res-1", events.Resolve{RuntimeID: "rt-4", Interface: events.Interface{Path: postgres}})
	if engine.CodeOf(err) != engine.CodeNoImplementation {
		t.Fatalf("the interface: %v", err)
	}
	g.operate(ctx)
	if err := old.forget(ctx); err != nil {
		t.Error(err)
	}
	if refused := g.takeRefused(); len(refused) > 0 {
		t.Errorf("refused although needed:\n%s", strings.Join(refused, "\n"))
	}
	if err := w.end(); err != nil {
		t.Error(err)
	}
	eventually(ctx, t, func() error { // what is published is seen a moment later
		if unused := g.unusedRights("permissions.conf"); len(unused) > 0 {
			return fmt.Errorf("nobody ever uses the right to publish on %v", unused)
		}
		return nil
	})
	g.nothingElse()
}

// operate is what hapctl does for an operator.
func (g *guarded) operate(ctx context.Context) {
	g.t.Helper()
	nc := g.as("OPERATOR")
	js, err := jetstream.New(nc)
	if err != nil {
		g.t.Fatal(err)
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		g.t.Fatal(err)
	}
	replies := 0
	err = events.NewLedger(js, subjects, "hapctl").Each(ctx, func(events.Stored) error { replies++; return nil })
	if err != nil || replies == 0 {
		g.t.Errorf("the ledger has %d replies: %v", replies, err)
	}
	// A letter is stored after the reply that its publisher has waited for.
	eventually(ctx, g.t, func() error {
		dead := 0
		err := events.NewDeadLetters(js, subjects).Each(ctx, func(events.DeadLetter) error { dead++; return nil })
		if err == nil && dead < 2 {
			err = fmt.Errorf("%d dead letters", dead)
		}
		return err
	})
	dead := 0
	err = events.NewDeadLetters(js, subjects).Each(ctx, func(events.DeadLetter) error { dead++; return nil })
	if err != nil || dead != 2 {
		g.t.Errorf("%d dead letters: %v", dead, err)
	}
	waiting := 0
	err = events.NewWaitingRoom(js, subjects).Each(ctx, func(events.WaitingRequest) error { waiting++; return nil })
	if err != nil || waiting != 0 {
		g.t.Errorf("%d requests wait: %v", waiting, err)
	}
	client, err := events.NewClient(nc, events.ClientOptions{Source: "/hapctl"})
	if err != nil {
		g.t.Fatal(err)
	}
	defer client.Close()
	if r, err := client.Deprovision(ctx, "op-1", events.Deprovision{RuntimeID: "rt-2"}); err != nil || r.Status != events.StatusReleased {
		g.t.Errorf("an operator's deprovision: %+v, %v", r, err)
	}
}

var permitted = regexp.MustCompile(`(?m)^    "([^"]+)"$`)

// unusedRights are permissions in a file that nothing was published under: they would
// be superfluous.
func (g *guarded) unusedRights(file string) (unused []string) {
	g.t.Helper()
	for _, right := range permitted.FindAllStringSubmatch(permissionsIn(g.t, file), -1) {
		if !g.sawOn(right[1]) {
			unused = append(unused, right[1])
		}
	}
	return unused
}

// sawOn reports whether anybody published on a subject, which may have wildcards.
func (g *guarded) sawOn(subject string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for seen := range g.seen {
		if server.SubjectsCollide(subject, seen) {
			return true
		}
	}
	return false
}

// nothingElse tries what roles must not do.
func (g *guarded) nothingElse() {
	g.t.Helper()
	g.refuses(map[string][]string{
		"PUBLISHER": {
			"hap.v1.reply.rt-1.req-1", "hap.v1.release.aws-01", "hap.v1.waiting.aws.ga-1.rt-1.req-1", "hap.v1.dead.provision",
			"$JS.API.STREAM.DELETE.HAP_REPLIES", "$JS.API.STREAM.PURGE.HAP_REPLIES", "$JS.API.STREAM.UPDATE.HAP_REPLIES",
			"$JS.API.STREAM.INFO.HAP_EVENTS", "$JS.API.CONSUMER.CREATE.HAP_EVENTS.mine", "$JS.API.STREAM.MSG.GET.HAP_REPLIES",
			"$JS.API.STREAM.NAMES", "$JS.API.INFO", "$JS.API.CONSUMER.DELETE.HAP_EVENTS.hap-worker", "_INBOX.worker.x",
		},
		"CLEANUP": {"hap.v1.provision.ga-1", "hap.v1.deprovision.ga-1", "hap.v1.resolve.rt-1", "hap.v1.reply._binding.aws-01.x", "$JS.API.STREAM.INFO.HAP_WAITING"},
		"WORKER":  {"hap.v1.provision.ga-1", "hap.v1.release.aws-01", "$JS.API.STREAM.DELETE.HAP_EVENTS", "$JS.API.STREAM.PURGE.HAP_EVENTS", "$JS.API.STREAM.INFO.OTHER", "$JS.API.STREAM.PURGE.HAP_DEAD", "$JS.API.STREAM.DELETE.HAP_REPLIES", "$JS.API.STREAM.UPDATE.HAP_REPLIES", "$JS.API.CONSUMER.DELETE.HAP_EVENTS.hap-shadow"},
		"OPERATOR": {
			"hap.v1.reply.rt-1.req-1", "$JS.API.STREAM.DELETE.HAP_REPLIES", "$JS.API.STREAM.PURGE.HAP_DEAD", "$JS.API.CONSUMER.MSG.NEXT.HAP_EVENTS.hap-worker", "$JS.ACK.HAP_EVENTS.hap-worker.x",
		},
	}, map[string]string{"PUBLISHER": "_INBOX.cleanup.>", "CLEANUP": "hap.v1.reply.>", "OPERATOR": "hap.v1.>", "WORKER": "hap.v1.>"})
}

// refuses tries what nobody of a role may publish on, and listen to.
func (g *guarded) refuses(publish map[string][]string, listen map[string]string) {
	g.t.Helper()
	for role, subjects := range publish {
		nc := g.as(role)
		g.takeRefused()
		for _, subject := range subjects {
			if err := nc.Publish(subject, nil); err != nil {
				g.t.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil && !errors.Is(err, nats.ErrPermissionViolation) {
			g.t.Error(err)
		}
		refused := strings.Join(g.takeRefused(), "\n")
		for _, subject := range subjects {
			if !strings.Contains(refused, `"`+subject+`"`) {
				g.t.Errorf("a %s may publish on %s", role, subject)
			}
		}
	}
	for role, subject := range listen {
		nc := g.as(role)
		g.takeRefused()
		if _, err := nc.SubscribeSync(subject); err != nil {
			g.t.Fatal(err)
		}
		if err := nc.Flush(); err != nil && !errors.Is(err, nats.ErrPermissionViolation) {
			g.t.Error(err)
		}
		if refused := strings.Join(g.takeRefused(), "\n"); !strings.Contains(refused, `"`+subject+`"`) {
			g.t.Errorf("a %s may listen to %s", role, subject)
		}
	}
}
