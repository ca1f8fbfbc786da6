package integration_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// largeRuntimes are in the landscape that page and hapctl have to stand: 100,000, or what
// HAP_LARGE_RUNTIMES says.
var largeRuntimes = func() int {
	if n, err := strconv.Atoi(os.Getenv("HAP_LARGE_RUNTIMES")); err == nil && n > 0 {
		return n
	}
	return 100_000
}()

// largePools are 10,000 accounts, as many as that in no more than five pools.
var largePools = []struct {
	pool     engine.Pool
	accounts int
}{
	{engine.Pool{HyperscalerType: "aws"}, 5000},
	{engine.Pool{HyperscalerType: "aws", EUAccess: true}, 1000},
	{engine.Pool{HyperscalerType: "azure"}, 2000},
	{engine.Pool{HyperscalerType: "gcp_cf-sa30"}, 1500},
	{engine.Pool{HyperscalerType: "azure", Shared: true}, 500},
}

// TestTimedLargeLandscape looks at 10,000 accounts with 100,000 runtimes: page and hapctl
// pools show all of it. How long the first byte and hapctl take is told with -v, and
// stands in docs/performance.md: a machine that does something else decides nothing.
func TestTimedLargeLandscape(t *testing.T) {
	requireRedis(t)
	s := startStack(t, stack.Options{Accounts: largeAccounts()})
	install(t, s)
	var cold []time.Duration
	var last *stack.Worker
	for range 3 { // a worker's first viewer is the only one who waits for a whole reading
		w, err := s.AddWorker(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		cold, last = append(cold, firstByte(t, w.URL()+"/")), w
	}
	for _, path := range []string{"/", "/pools/aws", "/pools/aws?page=42&state=free", "/tenants"} {
		took := []time.Duration{firstByte(t, last.URL()+path), firstByte(t, last.URL()+path), firstByte(t, last.URL()+path)}
		t.Logf("%s: first byte after %v", path, took)
	}
	t.Logf("first viewers: first byte after %v", cold)
	checkPools(t, s)
}

// checkPools runs hapctl pools as an operator does.
func checkPools(t *testing.T, s *stack.Stack) {
	bin := filepath.Join(buildHapctl(t), "hapctl")
	var took []time.Duration
	for range 3 {
		c := exec.CommandContext(t.Context(), bin, "pools", "-o", "json")
		c.Env = append(os.Environ(), "HAP_REDIS_URL="+s.Redis.URL(), "KUBECONFIG="+s.Kube.Kubeconfig(), "HAP_GARDENER_NAMESPACE="+s.Target.Namespace)
		begun := time.Now()
		out, err := c.Output()
		took = append(took, time.Since(begun))
		if err != nil {
			t.Fatalf("hapctl pools: %v\n%s", err, out)
		}
		var list struct {
			Pools []struct{ Bindings, Clusters int }
		}
		if err := json.Unmarshal(out, &list); err != nil {
			t.Fatal(err)
		}
		accounts, clusters := 0, 0
		for _, p := range list.Pools {
			accounts, clusters = accounts+p.Bindings, clusters+p.Clusters
		}
		if accounts != 10_000 || clusters != largeRuntimes {
			t.Errorf("hapctl pools counts %d accounts and %d clusters", accounts, clusters)
		}
	}
	t.Logf("hapctl pools: %v", took)
}

// firstByte asks for a page over a new connection and says when its answer began.
func firstByte(t *testing.T, url string) time.Duration {
	t.Helper()
	var took time.Duration
	begun := time.Now()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotFirstResponseByte: func() { took = time.Since(begun) }})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var page strings.Builder
	if err := response.Write(&page); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || strings.Contains(page.String(), "Incomplete") || !strings.Contains(page.String(), "10000") && strings.HasSuffix(url, "/") {
		t.Errorf("%s: %s without the whole state:\n%s", url, response.Status, page.String()[:min(3000, page.Len())])
	}
	return took
}

