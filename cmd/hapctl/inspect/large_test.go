package inspect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/cmd/hapctl/app"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

const (
	// explainRuntimes is the number of runtimes of BenchmarkExplain, unless HAP_BENCH_RUNTIMES says another one.
	explainRuntimes = 1_000_000
	// explainDay is the number of replies of a day: one in two seconds.
	explainDay = 43_200
)

// large is a landscape of five pools, each of 2,000 accounts of a tenant each, with a reply to the provision of
// each runtime in the ledger.
type large struct {
	runtimes int
	flags    []string // that lead hapctl there
	day      time.Time
	client   *redis.Client
}

var largePools = []string{"aws", "azure", "gcp", "openstack", "alicloud"}

const largeAccounts = 2000 // of a pool

func (large) pool(n int) string { return largePools[n%len(largePools)] }
func (l large) account(n int) string {
	return fmt.Sprintf("%s-%d", l.pool(n), n/len(largePools)%largeAccounts)
}
func (large) tenant(n int) string { return fmt.Sprintf("ga-%d", n/len(largePools)%largeAccounts) }
func (large) id(n int) string     { return fmt.Sprintf("8b2c6b4e-77aa-4c9e-9d10-%012d", n) }

// BenchmarkExplain measures hapctl explain with a NATS server, a Redis and a light API server, connections
// included. docs/performance.md has the figures.
func BenchmarkExplain(b *testing.B) {
	l := large{runtimes: explainRuntimes}
	if n, err := strconv.Atoi(os.Getenv("HAP_BENCH_RUNTIMES")); err == nil && n >= 2*explainDay {
		l.runtimes = n
	}
	server, process := ledgertest.Server(b), counterstest.StartRedis(b)
	kubeconfig := filepath.Join(b.TempDir(), "kubeconfig")
	l.flags = []string{"--redis-url", "unix://" + process.Socket, "--nats-url", server.URL(), "--kubeconfig", kubeconfig, "-n", "garden-kyma", "--timeout", "10m"}
	l.serve(b, kubeconfig)
	l.install(b, process)
	l.client = process.Client(b)
	js, err := jetstream.New(server.Connect(), jetstream.WithPublishAsyncMaxPending(4000), jetstream.WithPublishAsyncTimeout(time.Minute))
	if err != nil {
		b.Fatal(err)
	}
	l.store(b, js)
	half := l.runtimes / 2
	for _, c := range []struct {
		name string
		args []string
		want string // in the output
	}{
		{"runtime", []string{"--runtime", l.id(half)}, "assigned to " + l.account(half)},
		{"account", []string{"--account", l.account(half)}, "runtimes that Redis remembers"},
		{"tenant/day", []string{"--tenant", l.tenant(half), "--since", "day"}, "; older ones were not read"},
		{"tenant/all", []string{"--tenant", l.tenant(half)}, fmt.Sprintf("HAP_REPLIES: %d messages", l.runtimes)},
	} {
		b.Run(c.name, func(b *testing.B) {
			begin := spent(b, l.client)
			for b.Loop() {
				var out, talk bytes.Buffer
				args := slices.Concat([]string{"explain"}, c.args, l.flags)
				if i := slices.Index(args, "day"); i > 0 {
					args[i] = time.Since(l.day).String()
				}
				if code := app.Run(b.Context(), args, strings.NewReader(""), &out, &talk); code != 0 {
					b.Fatalf("hapctl explain ends with %d: %s", code, &talk)
				}
				if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text, c.want) {
					b.Fatalf("without %q:\n%s", c.want, &out)
				}
			}
			b.ReportMetric(float64((spent(b, l.client)-begin).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// spent returns the processor time of this process and of Redis: a busy machine makes everything take longer.
func spent(b *testing.B, client *redis.Client) time.Duration {
	b.Helper()
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	var user, system float64
	info := client.InfoMap(b.Context(), "cpu")
	_, errUser := fmt.Sscan(info.Item("CPU", "used_cpu_user"), &user)
	_, errSystem := fmt.Sscan(info.Item("CPU", "used_cpu_sys"), &system)
	if err := errors.Join(info.Err(), errUser, errSystem); err != nil {
		b.Fatal(err)
	}
	return time.Duration(own.Utime.Nano() + own.Stime.Nano() + int64((user+system)*1e9))
}

// serve writes a kubeconfig for a server that has the accounts' labels.
func (l large) serve(b *testing.B, kubeconfig string) {
	b.Helper()
	binding := func(name, tenant string) string {
		return fmt.Sprintf(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,"namespace":"garden-kyma","resourceVersion":"1","labels":{"hyperscalerType":%q,"tenantName":%q}}}`,
			name, name[:strings.IndexByte(name, '-')], tenant)
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, tenant, list := strings.Cut(r.URL.Query().Get("labelSelector"), "tenantName=ga-")
		_, name, one := strings.Cut(r.URL.Path, "/credentialsbindings/")
		switch {
		case one:
			_, tenant, _ := strings.Cut(name, "-")
			io.WriteString(w, binding(name, "ga-"+tenant))
		case list:
			var items []json.RawMessage
			for _, pool := range largePools {
				items = append(items, json.RawMessage(binding(pool+"-"+tenant, "ga-"+tenant)))
			}
			json.NewEncoder(w).Encode(map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]string{"resourceVersion": "1"}, "items": items})
		default:
			io.WriteString(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"garden-kyma","uid":"u-1"}}`)
		}
	}))
	b.Cleanup(api.Close)
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: x, cluster: {server: '" + api.URL + "'}}]\nusers: [{name: x, user: {token: x}}]\n" +
		"contexts: [{name: x, context: {cluster: x, user: x}}]\ncurrent-context: x\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

