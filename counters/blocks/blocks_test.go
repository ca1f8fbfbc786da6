package blocks_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/engine/network/networktest"
	_ "github.com/hap-worker/hap-worker/engine/rapidtest" // fixes the seed
)

// TestRangesEqualSpaceOnRedis and its sibling: after any calls, the scripts decide as the model does
// and have the same free blocks.
func TestRangesEqualSpaceOnRedis(t *testing.T) {
	t.Parallel()
	rangesEqualSpace(t, counterstest.Redis(t))
}

func TestRangesEqualSpaceOnMiniredis(t *testing.T) {
	t.Parallel()
	rangesEqualSpace(t, counterstest.Mini(t))
}

func rangesEqualSpace(t *testing.T, client *redis.Client) {
	t.Helper()
	history := 0
	rapid.Check(t, func(rt *rapid.T) {
		history++
		m := newRangesMachine(rt, t.Context(), client, fmt.Sprint("h", history))
		rt.Repeat(rapid.StateMachineActions(m))
	})
}

type rangesMachine struct {
	ctx      context.Context
	client   *redis.Client
	prefix   string
	ranges   *blocks.Ranges
	space    *network.Space
	rebuilds int
}

func newRangesMachine(t *rapid.T, ctx context.Context, client *redis.Client, prefix string) *rangesMachine {
	m := &rangesMachine{ctx: ctx, client: client, prefix: prefix, ranges: blocks.New(counters.New(client, prefix)), space: network.NewSpace()}
	m.install(t, network.State{})
	m.SetParents(t)
	return m
}

// install builds the ranges of a state, as after a loss.
func (m *rangesMachine) install(t *rapid.T, state network.State) {
	m.rebuilds++
	token := fmt.Sprint("e", m.rebuilds)
	if err := m.client.HDel(m.ctx, m.key("head"), "epoch").Err(); err != nil {
		t.Fatal(err)
	}
	if mine, err := m.ranges.BeginRebuild(m.ctx, token, time.UnixMilli(0), 0); !mine || err != nil {
		t.Fatal(mine, err)
	}
	if _, err := m.ranges.Applied(m.ctx, "ns/c1"); !errors.Is(err, account.ErrNotBuilt) {
		t.Fatalf("in a rebuild: %v", err)
	}
	if built, err := m.ranges.Install(m.ctx, token, state); !built || err != nil {
		t.Fatal(built, err)
	}
	m.space = network.Build(state)
}

func (m *rangesMachine) key(name string) string { return m.prefix + ":{net:}:" + name }

func (m *rangesMachine) Rebuild(t *rapid.T) { m.install(t, m.space.Snapshot()) }

func (m *rangesMachine) SetParents(t *rapid.T) {
	parents := networktest.Parents().Draw(t, "parents")
	m.space.SetParents(parents)
	if err := m.ranges.SetParents(m.ctx, parents); err != nil {
		t.Fatal(err)
	}
}

func (m *rangesMachine) Acquire(t *rapid.T) {
	cluster, request := networktest.Cluster().Draw(t, "cluster"), networktest.Request().Draw(t, "request")
	rules := networktest.Rules().Draw(t, "rules")
	if len(rules) > 0 && rapid.IntRange(0, 9).Draw(t, "another configuration") == 0 {
		last := rules[len(rules)-1].Injections
		last[len(last)-1].Parents = []string{"unknown"}
	}
	want, wantErr := m.space.Acquire(cluster, request, rules)
	for range 2 { // the reply of the first was lost
		got, err := m.ranges.Acquire(m.ctx, cluster, request, rules)
		if engine.CodeOf(err) != engine.CodeOf(wantErr) || errors.Is(err, network.ErrUnknownParent) != errors.Is(wantErr, network.ErrUnknownParent) {
			t.Fatalf("the error is %v, want %v", err, wantErr)
		}
		if engine.CodeOf(err) == engine.CodeNetworkExhausted && err.Error() != wantErr.Error() {
			t.Fatalf("the error is %v, want %v", err, wantErr)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
		want.New = nil
	}
}

func (m *rangesMachine) Release(t *rapid.T) {
	cluster := networktest.Cluster().Draw(t, "cluster")
	want := m.space.Release(cluster)
	got, err := m.ranges.Release(m.ctx, cluster)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, %v\nwant %v", got, err, want)
	}
}

func (m *rangesMachine) Return(t *rapid.T) {
	cluster, request := networktest.Cluster().Draw(t, "cluster"), networktest.Request().Draw(t, "request")
	want := m.space.Return(cluster, request)
	got, err := m.ranges.Return(m.ctx, cluster, request)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, %v\nwant %v", got, err, want)
	}
}

