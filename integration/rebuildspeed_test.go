package integration_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/rebuild"
)

// rebuildRuntimes is how many runtimes BenchmarkRebuild builds again, unless the
// environment says another number.
const rebuildRuntimes = 200_000

// rebuildPools are the dedicated pools of the benchmark, rebuildAccounts the
// accounts in each.
var rebuildPools = []string{"aws", "azure", "gcp", "openstack", "alicloud"}

const rebuildAccounts = 40

// BenchmarkRebuild is the whole rebuild of an empty Redis: token, seal, ledger,
// labels, Shoots, install. HAP_BENCH_RUNTIMES sets the number of runtimes, and
// HAP_BENCH_UNSETTLED that of events that no worker has answered, which the first
// rebuild seals.
func BenchmarkRebuild(b *testing.B) {
	runtimes, unsettled := sizeOf("HAP_BENCH_RUNTIMES", rebuildRuntimes), sizeOf("HAP_BENCH_UNSETTLED", 0)
	s, err := stack.Start(b.Context(), stack.Options{Gardener: stack.CRDGardener, Config: []byte(oneAccountRules), Accounts: rebuildAccountsOf(), Talk: io.Discard})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Stop() })
	rebuild, store := rebuilder(b, s)
	steps := map[observe.Step]time.Time{}
	rebuild.Observer.OnStep = func(_ context.Context, step observe.Step) {
		if steps[step].IsZero() {
			steps[step] = time.Now()
		}
	}
	fillLedger(b, s, runtimes)
	publishUnsettled(b, s, unsettled)
	for b.Loop() {
		b.StopTimer()
		client := redis.NewClient(&redis.Options{Addr: s.Redis.URL()[len("redis://"):], DisableIdentity: true})
		if err := client.FlushAll(b.Context()).Err(); err != nil {
			b.Fatal(err)
		}
		client.Close()
		b.StartTimer()
		if err := rebuild.Ensure(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(runtimes)*float64(b.N)/b.Elapsed().Seconds(), "runtimes/s")
	b.ReportMetric(steps[observe.StepSealed].Sub(steps[observe.StepToken]).Seconds(), "s-seal")
	found := 0
	for _, pool := range rebuildPools {
		status, err := store.Status(b.Context(), pool)
		if err != nil {
			b.Fatal(err)
		}
		found += status.Runtimes
	}
	rec, err := store.Binding(b.Context(), "aws", accountName("aws", 0))
	if err != nil || found != runtimes || rec.Count != runtimes/len(rebuildPools)/rebuildAccounts || rec.State != account.InUse {
		b.Errorf("%d runtimes of %d, %+v, %v", found, runtimes, rec, err)
	}
}

func sizeOf(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n >= 0 {
		return n
	}
	return otherwise
}

// publishUnsettled publishes events that no worker handles.
func publishUnsettled(tb testing.TB, s *stack.Stack, count int) {
	tb.Helper()
	js := jetStream(tb, s)
	subjects, err := events.NewSubjects("")
	if err != nil {
		tb.Fatal(err)
	}
	for n := range count {
		id := fmt.Sprintf("unsettled-%d", n)
		data, err := events.EncodeEvent(events.Event{ID: id, Source: "/bench", Type: events.TypeProvision, Provision: &events.Provision{
			RuntimeID: id, GlobalAccountID: "ga-01", Plan: "aws", PlatformRegion: "cf-eu11",
		}})
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := js.PublishAsync(subjects.Provision("ga-01"), data); err != nil {
			tb.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
}

// rebuildAccountsOf are the accounts of all pools, each a tenant's.
func rebuildAccountsOf() []stack.Account {
	var all []stack.Account
	for _, kind := range rebuildPools {
		for n := range rebuildAccounts {
			all = append(all, stack.Account{
				Name: accountName(kind, n), HyperscalerType: kind,
				Labels: map[string]string{"tenantName": fmt.Sprintf("ga-%02d", n)},
			})
		}
	}
	return all
}

func accountName(kind string, n int) string { return fmt.Sprintf("%s-%02d", kind, n) }

// rebuilder does what a worker rebuilds with, on separate connections.
func rebuilder(tb testing.TB, s *stack.Stack) (*rebuild.Rebuilder, *counters.Store) {
	tb.Helper()
	js := jetStream(tb, s)
	if _, err := storage.Setup(tb.Context(), js, storage.Options{Manage: true}); err != nil {
		tb.Fatal(err)
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		tb.Fatal(err)
	}
	store, err := counters.Open(connection.Options{URLs: []string{s.Redis.URL()}}, "")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { store.Close() })
	config, err := s.Kube.Config()
	if err != nil {
		tb.Fatal(err)
	}
	census, err := gardener.New(config, gardener.Options{Namespace: s.Target.Namespace, Resource: gardener.Resource(s.Target.Resource)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(census.Stop)
	if err := census.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return &rebuild.Rebuilder{
		Builder: store, Inventory: census, Ledger: storage.NewLedger(js, subjects, "/bench"),
		Waiting: storage.NewWaitingRoom(js, subjects).Addresses, Subjects: subjects,
		Observer: observe.Observer{OnRebuild: func(_ context.Context, i observe.Rebuild) {
			if i.Err != nil {
				tb.Error(i.Err)
			}
		}},
	}, store
}

func jetStream(tb testing.TB, s *stack.Stack) jetstream.JetStream {
	tb.Helper()
	nc, err := nats.Connect(s.NATS.URL())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4000))
	if err != nil {
		tb.Fatal(err)
	}
	return js
}

// fillLedger stores the answer of a provision for every runtime, as a worker
// writes it: with its rule, its selector and what was looked at.
func fillLedger(tb testing.TB, s *stack.Stack, runtimes int) {
	tb.Helper()
	js := jetStream(tb, s)
	subjects, err := events.NewSubjects("")
	if err != nil {
		tb.Fatal(err)
	}
	for n := range runtimes {
		kind := rebuildPools[n%len(rebuildPools)]
		at := n / len(rebuildPools) % rebuildAccounts
		id, count := fmt.Sprintf("8b2c6b4e-%08d", n), n/len(rebuildPools)/rebuildAccounts+1
		name := accountName(kind, at)
		r := events.Reply{
			RequestID: "req-" + id, RuntimeID: id, Status: events.StatusAssigned,
			GlobalAccountID: fmt.Sprintf("ga-%02d", at), Plan: kind, Provider: kind, ShootName: "c-" + id[len(id)-7:],
			Binding:  &events.Binding{Name: name, Namespace: s.Target.Namespace, Kind: "CredentialsBinding", HyperscalerType: kind, Claimed: count == 1},
			Clusters: &count, Limit: 180,
			Decision: &events.Decision{
				Sequence: int64(n/len(rebuildPools) + 1), Rule: kind, RuleNumber: 1, Pool: kind,
				LabelSelector: "hyperscalerType=" + kind + ",!euAccess,shared!=true,!dirty,!internal,tenantName=" + fmt.Sprintf("ga-%02d", at),
				Considered:    []events.Considered{{Binding: name, Clusters: count - 1, Verdict: "chosen"}},
			},
			ShootPatch: []events.PatchOperation{{Op: "add", Path: "/spec/credentialsBindingName", Value: name}},
		}
		data, err := events.EncodeReply(r, "/hap-worker")
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := js.PublishAsync(subjects.Reply(id, r.RequestID), data, jetstream.WithExpectLastSequencePerSubject(0)); err != nil {
			tb.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(10 * time.Minute):
		tb.Fatal("the ledger is not filled")
	}
}
