package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
)

// TestTwoMasters is a partition that leaves the old master of Redis to one worker, while
// the other worker has the replica that was made the master: what both decide holds, every
// request is answered, and once the partition is over both go on with one server.
func TestTwoMasters(t *testing.T) {
	t.Parallel()
	requireRedis(t)
	const limit = 2
	l := newLandscape(t, fmt.Sprintf("hap: {multiHyperscalerAccount: {allowedGlobalAccounts: [ga-1, ga-2], limits: {aws: %d}}}\n"+
		"worker: {ackWait: 3s, budget: 2s, drain: 3s}\n", limit), accounts("aws", 24))
	old, oldAt := replicatedRedis(t)
	present, presentAt := replicatedRedis(t)
	follows(l.ctx, t, present, oldAt)
	at := func(address string) daemon.Options {
		return daemon.Options{Env: []string{"HAP_REDIS_URL=redis://" + address}}
	}
	w := l.work(at(oldAt))
	gone := l.ask(0, 8)[:4]

	// The partition: the old master is not told.
	if err := present.ReplicaOf(l.ctx, "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	other := l.work(at(presentAt))
	t.Logf("the new master decides %.1fs after it was promoted", time.Since(begin).Seconds())
	gone = append(gone, l.ask(8, 24)[:4]...)
	for n, e := range gone {
		gone[n] = events.Event{
			Type: events.TypeDeprovision, ID: "bye-" + e.RuntimeID, Source: "/integration", RuntimeID: e.RuntimeID,
			Deprovision: &events.Deprovision{RuntimeID: e.RuntimeID, GlobalAccountID: e.Provision.GlobalAccountID},
		}
		l.depart(gone[n])
	}
	l.ask(24, 32)
	for _, e := range gone {
		l.answered(e)
	}
	if w.metric(`hap_epoch_checks_total{result="other"}`) == "0" && other.metric(`hap_epoch_checks_total{result="other"}`) == "0" {
		t.Error("neither worker has met an epoch that is not in force")
	}

	// It is over: the old master follows the new one, and its worker is led there.
	follows(l.ctx, t, old, presentAt)
	if err := w.end(); err != nil {
		t.Error(err)
	}
	w = l.work(at(presentAt))
	begin = time.Now()
	l.ask(32, 36)
	t.Logf("asked for and answered %.1fs after it was over", time.Since(begin).Seconds())
	if err := errors.Join(w.end(), other.end()); err != nil {
		t.Error(err)
	}
	from := sources(t, l.stack, l.js, l.subjects)
	store, err := counters.Open(connection.Options{URLs: []string{"redis://" + presentAt}}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	from.Counters = store
	facts, err := checker.Read(l.ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	facts.Published = l.published
	for _, violation := range facts.Violations(checker.Terms{Limit: limit}) {
		t.Error(violation)
	}
}

// ask provisions runtimes of two tenants and returns when each has its answer.
func (l *landscape) ask(from, to int) (asked []events.Event) {
	l.t.Helper()
	for n := from; n < to; n++ {
		id := fmt.Sprintf("rt-%02d", n)
		e := events.Event{
			Type: events.TypeProvision, ID: "req-" + id, Source: "/integration", RuntimeID: id,
			Provision: &events.Provision{RuntimeID: id, GlobalAccountID: fmt.Sprintf("ga-%d", 1+n%2), Plan: "aws"},
		}
		asked = append(asked, e)
		l.provision(e)
	}
	for _, e := range asked {
		l.assigned(e)
	}
	return asked
}

// replicatedRedis starts a server that others can follow, and returns its address.
func replicatedRedis(t *testing.T) (client *redis.Client, address string) {
	t.Helper()
	port := freePort(t)
	address = net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	redisProcess(t, port, "--port", fmt.Sprint(port), "--repl-diskless-sync-delay", "0", "--appendonly", "yes", "--dir", t.TempDir())
	client = redis.NewClient(&redis.Options{Addr: address, DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	return client, address
}

// follows makes a server a replica and returns once it has its master's data.
func follows(ctx context.Context, t *testing.T, client *redis.Client, master string) {
	t.Helper()
	host, port, err := net.SplitHostPort(master)
	if err == nil {
		err = client.ReplicaOf(ctx, host, port).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, func() error {
		info, err := client.Info(ctx, "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = errors.New(info)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