// install fills Redis as a rebuild does.
func (l large) install(b *testing.B, process *counterstest.Process) {
	b.Helper()
	store, err := counters.Open(connection.Options{URLs: []string{"unix://" + process.Socket}}, "")
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	build := func(place string, install func(token string) (bool, error)) {
		b.Helper()
		begun, err := store.BeginRebuild(b.Context(), place, "e1", time.Now(), time.Minute)
		if err != nil || !begun {
			b.Fatal(place, begun, err)
		}
		if built, err := install("e1"); err != nil || !built {
			b.Fatal(place, built, err)
		}
	}
	places := map[string]account.Directory{}
	for n := range account.Buckets {
		places[account.BucketName(n)] = account.Directory{Places: map[string]account.Place{}}
	}
	for i, pool := range largePools {
		runtimes := map[string]account.Runtime{}
		s := account.Snapshot{Bindings: map[string]account.Record{}, Runtimes: maps.All(runtimes)}
		for n := i; n < l.runtimes; n += len(largePools) {
			id, rec := l.id(n), s.Bindings[l.account(n)]
			s.Bindings[l.account(n)] = account.Record{State: account.InUse, Tenant: l.tenant(n), Generation: 1, Confirmed: true, Count: rec.Count + 1}
			runtimes[id] = account.Runtime{State: account.RuntimeAssigned, Binding: l.account(n), Sequence: int64(n + 1), Request: "q-" + id, Confirmed: true, Origin: account.Own, Tenant: l.tenant(n)}
			places[account.BucketOf(id)].Places[id] = account.Place{Pool: pool}
		}
		build(pool, func(token string) (bool, error) { return store.Install(b.Context(), pool, token, s) })
	}
	for bucket, directory := range places {
		build(bucket, func(token string) (bool, error) { return store.InstallBucket(b.Context(), bucket, token, directory) })
	}
}

// store fills the ledger with replies as a worker writes them.
func (l *large) store(b *testing.B, js jetstream.JetStream) {
	b.Helper()
	if _, err := storage.Setup(b.Context(), js, storage.Options{Manage: true}); err != nil {
		b.Fatal(err)
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		b.Fatal(err)
	}
	for n := range l.runtimes {
		id, name, count := l.id(n), l.account(n), n/(len(largePools)*largeAccounts)+1
		r := events.Reply{
			RequestID: "q-" + id, RuntimeID: id, Status: events.StatusAssigned, GlobalAccountID: l.tenant(n), Plan: l.pool(n), Provider: l.pool(n), ShootName: "c-" + id[len(id)-7:],
			Binding:  &events.Binding{Name: name, Namespace: "garden-kyma", Kind: "CredentialsBinding", HyperscalerType: l.pool(n), Claimed: count == 1, Generation: 1},
			Clusters: &count, Limit: 180,
			Decision: &events.Decision{
				Sequence: int64(n + 1), Rule: l.pool(n), RuleNumber: 1, Pool: l.pool(n),
				LabelSelector: "hyperscalerType=" + l.pool(n) + ",!euAccess,shared!=true,!dirty,!internal,tenantName=" + l.tenant(n),
				Considered:    []events.Considered{{Binding: name, Clusters: count - 1, Verdict: "chosen", Own: true}},
			},
			ShootPatch: []events.PatchOperation{{Op: "add", Path: "/spec/credentialsBindingName", Value: name}},
		}
		data, err := events.EncodeReply(r, "/hap-worker")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := js.PublishAsync(subjects.Reply(id, r.RequestID), data, jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	first, err := streams.New(js).Message(b.Context(), events.StreamReplies, streams.Query{Sequence: uint64(l.runtimes - explainDay + 1)})
	if err != nil {
		b.Fatal(err)
	}
	l.day = first.Time.Truncate(time.Second) // as hapctl has --since
}
