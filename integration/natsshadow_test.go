package integration_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/cmd/hapctl/app"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/shadows"
)

// TestNATSShadow is a shadow with the rights of deploy/nats/shadow.conf, alone, beside a
// worker with those of its role, and alone again: nothing that it needs is refused, each
// right is used, and what is not its own it cannot touch.
func TestNATSShadow(t *testing.T) {
	t.Parallel()
	for _, way := range []layout{oneAccount, roleAccounts} {
		t.Run(string(way), func(t *testing.T) { t.Parallel(); shadowOn(t, newGuarded(t, way)) })
	}
}

func shadowOn(t *testing.T, g *guarded) {
	b := newBroker(t, accounts("aws", 1))
	env := func(role string, more ...string) daemon.Options {
		return daemon.Options{Env: append(more, "HAP_NATS_URL="+g.url, "HAP_NATS_NKEY="+g.seeds[role])}
	}
	shadow := func() *inProcess {
		return b.work(env("SHADOW", "HAP_WORKER_MODE=shadow", "HAP_WORKER_SHADOW_INTERVAL=1s"))
	}
	kyma := g.client("PUBLISHER")
	// sends returns once a client has published on the subjects that follow from it.
	sends := func(e events.Event, subjects ...string) {
		t.Helper()
		if err := kyma.Publish(b.ctx, e); err != nil {
			t.Fatal(err)
		}
		for _, subject := range subjects {
			eventually(b.ctx, t, func() error {
				if !g.sawOn(subject) {
					return fmt.Errorf("nothing is published on %s", subject)
				}
				return nil
			})
		}
	}
	compared := func(s *inProcess, result shadows.ComparisonResult) {
		t.Helper()
		b.shows(s, fmt.Sprintf("hap_shadow_comparisons_total{mode=\"shadow\",result=%q}", result), "1")
	}

	s := shadow()
	same, waits := ask("rt-same", "ga-1"), ask("rt-waits", "ga-2")
	sends(same, same.ReplySubject(b.shadow))
	sends(waits, "hap.v1.shadow.waiting.>")
	sends(withPlan(ask("rt-dead", "ga-3"), "mainframe"), "hap.v1.shadow.dead.*")
	if err := b.stack.Redis.Lose(b.ctx); err != nil { // ledger, events and waiting requests are read again
		t.Fatal(err)
	}
	b.claims("aws-01", "ga-1")
	b.shoot(same.RuntimeID, "aws-01")
	b.shoot(waits.RuntimeID, "aws-01")
	compared(s, shadows.ResultSame)
	compared(s, shadows.ResultNotAssigned)
	config := filepath.Join(t.TempDir(), "hapctl.yaml")
	if err := os.WriteFile(config, []byte(shadowRules+fmt.Sprintf("nats: {url: %q, nkey: %q}\n", g.url, g.seeds["SHADOW"])), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, talk bytes.Buffer
	code := app.Run(b.ctx, []string{"migrate", "compare", "--config", config}, strings.NewReader(""), &out, &talk)
	if code != 5 || !strings.Contains(out.String(), waits.RuntimeID) {
		t.Errorf("hapctl: exit code %d, %s%s", code, out.String(), talk.String())
	}
	// Whether workers are gone is asked only after they came.
	workersGone := "$JS.API.CONSUMER.INFO.HAP_EVENTS.hap-worker"
	eventually(b.ctx, t, func() error { // the rebuild of Redis, which reads events, may come after all that
		if unused := g.unusedRights("shadow.conf"); !slices.Equal(unused, []string{workersGone}) {
			return fmt.Errorf("a shadow without workers never uses the rights to publish on %v", unused)
		}
		return nil
	})

	// The first worker comes, as docs/nats.md says.
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(g.admin(events.StreamEvents))
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(b.ctx, events.StreamEvents, events.ConsumerShadow); err != nil {
		t.Fatal(err)
	}
	w := b.work(env("WORKER"))
	s = shadow()
	b.says(s, "the shadow listens")
	beside := ask("rt-beside", "ga-1")
	sends(beside, beside.ReplySubject(b.subjects), beside.ReplySubject(b.shadow))
	b.shoot(beside.RuntimeID, "aws-01")
	compared(s, shadows.ResultNotAssigned) // the account is full

	// And the last one goes.
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(b.ctx, events.StreamEvents, events.ConsumerWorker); err != nil {
		t.Fatal(err)
	}
	b.says(s, "the shadow takes the events")
	if refused := g.takeRefused(); len(refused) > 0 {
		t.Errorf("refused although needed:\n%s", strings.Join(refused, "\n"))
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
	g.refuses(map[string][]string{"SHADOW": {
		"hap.v1.reply.rt-1.req-1", "hap.v1.waiting.aws.ga-1.rt-1.req-1", "hap.v1.dead.provision", "hap.v1.provision.ga-1", "hap.v1.release.aws-01",
		"_INBOX.publisher.copies", "$JS.ACK.HAP_EVENTS.hap-worker.x", "$JS.API.CONSUMER.MSG.NEXT.HAP_EVENTS.hap-worker",
		"$JS.API.CONSUMER.CREATE.HAP_EVENTS.hap-worker", "$JS.API.CONSUMER.DELETE.HAP_EVENTS.hap-worker",
		"$JS.API.STREAM.DELETE.HAP_EVENTS", "$JS.API.STREAM.PURGE.HAP_EVENTS", "$JS.API.STREAM.UPDATE.HAP_EVENTS", "$JS.API.STREAM.MSG.GET.HAP_EVENTS",
		"$JS.API.STREAM.INFO.HAP_REPLIES", "$JS.API.STREAM.CREATE.HAP_REPLIES", "$JS.API.STREAM.MSG.GET.HAP_REPLIES", "$JS.API.STREAM.PURGE.HAP_REPLIES", "$JS.API.STREAM.UPDATE.HAP_REPLIES",
		"$JS.API.CONSUMER.CREATE.HAP_REPLIES.mine", "$JS.API.STREAM.PURGE.HAP_WAITING", "$JS.API.STREAM.DELETE.HAP_SHADOW_EVENTS", "$JS.API.STREAM.NAMES",
	}}, map[string]string{"SHADOW": "hap.v1.reply.>"})
}
