package policies_test

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/counters/policies"
	"github.com/hap-worker/hap-worker/engine/policy"
)

func TestPoliciesOnMiniredis(t *testing.T) {
	t.Parallel()
	policiesOfWorkers(t, counterstest.Mini(t))
}

func TestPoliciesOnRedis(t *testing.T) {
	t.Parallel()
	policiesOfWorkers(t, counterstest.Redis(t))
}

func TestPoliciesOnCluster(t *testing.T) {
	t.Parallel()
	policiesOfWorkers(t, counterstest.Cluster(t))
}

// policiesOfWorkers: the latest policy of each worker counts. A worker that stops, or is silent for
// two minutes, is forgotten, even the last one.
func policiesOfWorkers(t *testing.T, client redis.UniversalClient) {
	s := counters.New(client, "policies")
	at := time.UnixMilli(1_800_000_000_000).UTC()
	one := policy.InForce{Worker: "host-1", Digest: "aa", Since: at, Seen: at}
	two := policy.InForce{Worker: "host-2", Since: at, Seen: at}
	later := one
	later.Digest, later.Since, later.Seen = "bb", at.Add(time.Minute), at.Add(time.Minute)
	last := later
	last.Seen = at.Add(3 * time.Minute)
	tell := func(p policy.InForce) {
		t.Helper()
		if err := policies.Tell(t.Context(), s, p); err != nil {
			t.Fatal(err)
		}
	}
	are := func(want ...policy.InForce) {
		t.Helper()
		got, err := policies.All(t.Context(), s)
		slices.SortFunc(got, func(a, b policy.InForce) int { return cmp.Compare(a.Worker, b.Worker) })
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	}
	are()
	tell(one)
	tell(two)
	are(one, two)
	tell(later)
	are(later, two)
	if err := client.HSet(t.Context(), "policies:policies", "host-3", "by hand|x|1900000000000").Err(); err != nil {
		t.Fatal(err)
	}
	are(later, two)
	tell(last)
	are(last)
	if err := policies.Forget(t.Context(), s, "host-1"); err != nil {
		t.Fatal(err)
	}
	are()
	if left, err := client.PTTL(t.Context(), "policies:policies").Result(); err != nil || left <= 0 || left > 2*time.Minute {
		t.Errorf("the key lives on for %v, %v", left, err)
	}
}
