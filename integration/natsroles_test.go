package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/foreign"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// TestNATSRoles is the whole life of an account where everybody has the rights of
// deploy/nats and no others: nothing that is needed is refused, each right is used,
// and what a role must not do it cannot.
func TestNATSRoles(t *testing.T) {
	t.Parallel()
	for _, way := range []layout{oneAccount, roleAccounts, byOperator} {
		t.Run(string(way), func(t *testing.T) { t.Parallel(); rolesOn(t, newGuarded(t, way)) })
	}
}

func rolesOn(t *testing.T, g *guarded) {
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	old := newRetaining()
	w := l.work(daemon.Options{Retention: old.take, Env: []string{"HAP_NATS_URL=" + g.url, g.login("WORKER")}})
	kyma, cleanup := g.client("PUBLISHER"), g.client("CLEANUP")
	ctx := l.ctx
	listener := g.as("PUBLISHER")
	copies, err := listener.SubscribeSync("_INBOX.publisher.copies")
	if err == nil {
		err = listener.Flush() // the request goes over another connection, and its copy is not kept
	}
	if err != nil {
		t.Fatal(err)
	}
	first, err := kyma.Provision(ctx, "req-1", events.Provision{RuntimeID: "rt-1", GlobalAccountID: "ga-1", Plan: "aws", ReplyTo: "_INBOX.publisher.copies"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := copies.NextMsgWithContext(ctx); err != nil {
		t.Errorf("the copy to replyTo: %v", err)
	}
	waits := make(chan events.Reply, 1)
	served := make(chan error, 1)
	go func() {
		_, err := kyma.Provision(ctx, "req-2", events.Provision{RuntimeID: "rt-2", GlobalAccountID: "ga-2", Plan: "aws"},
			requests.OnWaiting(func(r events.Reply) { waits <- r }))
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
	eventually(ctx, t, func() error { // a viewer of the operations page; the letter is stored after the reply
		code, body, err := fetch(w.url + "/find?q=rt-3")
		if err != nil || code != http.StatusOK || !strings.Contains(body, "NoMatchingRule; hapctl dead show") || strings.Contains(body, "Incomplete") {
			return fmt.Errorf("the page finds %d, %w, without the dead letter:\n%s", code, err, body)
		}
		return nil
	})
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
	g.removeForeign(ctx)
	g.nothingElse()
}

// removeForeign is hapctl foreign: an operator finds a message that cannot be read, and
// only with a worker's credentials is it removed.
func (g *guarded) removeForeign(ctx context.Context) {
	g.t.Helper()
	subjects, err := events.NewSubjects("")
	if err != nil {
		g.t.Fatal(err)
	}
	admin, err := jetstream.New(g.admin(g.account("HAP_WAITING")))
	if err != nil {
		g.t.Fatal(err)
	}
	if _, err := admin.Publish(ctx, "hap.v1.waiting.junk", []byte("junk")); err != nil {
		g.t.Fatal(err)
	}
	of := func(role string) (messages *foreign.Messages, found []foreign.Message) {
		js, err := jetstream.New(g.as(role))
		if err != nil {
			g.t.Fatal(err)
		}
		messages = foreign.New(js, subjects)
		for _, stream := range foreign.Streams() {
			err := messages.Each(ctx, stream, func(m foreign.Message) error { found = append(found, m); return nil })
			if err != nil {
				g.t.Fatalf("a %s looks through %s: %v", role, stream, err)
			}
		}
		return messages, found
	}
	operators, found := of("OPERATOR")
	if len(found) != 1 || found[0].Subject != "hap.v1.waiting.junk" {
		g.t.Fatalf("an operator finds %v", found)
	}
	if err := operators.Remove(ctx, found[0]); err == nil {
		g.t.Error("an operator may remove a message")
	}
	workers, found := of("WORKER")
	if len(found) != 1 {
		g.t.Fatalf("after an operator has tried to remove it there are %v", found)
	}
	if err := workers.Remove(ctx, found[0]); err != nil {
		g.t.Errorf("with a worker's credentials: %v", err)
	}
	if _, found := of("OPERATOR"); len(found) != 0 {
		g.t.Errorf("after it was removed there are %v", found)
	}
}

// operate does what hapctl does for an operator.
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
	err = storage.NewLedger(js, subjects, "hapctl").Each(ctx, func(events.Stored) error { replies++; return nil })
	if err != nil || replies == 0 {
		g.t.Errorf("the ledger has %d replies: %v", replies, err)
	}
	// A letter is stored after the reply that its publisher has waited for.
	eventually(ctx, g.t, func() error {
		found := 0
		err := dead.NewLetters(js, subjects).Each(ctx, func(dead.Letter) error { found++; return nil })
		if err == nil && found < 2 {
			err = fmt.Errorf("%d dead letters", found)
		}
		return err
	})
	found := 0
	err = dead.NewLetters(js, subjects).Each(ctx, func(dead.Letter) error { found++; return nil })
	if err != nil || found != 2 {
		g.t.Errorf("%d dead letters: %v", found, err)
	}
	waiting := 0
	err = storage.NewWaitingRoom(js, subjects).Each(ctx, func(storage.WaitingRequest) error { waiting++; return nil })
	if err != nil || waiting != 0 {
		g.t.Errorf("%d requests wait: %v", waiting, err)
	}
	client, err := requests.NewClient(nc, requests.ClientOptions{Source: "/hapctl"})
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
	for _, right := range permitted.FindAllStringSubmatch(deployed(g.t, file), -1) {
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
		"WORKER":  {"hap.v1.provision.ga-1", "hap.v1.release.aws-01", "$JS.API.STREAM.DELETE.HAP_EVENTS", "$JS.API.STREAM.PURGE.HAP_EVENTS", "$JS.API.STREAM.INFO.OTHER", "$JS.API.STREAM.PURGE.HAP_DEAD", "$JS.API.STREAM.DELETE.HAP_REPLIES", "$JS.API.STREAM.UPDATE.HAP_EVENTS", "$JS.API.STREAM.UPDATE.HAP_DEAD", "$JS.API.CONSUMER.DELETE.HAP_EVENTS.hap-shadow"},
		"OPERATOR": {
			"hap.v1.reply.rt-1.req-1", "$JS.API.STREAM.DELETE.HAP_REPLIES", "$JS.API.STREAM.UPDATE.HAP_REPLIES", "$JS.API.STREAM.PURGE.HAP_DEAD", "$JS.API.STREAM.PURGE.HAP_REPLIES", "$JS.API.STREAM.PURGE.HAP_WAITING",
			"$JS.API.STREAM.MSG.DELETE.HAP_REPLIES", "$JS.API.STREAM.MSG.DELETE.HAP_WAITING", "$JS.API.CONSUMER.MSG.NEXT.HAP_EVENTS.hap-worker", "$JS.ACK.HAP_EVENTS.hap-worker.x",
		},
	}, map[string]string{"PUBLISHER": "_INBOX.cleanup.>", "CLEANUP": "hap.v1.reply.>", "OPERATOR": "hap.v1.>", "WORKER": "hap.v1.>"})
}

// refuses tries what no client of a role may publish on, and listen to.
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
