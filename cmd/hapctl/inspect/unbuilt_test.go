package inspect

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/simulate"
)

// halfBuilt returns a Redis with the directory and the pools aws, which is built, and gcp, which is not.
func halfBuilt(t *testing.T) (*counters.Store, *config.Config) {
	t.Helper()
	client := counterstest.Mini(t)
	store := counters.New(client, "")
	begin := func(place string) {
		if mine, err := store.BeginRebuild(t.Context(), place, "e1", time.Now(), time.Minute); err != nil || !mine {
			t.Fatal(place, mine, err)
		}
	}
	for n := range account.Buckets {
		begin(account.BucketName(n))
		if _, err := store.InstallBucket(t.Context(), account.BucketName(n), "e1", account.Directory{}); err != nil {
			t.Fatal(err)
		}
	}
	begin("gcp")
	begin("aws")
	runtimes := map[string]account.Runtime{"rt-1": {State: account.RuntimeAssigned, Binding: "aws-1", Tenant: "ga-1", Sequence: 1, Request: "q", Origin: account.Own}}
	held := map[string]account.Record{"aws-held": {State: account.Free, Count: 2}}
	if _, err := store.Install(t.Context(), "aws", "e1", account.Snapshot{Runtimes: maps.All(runtimes), Bindings: held}); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Redis.URL = config.URLs{"redis://" + client.Options().Addr}
	return store, cfg
}

// TestStateOfUnbuiltPool: what is saved, simulated and planned has every pool with accounts, or there is an error.
func TestStateOfUnbuiltPool(t *testing.T) {
	t.Parallel()
	store, cfg := halfBuilt(t)
	state := &simulate.State{}
	unbuilt, err := readPools(t.Context(), store, state)
	if err != nil {
		t.Fatal(err)
	}
	if err := needed(state, unbuilt, map[string]bool{"aws": true}, cfg.Redis.URL); err != nil {
		t.Errorf("no account needs the pool: %v", err)
	}
	for _, pool := range []string{"gcp", "azure"} { // only labels name the second
		err = needed(state, unbuilt, map[string]bool{"aws": true, pool: true}, cfg.Redis.URL)
		if cli.ExitCode(err) != cli.ExitFailure || !strings.Contains(err.Error(), "pool "+pool+" is not built") || !strings.Contains(err.Error(), "start a worker") {
			t.Errorf("%s: it ends with %v", pool, err)
		}
	}
}

// TestRuntimesOfUnbuiltPool: a list of runtimes says which pools it lacks.
func TestRuntimesOfUnbuiltPool(t *testing.T) {
	t.Parallel()
	_, cfg := halfBuilt(t)
	var out, talk bytes.Buffer
	s := cli.New(strings.NewReader(""), &out, &talk)
	if err := listRuntimes(t.Context(), s, cfg, runtimeFilter{}); err != nil || !strings.Contains(out.String(), "rt-1") || !strings.Contains(talk.String(), "not built in Redis: pool gcp;") {
		t.Errorf("%v; it prints\n%s\nand says\n%s", err, &out, &talk)
	}
	failed := listRuntimes(t.Context(), s, cfg, runtimeFilter{pool: "gcp"})
	if cli.ExitCode(failed) != cli.ExitFailure || !strings.Contains(failed.Error(), "pool gcp is not built") {
		t.Errorf("a single pool ends with %v", failed)
	}
}

// TestRecordOfHeldAccount: a single account is held if its record says free and counts clusters, as in the list. It
// has such a record in any pool, with or without labels.
func TestRecordOfHeldAccount(t *testing.T) {
	t.Parallel()
	store, _ := halfBuilt(t)
	for _, c := range []struct {
		labelled []engine.Binding
		want     account.State
	}{
		{[]engine.Binding{{Name: "aws-held", HyperscalerType: "aws"}}, account.Held},
		{nil, account.Missing},
	} {
		r, err := recordsOf(t.Context(), store, "aws-held", c.labelled)
		if err != nil {
			t.Fatal(err)
		}
		found := view.SideBySide(r, c.labelled, view.Terms{}).Bindings
		if len(found) != 1 || found[0].Standing != c.want || found[0].Clusters.N != 2 {
			t.Errorf("labelled %v: it is shown as %+v, want %s with 2 clusters", c.labelled, found, c.want)
		}
	}
}
