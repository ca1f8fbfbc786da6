package checker

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// given adds blocks to a runtime's answer, to Redis, and to its ClusterConfigs and annotations.
func (w *world) given(runtime, rule string, cidrs ...string) {
	applied := network.Applied{Rule: rule}
	var told []events.Network
	for i, cidr := range cidrs {
		path := "/" + rule + "/" + string(rune('a'+i))
		applied.Blocks = append(applied.Blocks, network.Block{CIDR: netip.MustParsePrefix(cidr), Paths: []string{path}})
		told = append(told, events.Network{Rule: rule, CIDR: cidr, Paths: []string{path}})
	}
	for subject, r := range w.Replies {
		if r.RuntimeID == runtime && r.Status == events.StatusAssigned {
			r.Network, r.Cluster = append(r.Network, told...), &events.Cluster{Name: runtime, Namespace: "ns"}
			w.Replies[subject] = r
		}
	}
	for i, s := range w.Watched.Stored {
		if s.Reply.RuntimeID == runtime && s.Reply.Status == events.StatusAssigned {
			w.Watched.Stored[i].Reply = w.Replies[s.Subject]
		}
	}
	if len(w.Watched.Departed) > 0 && !w.Watched.Departed[runtime].IsZero() {
		return
	}
	w.Networks.Ranges.Records = append(w.Networks.Ranges.Records, network.Record{Cluster: runtime, Applied: applied})
	w.Networks.Notes.Configs = append(w.Networks.Notes.Configs, network.Note{
		Runtime: runtime, Cluster: network.Identity{Name: runtime, Namespace: "ns"}, Applied: []network.Applied{applied},
	})
}

// newNetworked returns a consistent world whose clusters have blocks: rt-1 has one inside another, and rt-2
// has a block that rt-3 had before.
func newNetworked() *world {
	w := newWorld()
	w.Networks = Networks{Ranges: &network.State{}, Notes: &network.Notes{}}
	w.given("rt-1", "pair", "10.0.0.0/26", "10.0.0.0/29")
	w.given("rt-2", "all", "10.0.1.0/28")
	w.given("rt-3", "all", "10.0.2.0/28")
	return w
}

// TestNetworkViolations breaks I9 in each way that is looked for.
func TestNetworkViolations(t *testing.T) {
	t.Parallel()
	if found := newNetworked().Violations(Terms{OneAccount: true}); len(found) > 0 {
		t.Errorf("a world in order: %v", found)
	}
	for _, c := range []struct {
		name, says string
		wreck      func(*world)
	}{
		{"one block of two clusters", "10.0.0.0/26 of rt-1 by rule pair and 10.0.0.32/28 of rt-2 by rule other are both in use", func(w *world) { w.given("rt-2", "other", "10.0.0.32/28") }},
		{"two rules of one cluster", "10.0.1.0/28 of rt-2 by rule all and 10.0.1.0/30 of rt-2 by rule other are both in use", func(w *world) { w.given("rt-2", "other", "10.0.1.0/30") }},
		{"given while it was in use", "was given at", func(w *world) { w.given("rt-3", "other", "10.0.1.0/28") }},
		{"two answers that differ", "I10 Stable: runtime rt-2", func(w *world) {
			w.answer(2, "rt-2", "ga-1", "b-1", 2)
			r := w.Replies["hap.v1.reply.rt-2.req-rt-2-b-1"]
			r.RequestID, r.Network = "again", []events.Network{{Rule: "all", CIDR: "10.0.9.0/28", Paths: []string{"/all/a"}}}
			w.store(2, r)
			w.given("rt-2", "all", "10.0.1.0/28")
		}},
		{"lost by Redis", "10.0.1.0/28 of rt-2 by rule all is in use, Redis does not say so", func(w *world) { w.Networks.Ranges.Records = w.Networks.Ranges.Records[:1] }},
		{"leaked in Redis", "10.0.2.0/28 of rt-3 by rule all is in Redis, and no cluster has it", func(w *world) {
			w.Networks.Ranges.Records = append(w.Networks.Ranges.Records, network.Record{Cluster: "rt-3", Applied: network.Applied{
				Rule: "all", Blocks: []network.Block{{CIDR: netip.MustParsePrefix("10.0.2.0/28")}},
			}})
		}},
		{"not written", "10.0.1.0/28 of rt-2 by rule all is in use, a ClusterConfig does not say so", func(w *world) { w.Networks.Notes.Configs = w.Networks.Notes.Configs[:1] }},
		{"edited", "the ClusterConfig of rt-1", func(w *world) { w.Networks.Notes.Configs[0].Edited = true }},
		{"not annotated", "10.0.1.0/28 of rt-2 by rule all is in use, an annotation does not say so", func(w *world) {
			w.Networks.Notes.Clusters = []network.Note{{Cluster: network.Identity{Name: "rt-2", Namespace: "ns"}}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newNetworked()
			c.wreck(w)
			found := w.Violations(Terms{OneAccount: true})
			if !slices.ContainsFunc(found, func(v string) bool { return strings.Contains(v, c.says) }) {
				t.Errorf("found %v, want %q", found, c.says)
			}
		})
	}
}

// TestNetworkLateAnswer has a block of rt-2 in an answer to rt-3, whose deprovision was published before:
// until the ledger has the reply to the deprovision, both are live. An answer that was decided before the
// departure, and stored after it, is not in force.
func TestNetworkLateAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		before bool  // the answer is stored before the reply to the deprovision
		number int64 // of its decision; the departure has 2
		wrong  bool
	}{
		{"before the ledger says that it is gone", true, 1, true},
		{"decided before, and stored after that", false, 1, false},
		{"decided after it had gone", false, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newNetworked()
			late := w.Replies["hap.v1.reply.rt-3.req-rt-3-b-2"]
			decision := *late.Decision
			decision.Sequence = c.number
			late.RequestID, late.Decision = "again", &decision
			late.Network = []events.Network{{Rule: "other", CIDR: "10.0.1.0/28", Paths: []string{"/other/a"}}}
			release := w.Watched.Stored[len(w.Watched.Stored)-1]
			release.Reply.Decision = &events.Decision{Sequence: 2, Pool: pool}
			stored := w.Watched.Stored[:len(w.Watched.Stored)-1]
			answer := events.Stored{Reply: late, Subject: "again", Time: at(5)}
			if c.before {
				release.Time = at(6)
				w.Watched.Stored = slices.Concat(stored, []events.Stored{answer, release})
			} else {
				w.Watched.Stored = slices.Concat(stored, []events.Stored{release, answer})
			}
			var found []string
			w.blocksOverTime(func(invariant, format string, args ...any) {
				found = append(found, invariant+": "+fmt.Sprintf(format, args...))
			})
			if (len(found) > 0) != c.wrong {
				t.Errorf("found %v", found)
			}
		})
	}
}
