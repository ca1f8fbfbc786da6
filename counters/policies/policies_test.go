package policies_test

import (
	"cmp"
	"fmt"
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

// policiesOfWorkers: the latest policy of each worker counts. A worker that stops, or is silent for two minutes by the
// clock of Redis, is forgotten, even the last one. The clocks of workers do not count.
func policiesOfWorkers(t *testing.T, client redis.UniversalClient) {
	const key = "policies:policies"
	s := counters.New(client, "policies")
	tell := func(worker, digest string, since time.Time) policy.InForce {
		t.Helper()
		told, err := policies.Tell(t.Context(), s, policy.InForce{Worker: worker, Digest: digest, Since: since, Seen: since})
		if err != nil {
			t.Fatal(err)
		}
		told.Since, told.Seen = told.Since.Truncate(time.Millisecond).UTC(), told.Seen.Truncate(time.Millisecond).UTC()
		return told
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
	one := tell("host-1", "aa", time.Time{})
	if !one.Since.Equal(one.Seen) {
		t.Errorf("a policy that is new is recorded since %s, seen %s", one.Since, one.Seen)
	}
	two := tell("host-2", "", one.Since.Add(time.Hour)) // its clock is ahead
	if !two.Seen.Before(two.Since) {
		t.Errorf("seen %s by a clock that is ahead", two.Seen)
	}
	are(one, two)
	one = tell("host-1", "bb", one.Since)
	are(one, two)
	three := policy.InForce{Worker: "host-3", Digest: "cc", Since: one.Since, Seen: one.Seen.Add(-time.Minute)}
	record := func(seen time.Time) string { return fmt.Sprintf("cc|%d|%d", one.Since.UnixMilli(), seen.UnixMilli()) }
	err := client.HSet(t.Context(), key, "host-3", record(three.Seen), "host-4", record(one.Seen.Add(-3*time.Minute)), "host-5", "by hand|x|1900000000000").Err()
	if err != nil {
		t.Fatal(err)
	}
	one, two = tell("host-1", "bb", one.Since), tell("host-2", "", two.Since)
	are(one, two, three)
	for _, worker := range []string{"host-1", "host-2", "host-3"} {
		if err := policies.Forget(t.Context(), s, worker); err != nil {
			t.Fatal(err)
		}
	}
	are()
	if left, err := client.PTTL(t.Context(), key).Result(); err != nil || left <= 0 || left > 2*time.Minute {
		t.Errorf("the key lives on for %v, %v", left, err)
	}
}
