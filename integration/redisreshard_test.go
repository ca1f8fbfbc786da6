package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// urls are those of all primaries.
func (p *primaries) urls() (all []string) {
	for _, address := range p.addresses {
		all = append(all, "redis://"+address)
	}
	return all
}

// slotOf is the slot of a key.
func (p *primaries) slotOf(t *testing.T, key string) int {
	t.Helper()
	slot, err := p.admins[0].ClusterKeySlot(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(slot)
}

// slotsInUse are those that have keys, in their order.
func (p *primaries) slotsInUse(t *testing.T) (slots []int) {
	t.Helper()
	for _, admin := range p.admins {
		keys := admin.Scan(t.Context(), 0, "", 1000).Iterator()
		for keys.Next(t.Context()) {
			if slot := p.slotOf(t, keys.Val()); !slices.Contains(slots, slot) {
				slots = append(slots, slot)
			}
		}
		if err := keys.Err(); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(slots)
	return slots
}

// owner is the number of the primary that has a slot.
func (p *primaries) owner(t *testing.T, slot int) int {
	t.Helper()
	shards, err := p.admins[0].ClusterShards(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, shard := range shards {
		for _, s := range shard.Slots {
			if s.Start <= int64(slot) && int64(slot) <= s.End {
				return slices.Index(p.addresses, net.JoinHostPort(shard.Nodes[0].IP, fmt.Sprint(shard.Nodes[0].Port)))
			}
		}
	}
	t.Fatalf("no primary has slot %d", slot)
	return 0
}

// slotMove is a slot on its way from one primary to the next.
type slotMove struct {
	*primaries
	t          *testing.T
	slot       int
	source     *redis.Client
	target     *redis.Client
	sourceID   string
	targetID   string
	targetHost []any
}

func (p *primaries) moves(t *testing.T, slot int) slotMove {
	t.Helper()
	from := p.owner(t, slot)
	to := (from + 1) % len(p.admins)
	host, port, err := net.SplitHostPort(p.addresses[to])
	if err != nil {
		t.Fatal(err)
	}
	m := slotMove{primaries: p, t: t, slot: slot, source: p.admins[from], target: p.admins[to], targetHost: []any{host, port}}
	var errs [2]error
	m.sourceID, errs[0] = m.source.ClusterMyID(t.Context()).Result()
	m.targetID, errs[1] = m.target.ClusterMyID(t.Context()).Result()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m slotMove) set(on *redis.Client, what, id string) {
	m.t.Helper()
	if err := on.Do(m.t.Context(), "CLUSTER", "SETSLOT", m.slot, what, id).Err(); err != nil {
		m.t.Fatalf("slot %d %s: %v", m.slot, what, err)
	}
}

// begin has source and target say that the slot moves.
func (m slotMove) begin() {
	m.t.Helper()
	m.set(m.target, "IMPORTING", m.sourceID)
	m.set(m.source, "MIGRATING", m.targetID)
}

// key moves one key; false where none is left.
func (m slotMove) key() bool {
	m.t.Helper()
	keys, err := m.source.ClusterGetKeysInSlot(m.t.Context(), m.slot, 1).Result()
	if err != nil {
		m.t.Fatal(err)
	}
	if len(keys) == 0 {
		return false
	}
	// One that was deleted meanwhile is NOKEY, which is no error.
	if err := m.source.Do(m.t.Context(), slices.Concat([]any{"MIGRATE"}, m.targetHost, []any{"", 0, 5000, "KEYS", keys[0]})...).Err(); err != nil {
		m.t.Fatalf("moving %s: %v", keys[0], err)
	}
	return true
}

// end assigns the slot to the target.
func (m slotMove) end() {
	m.t.Helper()
	m.set(m.target, "NODE", m.targetID)
	m.set(m.source, "NODE", m.targetID)
	for _, other := range m.admins {
		if other != m.source && other != m.target {
			m.set(other, "NODE", m.targetID)
		}
	}
}

// rest moves all keys that are left and ends the move.
func (m slotMove) rest() {
	m.t.Helper()
	for m.key() {
	}
	m.end()
}

// disown takes a slot from its primary, so that the cluster is down until it is given back.
func (p *primaries) disown(t *testing.T, slot int) (back func()) {
	t.Helper()
	owner := p.admins[p.owner(t, slot)]
	for _, admin := range p.admins {
		if err := admin.ClusterDelSlots(t.Context(), slot).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		t.Helper()
		if err := owner.ClusterAddSlots(t.Context(), slot).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

var errorStat = regexp.MustCompile(`(?m)^errorstat_(\w+):count=(\d+)`)

// errors are how many errors of each kind all primaries have answered with.
func (p *primaries) errors(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, admin := range p.admins {
		info, err := admin.Info(t.Context(), "errorstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range errorStat.FindAllStringSubmatch(info, -1) {
			n, err := strconv.Atoi(found[2])
			if err != nil {
				t.Fatal(err)
			}
			counts[found[1]] += n
		}
	}
	return counts
}

// awaitErrors returns when clients have met errors of each kind since then.
func (p *primaries) awaitErrors(t *testing.T, since map[string]int, kinds ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	eventually(ctx, t, func() error {
		now := p.errors(t)
		for _, kind := range kinds {
			if now[kind] == since[kind] {
				return fmt.Errorf("no client has met %s; there were %s", kind, strings.Join(strings.Fields(fmt.Sprint(now)), " "))
			}
		}
		return nil
	})
}

// awaitBuilt returns the epochs of all places, once each of them is built on the primary that has it.
func (p *primaries) awaitBuilt(t *testing.T) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var epochs map[string]string
	eventually(ctx, t, func() (err error) {
		epochs = map[string]string{}
		for _, admin := range p.admins {
			err = errors.Join(err, builtOn(ctx, admin, epochs))
		}
		return err
	})
	return epochs
}

// builtOn reads the epochs of a primary's places; an error where one is not built on it.
func builtOn(ctx context.Context, admin *redis.Client, epochs map[string]string) error {
	info, err := admin.InfoMap(ctx, "server").Result()
	if err != nil {
		return err
	}
	metas := admin.Scan(ctx, 0, "hap:{*}:meta", 1000).Iterator()
	for metas.Next(ctx) {
		meta, err := admin.HMGet(ctx, metas.Val(), "epoch", "server").Result()
		if err != nil {
			return err
		}
		if meta[0] == nil || meta[1] != info["Server"]["run_id"] {
			return fmt.Errorf("%s is not built: %v", metas.Val(), meta)
		}
		epochs[metas.Val()], _ = meta[0].(string)
	}
	return metas.Err()
}
