package landscapes_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/counters/landscapes"
	"github.com/hap-worker/hap-worker/engine"
)

var kyma = engine.Landscape{Cluster: "uid-1", Namespace: "garden-kyma", Resource: "credentialsbindings"}

func TestLandscapeOnMiniredis(t *testing.T) {
	t.Parallel()
	landscapeStories(t, counterstest.Mini(t))
}

func TestLandscapeOnRedis(t *testing.T) {
	t.Parallel()
	landscapeStories(t, counterstest.Redis(t))
}

func TestLandscapeOnCluster(t *testing.T) {
	t.Parallel()
	landscapeStories(t, counterstest.Cluster(t))
}

func landscapeStories(t *testing.T, client redis.UniversalClient) {
	t.Run("claimed once", func(t *testing.T) { t.Parallel(); landscapeClaimedOnce(t, client) })
	t.Run("claimed by many at once", func(t *testing.T) { t.Parallel(); landscapeClaimedAtOnce(t, client) })
	t.Run("the cluster becomes known", func(t *testing.T) { t.Parallel(); landscapeCompleted(t, client) })
	t.Run("damaged", func(t *testing.T) { t.Parallel(); landscapeDamaged(t, client) })
	t.Run("adopted", func(t *testing.T) { t.Parallel(); landscapeAdopted(t, client) })
}

// recorded returns what the store has; the zero Landscape for none.
func recorded(t *testing.T, s *counters.Store) engine.Landscape {
	t.Helper()
	l, found, err := landscapes.Recorded(t.Context(), s)
	if err != nil || found != (l != engine.Landscape{}) {
		t.Fatalf("%+v, %t, %v", l, found, err)
	}
	return l
}

// claimLandscape returns the recorded landscape after a claim.
func claimLandscape(t *testing.T, s *counters.Store, want engine.Landscape) engine.Landscape {
	t.Helper()
	have, err := landscapes.Claim(t.Context(), s, want)
	if err != nil {
		t.Fatal(err)
	}
	return have
}

func landscapeClaimedOnce(t *testing.T, client redis.UniversalClient) {
	s, neighbour := counters.New(client, "once"), counters.New(client, "once-shadow")
	if got := recorded(t, s); got != (engine.Landscape{}) {
		t.Errorf("an empty Redis has %+v", got)
	}
	if got := claimLandscape(t, s, kyma); got != kyma {
		t.Errorf("claimed: %+v", got)
	}
	other := kyma
	other.Namespace = "default"
	if got := claimLandscape(t, s, other); got != kyma {
		t.Errorf("claimed again by another: %+v", got)
	}
	if got := recorded(t, s); got != kyma {
		t.Errorf("recorded: %+v", got)
	}
	if got := recorded(t, neighbour); got != (engine.Landscape{}) {
		t.Errorf("under another prefix: %+v", got)
	}
	if ttl := client.TTL(t.Context(), "once:landscape").Val(); ttl >= 0 {
		t.Errorf("the record lives for %s", ttl)
	}
	if pools, err := s.Pools(t.Context()); err != nil || len(pools) > 0 {
		t.Errorf("the record is taken for pools %q, %v", pools, err)
	}
	if err := client.Del(t.Context(), "once:landscape").Err(); err != nil { // by hand
		t.Fatal(err)
	}
	if got := claimLandscape(t, s, kyma); got != kyma {
		t.Errorf("claimed after it was deleted: %+v", got)
	}
}

func landscapeClaimedAtOnce(t *testing.T, client redis.UniversalClient) {
	s := counters.New(client, "race")
	var running sync.WaitGroup
	got := make([]engine.Landscape, 16)
	for i := range got {
		running.Go(func() {
			want := kyma
			want.Namespace = fmt.Sprint("garden-", i)
			var err error
			if got[i], err = landscapes.Claim(t.Context(), s, want); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	for _, one := range got {
		if one != got[0] || one.Namespace == "" {
			t.Errorf("two have won: %+v and %+v", got[0], one)
		}
	}
}

func landscapeCompleted(t *testing.T, client redis.UniversalClient) {
	s := counters.New(client, "complete")
	unknown := kyma
	unknown.Cluster = ""
	if got := claimLandscape(t, s, unknown); got != unknown {
		t.Fatalf("%+v", got)
	}
	foreign := kyma
	foreign.Resource = "secrets"
	if got := claimLandscape(t, s, foreign); got != unknown {
		t.Errorf("another landscape has completed the record: %+v", got)
	}
	if got := claimLandscape(t, s, kyma); got != kyma {
		t.Errorf("not completed: %+v", got)
	}
	if got := claimLandscape(t, s, unknown); got != kyma {
		t.Errorf("a worker without the right has taken the uid away: %+v", got)
	}
}

func landscapeDamaged(t *testing.T, client redis.UniversalClient) {
	ctx, s := t.Context(), counters.New(client, "damaged")
	const key = "damaged:landscape"
	set := func(fields ...any) func() error {
		return func() error { return client.HSet(ctx, key, fields...).Err() }
	}
	for name, write := range map[string]func() error{
		"another type": func() error { return client.Set(ctx, key, "garden-kyma", 0).Err() },
		"no namespace": set("resource", "secrets"),
		"a huge field": set("namespace", strings.Repeat("a", 1<<20), "resource", "secrets"),
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		if l, _, err := landscapes.Recorded(ctx, s); !errors.Is(err, engine.ErrNoLandscape) || len(err.Error()) > 500 {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
		if l, err := landscapes.Claim(ctx, s, kyma); !errors.Is(err, engine.ErrNoLandscape) {
			t.Errorf("%s: claimed as %+v, %v", name, l, err)
		}
		if err := landscapes.Adopt(ctx, s, kyma); err != nil {
			t.Errorf("%s: adopting: %v", name, err)
		}
		if got := recorded(t, s); got != kyma {
			t.Errorf("%s: adopted: %+v", name, got)
		}
		if err := client.Del(ctx, key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := landscapes.Claim(ctx, s, engine.Landscape{Namespace: "garden-kyma"}); !errors.Is(err, engine.ErrNoLandscape) {
		t.Errorf("a landscape without a resource is recorded: %v", err)
	}
}

func landscapeAdopted(t *testing.T, client redis.UniversalClient) {
	s := counters.New(client, "adopt")
	claimLandscape(t, s, kyma)
	if err := client.HSet(t.Context(), "adopt:landscape", "region", "a newer version").Err(); err != nil {
		t.Fatal(err)
	}
	anew := engine.Landscape{Namespace: "garden-kyma", Resource: "secrets"}
	if err := landscapes.Adopt(t.Context(), s, anew); err != nil {
		t.Fatal(err)
	}
	if got := recorded(t, s); got != anew {
		t.Errorf("%+v", got)
	}
	if got := client.HGet(t.Context(), "adopt:landscape", "region").Val(); got != "a newer version" {
		t.Errorf("a field of a newer version is %q", got)
	}
}