// Restore puts a record back wherever its blocks lie.
func (m *rangesMachine) Restore(t *rapid.T) {
	cluster := networktest.Cluster().Draw(t, "cluster")
	record := network.Record{Cluster: cluster, Applied: network.Applied{Rule: networktest.Rules().Filter(func(r []network.Rule) bool {
		return len(r) > 0
	}).Draw(t, "rules")[0].ID}}
	if rapid.Bool().Draw(t, "answered") {
		record.Requests = []string{networktest.Request().Draw(t, "request")}
	}
	for _, p := range rapid.SliceOfN(networktest.Foreign(), 1, 3).Draw(t, "blocks") {
		record.Blocks = append(record.Blocks, network.Block{CIDR: p.Masked(), Paths: []string{"/restored"}})
	}
	want := !slices.ContainsFunc(m.space.Applied(cluster), func(a network.Applied) bool { return a.Rule == record.Rule })
	m.space.Restore(record)
	for range 2 { // the reply of the first was lost
		got, err := m.ranges.Restore(m.ctx, record)
		if err != nil || got != want {
			t.Fatalf("restored %t, %v, want %t", got, err, want)
		}
		want = false
	}
}

func (m *rangesMachine) Block(t *rapid.T) {
	foreign := rapid.SliceOfN(networktest.Foreign(), 1, 3).Draw(t, "blocks")
	for _, p := range foreign {
		m.space.Block(p)
	}
	if err := m.ranges.Block(m.ctx, foreign...); err != nil {
		t.Fatal(err)
	}
}

func (m *rangesMachine) Unblock(t *rapid.T) {
	foreign := rapid.SliceOfN(networktest.Foreign(), 1, 20).Draw(t, "blocks")
	for _, p := range foreign {
		m.space.Unblock(p)
	}
	if err := m.ranges.Unblock(m.ctx, foreign...); err != nil {
		t.Fatal(err)
	}
}

func (m *rangesMachine) Check(t *rapid.T) {
	state, err := m.ranges.State(m.ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := m.space.Snapshot()
	if fmt.Sprintf("%+v", state) != fmt.Sprintf("%+v", want) {
		t.Fatalf("state %+v\nwant %+v", state, want)
	}
	if got, want := m.blocks(t, m.client.ZRange(m.ctx, m.key("f"), 0, -1)), m.space.Free(); !slices.Equal(got, want) {
		t.Fatalf("free %v, want %v", got, want)
	}
	m.room(t)
	held := m.client.HGetAll(m.ctx, m.key("h")).Val()
	index := m.blocks(t, m.client.ZRange(m.ctx, m.key("i"), 0, -1))
	wanted := maps.Collect(m.space.Held())
	if len(held) != len(wanted) || len(index) != len(held) {
		t.Fatalf("held %v, index %v, want %v", held, index, wanted)
	}
	for _, p := range index {
		code := fmt.Sprint(uint64(p.Bits())<<32 + addressAsNumber(p))
		if held[code] != strconv.Itoa(wanted[p]) {
			t.Fatalf("%s is held %s times, want %d", p, held[code], wanted[p])
		}
	}
	for _, cluster := range []string{"ns/c1", "other/c1"} {
		got, err := m.ranges.Applied(m.ctx, cluster)
		if err != nil || !reflect.DeepEqual(got, m.space.Applied(cluster)) {
			t.Fatalf("%s has %v, %v, want %v", cluster, got, err, m.space.Applied(cluster))
		}
	}
}

func addressAsNumber(p netip.Prefix) (n uint64) {
	for _, b := range p.Addr().AsSlice() {
		n = n<<8 | uint64(b)
	}
	return n
}

// blocks decodes codes to blocks, sorted by address.
func (m *rangesMachine) blocks(t *rapid.T, cmd *redis.StringSliceCmd) []netip.Prefix {
	codes, err := cmd.Result()
	if err != nil {
		t.Fatal(err)
	}
	var all []netip.Prefix
	for _, code := range codes {
		n, err := strconv.ParseUint(code, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		a := netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		all = append(all, netip.PrefixFrom(a, int(n>>32)))
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return all
}

// room compares the free blocks that the script reports with the model's.
func (m *rangesMachine) room(t *rapid.T) {
	rooms, err := m.ranges.Room(m.ctx)
	if err != nil {
		t.Fatal(err)
	}
	parents := m.space.Snapshot().Parents
	if len(rooms) != len(parents) {
		t.Fatalf("there is room in %v, want %v", rooms, parents)
	}
	for _, p := range parents {
		var want network.Room
		for _, free := range m.space.Free() {
			if slices.ContainsFunc(p.CIDRs, func(c netip.Prefix) bool { return c.Bits() <= free.Bits() && c.Contains(free.Addr()) }) {
				want[free.Bits()]++
			}
		}
		if rooms[p.ID] != want {
			t.Fatalf("the room in %s is %v, want %v", p.ID, rooms[p.ID], want)
		}
		var addresses int64
		for bits, n := range want {
			addresses += int64(n) << (32 - bits)
		}
		if got := rooms[p.ID].Addresses(); got != addresses || got != rooms[p.ID].Blocks(32) || got > p.Addresses() {
			t.Fatalf("%s has %d free addresses of %d and %d blocks of /32, want %d", p.ID, got, p.Addresses(), rooms[p.ID].Blocks(32), addresses)
		}
	}
}