func largeAccounts() []stack.Account {
	var all []stack.Account
	for _, p := range largePools {
		for n := range p.accounts {
			labels := map[string]string{}
			if p.pool.EUAccess {
				labels["euAccess"] = "true"
			}
			if p.pool.Shared {
				labels["shared"] = "true"
			}
			if tenant := largeTenant(n); !p.pool.Shared && tenant != "" {
				labels["tenantName"] = tenant
			}
			all = append(all, stack.Account{Name: largeName(p.pool, n), HyperscalerType: p.pool.HyperscalerType, Labels: labels})
		}
	}
	return all
}

// largeTenant has every third account unclaimed; the others are two of a tenant.
func largeTenant(n int) string {
	if n%3 == 2 {
		return ""
	}
	return fmt.Sprintf("ga-%04d", n/3)
}

func largeName(p engine.Pool, n int) string {
	return strings.NewReplacer("_", "-", "+", "-").Replace(p.Name()) + fmt.Sprintf("-%d", n)
}

// install fills Redis as a rebuild does, before any worker starts.
func install(t *testing.T, s *stack.Stack) {
	t.Helper()
	store, err := counters.Open(connection.Options{URLs: []string{s.Redis.URL()}}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	directories := map[string]account.Directory{}
	for n := range account.Buckets {
		directories[account.BucketName(n)] = account.Directory{Places: map[string]account.Place{}}
	}
	token, epochs := account.FencedEpoch("large"), account.Epochs{}
	built := func(place string, installed bool, err error) {
		t.Helper()
		if err != nil || !installed {
			t.Fatalf("installing %s: %t, %v", place, installed, err)
		}
		epochs[place] = token
	}
	runtimes := 0
	for i, p := range largePools {
		name := p.pool.Name()
		snapshot := largeSnapshot(p.pool, p.accounts, &runtimes, i == len(largePools)-1)
		for id := range snapshot.EachRuntime() {
			directories[account.BucketOf(id)].Places[id] = account.Place{Pool: name}
		}
		begun, err := store.BeginRebuild(t.Context(), name, token, time.Now(), time.Minute)
		built(name, begun, err)
		installed, err := store.Install(t.Context(), name, token, snapshot)
		built(name, installed, err)
	}
	for name, directory := range directories {
		begun, err := store.BeginRebuild(t.Context(), name, token, time.Now(), time.Minute)
		built(name, begun, err)
		installed, err := store.InstallBucket(t.Context(), name, token, directory)
		built(name, installed, err)
	}
	l := landscapeOn(t, s)
	if _, err := storage.NewLedger(l.js, l.subjects, "large").SetEpochs(t.Context(), epochs, 0); err != nil { // else workers build all of it anew
		t.Fatal(err)
	}
}

// largeSnapshot puts runtimes on all accounts that have a tenant, and the rest of
// them all into the last pool.
func largeSnapshot(p engine.Pool, accounts int, runtimes *int, last bool) account.Snapshot {
	placed := map[string]account.Runtime{}
	s := account.Snapshot{Bindings: map[string]account.Record{}, Runtimes: maps.All(placed)}
	per, more := 13, 0
	if last {
		per, more = (largeRuntimes-*runtimes)/accounts, (largeRuntimes-*runtimes)%accounts
	}
	for n := range accounts {
		tenant, count := largeTenant(n), per
		if n < more {
			count++
		}
		if tenant == "" && !p.Shared {
			continue
		}
		rec := account.Record{State: account.InUse, Tenant: tenant, Generation: 1, Confirmed: true, Count: count}
		if p.Shared {
			rec = account.Record{State: account.Free, Count: count}
		}
		s.Bindings[largeName(p, n)] = rec
		for range count {
			*runtimes++
			s.Sequence++
			placed[fmt.Sprintf("rt-%06d", *runtimes)] = account.Runtime{
				State: account.RuntimeAssigned, Binding: largeName(p, n), Sequence: s.Sequence, Request: fmt.Sprintf("q-%06d", *runtimes),
				Confirmed: true, Origin: account.Own, Tenant: fmt.Sprintf("ga-%04d", n/3),
			}
		}
	}
	return s
}
