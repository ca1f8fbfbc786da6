package integration_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// recordKey is where Redis says which landscape it belongs to.
const recordKey = "hap:landscape"

// ledgerConfig is the ledger's configuration as the server has it.
func (l *landscape) ledgerConfig() jetstream.StreamConfig {
	l.t.Helper()
	stream, err := l.js.Stream(l.ctx, events.StreamReplies)
	if err != nil {
		l.t.Fatal(err)
	}
	return stream.CachedInfo().Config
}

// forgetLedger takes the landscape out of the ledger's metadata.
func (l *landscape) forgetLedger() {
	l.t.Helper()
	config := l.ledgerConfig()
	delete(config.Metadata, storage.MetadataLandscape)
	if _, err := l.js.UpdateStream(l.ctx, config); err != nil {
		l.t.Fatal(err)
	}
}

// elsewhere is the worker's configuration with another namespace.
func (l *landscape) elsewhere(namespace string) string {
	l.t.Helper()
	content, err := os.ReadFile(l.stack.Config)
	if err != nil {
		l.t.Fatal(err)
	}
	path := filepath.Join(l.t.TempDir(), "elsewhere.yaml")
	moved := strings.ReplaceAll(string(content), "namespace: "+l.stack.Target.Namespace, "namespace: "+namespace) + "\n"
	if err := os.WriteFile(path, []byte(moved), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// refused is the error of a worker that found another landscape, once it has ended.
func (w *inProcess) refused() *engine.ForeignError {
	w.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(time.Minute):
		w.t.Fatal("the worker goes on")
	}
	foreign, is := errors.AsType[*engine.ForeignError](w.err)
	if !is {
		w.t.Fatalf("the worker ended with %v", w.err)
	}
	return foreign
}

// TestWorkerRecordsItsLandscape: the first worker says in Redis and in the ledger whose
// they are; a worker that is led there with another namespace ends with the exit code of an
// invalid configuration and both names, and has changed nothing. What is deleted by hand is
// recorded again.
func TestWorkerRecordsItsLandscape(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	w := l.work(daemon.Options{})
	hand := l.byHand()
	record := hand.HGetAll(l.ctx, recordKey).Val()
	if record["namespace"] != l.stack.Target.Namespace || record["resource"] != "credentialsbindings" || record["cluster"] == "" {
		t.Fatalf("Redis has recorded %v", record)
	}
	named, _, err := storage.LandscapeOf(l.ledgerConfig())
	if err != nil || named.Cluster != record["cluster"] || named.Namespace != record["namespace"] {
		t.Fatalf("the ledger has recorded %+v, %v", named, err)
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	ledger := l.ledgerConfig()
	keys := hand.Keys(l.ctx, "*").Val()
	refusal := l.begin(daemon.Options{ConfigPath: l.elsewhere("default")}).refused()
	var said strings.Builder
	if code := daemon.Exit(refusal, &said); code != daemon.ExitInvalidConfig ||
		!strings.Contains(said.String(), "namespace default") || !strings.Contains(said.String(), "namespace "+l.stack.Target.Namespace) {
		t.Errorf("exit code %d: %s", code, said.String())
	}
	if after := hand.HGetAll(l.ctx, recordKey).Val(); len(after) != len(record) || after["namespace"] != record["namespace"] || after["cluster"] != record["cluster"] {
		t.Errorf("the record has become %v", after)
	}
	if after := hand.Keys(l.ctx, "*").Val(); len(after) != len(keys) {
		t.Errorf("keys were %q, are %q", keys, after)
	}
	if after := l.ledgerConfig(); after.Metadata[storage.MetadataLandscape] != ledger.Metadata[storage.MetadataLandscape] {
		t.Errorf("the ledger says %v", after.Metadata)
	}

	l.forgetLedger()
	hand.Del(l.ctx, recordKey)
	if err := l.work(daemon.Options{}).end(); err != nil {
		t.Fatal(err)
	}
	if again := hand.HGet(l.ctx, recordKey, "cluster").Val(); again != record["cluster"] {
		t.Errorf("Redis has recorded %q again", again)
	}
	if again, _, err := storage.LandscapeOf(l.ledgerConfig()); again != named || err != nil {
		t.Errorf("the ledger has recorded %+v again, %v", again, err)
	}

	hand.HSet(l.ctx, recordKey, "cluster", "uid-elsewhere") // the same names on another cluster
	if foreign := l.begin(daemon.Options{}).refused(); foreign.Found.Landscape.Cluster != "uid-elsewhere" {
		t.Errorf("%v", foreign)
	}
}

// TestRedisOfAnotherLandscape: a Redis that is another landscape's from one moment to the
// next is not built and not decided in.
func TestRedisOfAnotherLandscape(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	w := l.work(daemon.Options{})
	hand := l.byHand()
	_, err := hand.TxPipelined(l.ctx, func(tx redis.Pipeliner) error {
		tx.FlushAll(l.ctx)
		tx.HSet(l.ctx, recordKey, "cluster", "uid-elsewhere", "namespace", "garden-kyma", "resource", "credentialsbindings", "shadow", "0")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l.provision(ask("rt-1", "ga-1"))
	foreign := w.refused()
	if said := foreign.Error(); !strings.Contains(said, "uid-elsewhere") || !strings.Contains(said, l.stack.Target.Namespace) {
		t.Errorf("said %s", said)
	}
	if keys := hand.Keys(l.ctx, "*").Val(); len(keys) != 1 || keys[0] != recordKey {
		t.Errorf("something was written: %q", keys)
	}
}

// TestTwoLandscapesAtOnce: of two workers that start on one empty Redis one wins, and the
// other one ends.
func TestTwoLandscapesAtOnce(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	one, other := l.begin(daemon.Options{}), l.begin(daemon.Options{ConfigPath: l.elsewhere("default")})
	var winner, loser *inProcess
	select {
	case <-one.ended:
		winner, loser = other, one
	case <-other.ended:
		winner, loser = one, other
	case <-l.ctx.Done():
		t.Fatal("both go on")
	}
	loser.refused()
	eventually(l.ctx, t, func() error { _, err := winner.readyz(); return err })
	named, _, err := storage.LandscapeOf(l.ledgerConfig())
	if recorded := l.byHand().HGet(l.ctx, recordKey, "namespace").Val(); err != nil || recorded != named.Namespace {
		t.Errorf("Redis is of %q, the ledger of %q, %v", recorded, named.Namespace, err)
	}
}

// TestLedgerIsNotChanged: where workers must not manage streams the ledger stays as it is,
// an operator is told once, and Redis alone is held against the bindings.
func TestLedgerIsNotChanged(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	w := l.work(daemon.Options{Env: []string{"HAP_NATS_MANAGE=false"}})
	l.provision(ask("rt-1", "ga-1"))
	if on := l.assigned(ask("rt-1", "ga-1")); on != "aws-01" {
		t.Errorf("assigned %s", on)
	}
	if err := l.stack.Redis.Lose(context.WithoutCancel(l.ctx)); err != nil { // the rebuild looks again
		t.Fatal(err)
	}
	l.provision(ask("rt-2", "ga-1"))
	l.answered(ask("rt-2", "ga-1"))
	if n := strings.Count(w.log.String(), "the ledger does not record its landscape"); n != 1 {
		t.Errorf("told %d times", n)
	}
	if _, named, err := storage.LandscapeOf(l.ledgerConfig()); named || err != nil {
		t.Errorf("the ledger is changed: %v", err)
	}
	if recorded := l.byHand().HGet(l.ctx, recordKey, "namespace").Val(); recorded != l.stack.Target.Namespace {
		t.Errorf("Redis has recorded %q", recorded)
	}
}

// TestShadowRecordsItsOwn: a shadow's Redis keys and ledger say of themselves that they are
// a shadow's, and nothing of the workers' is recorded by it.
func TestShadowRecordsItsOwn(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	l.work(daemon.Options{Env: []string{"HAP_WORKER_MODE=shadow"}})
	hand := l.byHand()
	if record := hand.HGetAll(l.ctx, "hap-shadow:landscape").Val(); record["shadow"] != "1" || record["namespace"] != l.stack.Target.Namespace {
		t.Errorf("the shadow has recorded %v", record)
	}
	if record := hand.HGetAll(l.ctx, recordKey).Val(); len(record) > 0 {
		t.Errorf("the shadow has recorded %v for the workers", record)
	}
	if _, named, err := storage.LandscapeOf(l.ledgerConfig()); named || err != nil {
		t.Errorf("the workers' ledger is changed: %v", err)
	}
	shadow, _, err := storage.NewLedger(l.js, l.subjects.Shadow(), "/test").Landscape(l.ctx)
	if err != nil || !shadow.Shadow {
		t.Errorf("the shadow's ledger has recorded %+v, %v", shadow, err)
	}
}
