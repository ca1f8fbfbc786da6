package counters_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
)

// buildAll builds places, each with its own epoch.
func buildAll(t *testing.T, m *counterstest.Machine, epochs account.Epochs) {
	t.Helper()
	ctx, now := t.Context(), time.Unix(1_700_000_000, 0)
	for place, epoch := range epochs {
		mine, err := m.BeginRebuild(ctx, place, epoch, now, time.Minute)
		if err != nil || !mine {
			t.Fatalf("begin %s: %v, %v", place, mine, err)
		}
		var built bool
		if account.IsBucket(place) {
			built, err = m.InstallBucket(ctx, place, epoch, account.Directory{})
		} else {
			built, err = m.Install(ctx, place, epoch, account.Snapshot{})
		}
		if err != nil || !built {
			t.Fatalf("install %s: %v, %v", place, built, err)
		}
	}
}

// TestEpochsOfDecisions is rule 15: every call whose result has effects outside of Redis checks the
// epochs of all its places, and fails if one is not in force. Calls that change only Redis do not
// check, and epochs that are not fenced are not checked.
func TestEpochsOfDecisions(t *testing.T) {
	t.Parallel()
	runtime := "rt-1"
	bucket := account.BucketOf(runtime)
	all := account.Epochs{"aws": account.FencedEpoch("pool"), bucket: account.FencedEpoch("bucket"), "gcp": "of-old"}
	request := account.Request{Runtime: runtime, Request: "req-1", Tenant: "ga-1", All: true}
	for _, overLanes := range []bool{false, true} {
		m := counterstest.NewMachine(counterstest.StartRedis(t).Client(t), "")
		if overLanes {
			m.OverLanes(t)
		}
		buildAll(t, m, all)
		ranges := blocks.New(m.Store)
		if mine, err := ranges.BeginRebuild(t.Context(), account.FencedEpoch("ranges"), time.Now(), time.Minute); err != nil || !mine {
			t.Fatal(mine, err)
		}
		if built, err := ranges.Install(t.Context(), account.FencedEpoch("ranges"), network.State{}); err != nil || !built {
			t.Fatal(built, err)
		}
		var mu sync.Mutex
		asked, answer := account.Epochs{}, error(nil)
		m.Fence(func(context.Context) account.EpochCheck {
			return func(epochs account.Epochs) error {
				mu.Lock()
				defer mu.Unlock()
				maps.Copy(asked, epochs)
				return answer
			}
		})
		for name, c := range map[string]struct {
			call func(context.Context) error
			want account.Epochs
		}{
			"locate and assign": {func(ctx context.Context) error { _, err := m.LocateAndAssign(ctx, "aws", request); return err }, account.Epochs{"aws": all["aws"], bucket: all[bucket]}},
			"assign":            {func(ctx context.Context) error { _, err := m.Assign(ctx, "aws", request); return err }, account.Epochs{"aws": all["aws"]}},
			"refuse": {func(ctx context.Context) error {
				_, err := m.Refuse(ctx, account.Place{Pool: "aws"}, runtime, "req-1", "ga-1")
				return err
			}, account.Epochs{"aws": all["aws"]}},
			"locate": {func(ctx context.Context) error { _, err := m.Locate(ctx, runtime, "aws"); return err }, account.Epochs{bucket: all[bucket]}},
			"depart": {func(ctx context.Context) error { _, err := m.Depart(ctx, runtime); return err }, account.Epochs{bucket: all[bucket]}},
			"place":  {func(ctx context.Context) error { _, err := m.Place(ctx, runtime); return err }, account.Epochs{bucket: all[bucket]}},
			"leave": {func(ctx context.Context) error {
				_, _, err := m.Leave(ctx, account.Place{Pool: "aws"}, runtime, "req-1", "ga-1")
				return err
			}, account.Epochs{"aws": all["aws"]}},
			"move place": {func(ctx context.Context) error {
				_, err := m.MovePlace(ctx, runtime, account.Place{Pool: "aws"}, account.Place{Pool: "aws"})
				return err
			}, account.Epochs{bucket: all[bucket]}},
			"release runtime": {func(ctx context.Context) error {
				_, err := m.ReleaseRuntime(ctx, account.Place{Pool: "aws"}, "rt-2", "")
				return err
			}, account.Epochs{"aws": all["aws"]}},
			"begin dirtying": {func(ctx context.Context) error { _, err := m.BeginDirtying(ctx, "aws", "b", 1); return err }, account.Epochs{"aws": all["aws"]}},
			"in use":         {func(ctx context.Context) error { _, err := m.InUse(ctx, "aws", "b"); return err }, account.Epochs{"aws": all["aws"]}},
			"runtime":        {func(ctx context.Context) error { _, err := m.RuntimeIn(ctx, "aws", runtime); return err }, account.Epochs{"aws": all["aws"]}},
			"blocks of":      {func(ctx context.Context) error { _, err := ranges.Applied(ctx, runtime); return err }, account.Epochs{account.RangesPlace: account.FencedEpoch("ranges")}},
			"acquire":        {func(ctx context.Context) error { _, err := ranges.Acquire(ctx, runtime, "req-1", nil); return err }, account.Epochs{account.RangesPlace: account.FencedEpoch("ranges")}},
			"of old":         {func(ctx context.Context) error { _, err := m.InUse(ctx, "gcp", "b"); return err }, nil},
			"take back":      {func(ctx context.Context) error { return m.TakeBack(ctx, "aws", "rt-3", "req-3", "ga-1") }, nil},
			"mark freed":     {func(ctx context.Context) error { _, err := m.MarkFreed(ctx, "aws", "b", 1); return err }, nil},
			"status":         {func(ctx context.Context) error { _, err := m.Status(ctx, "aws"); return err }, nil},
			"epochs":         {func(ctx context.Context) error { _, err := m.Epochs(ctx, "aws", bucket); return err }, nil},
			"of ranges":      {func(ctx context.Context) error { _, err := ranges.Epoch(ctx); return err }, nil},
			"confirm": {func(ctx context.Context) error {
				_, err := m.Confirm(ctx, "aws", account.Claim{Runtime: runtime, Binding: "b", Epoch: all["aws"]})
				return err
			}, nil},
		} {
			asked, answer = account.Epochs{}, nil
			if err := c.call(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if !maps.Equal(asked, c.want) {
				t.Errorf("%s, over lanes %t: asked about %v, want %v", name, overLanes, asked, c.want)
			}
			answer = account.ErrNotInForce
			if err := c.call(t.Context()); errors.Is(err, account.ErrNotBuilt) != (c.want != nil) {
				t.Errorf("%s, over lanes %t: where the epochs are not in force: %v", name, overLanes, err)
			}
		}
	}
}

// TestReplicaNeedsFencedEpochs is rule 15: once a server has or had a replica, that may become a
// second master, so nothing is decided under an epoch that no record names.
func TestReplicaNeedsFencedEpochs(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server, at := replicated(t)
	replica, _ := replicated(t)
	m := counterstest.NewMachine(server, "")
	decides := func(pool string) error { _, err := m.InUse(ctx, pool, "b"); return err }
	epochs := account.Epochs{"aws": account.FencedEpoch("pool"), "gcp": "of-old"}
	buildAll(t, m, epochs)
	if decides("aws") != nil || decides("gcp") != nil {
		t.Errorf("alone: %v, %v", decides("aws"), decides("gcp"))
	}
	follow(t, replica, at) // the first one begins a history
	buildAll(t, m, epochs)
	for _, when := range []string{"with a replica", "after it has left", "with a replica again"} {
		if of, err := m.Epochs(ctx, "aws", "gcp"); err != nil || of["aws"] == "" || of["gcp"] != "" {
			t.Errorf("%s: epochs %v, %v", when, of, err)
		}
		if err := decides("gcp"); !errors.Is(err, account.ErrNotBuilt) {
			t.Errorf("%s: decided under an epoch that no record names: %v", when, err)
		}
		if err := decides("aws"); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		follow(t, replica, map[string]string{"with a replica": "", "after it has left": at}[when])
		if when == "with a replica" {
			leaves(t, server)
		}
	}
}

// leaves waits until a server has no replica any more.
func leaves(t *testing.T, server *redis.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for {
		info, err := server.Info(ctx, "replication").Result()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(info, "connected_slaves:0") {
			return
		}
		<-every.C
	}
}

// TestDepose: Depose removes the epoch that was seen, and no other.
func TestDepose(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := counterstest.NewMachine(counterstest.StartRedis(t).Client(t), "")
	buildAll(t, m, account.Epochs{"aws": "e1"})
	if gone, err := m.Depose(ctx, "aws", "e0"); err != nil || gone {
		t.Errorf("of another epoch: %t, %v", gone, err)
	}
	if of, err := m.Epochs(ctx, "aws"); err != nil || of["aws"] != "e1" {
		t.Error(of, err)
	}
	if gone, err := m.Depose(ctx, "aws", "e1"); err != nil || !gone {
		t.Errorf("%t, %v", gone, err)
	}
	if of, err := m.Epochs(ctx, "aws"); err != nil || of["aws"] != "" {
		t.Error(of, err)
	}
}
