package integration_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// changing is a landscape whose network configuration changes under its workers.
type changing struct {
	*networked
	ranges  *blocks.Ranges
	workers []*inProcess
	asked   map[string]events.Event // by runtime
	again   int
}

func newChanging(t *testing.T, workers int, spec string) *changing {
	t.Helper()
	n := newNetworked(t, "", spec, accounts("aws", 1))
	c := &changing{networked: n, ranges: blocks.New(sources(t, n.stack, n.js, n.subjects).Counters), asked: map[string]events.Event{}}
	for range workers {
		c.workers = append(c.workers, n.work(daemon.Options{}))
	}
	return c
}

// restart ends every worker and starts as many anew.
func (c *changing) restart() {
	c.t.Helper()
	for i, w := range c.workers {
		if err := w.end(); err != nil {
			c.t.Fatal(err)
		}
		c.workers[i] = c.work(daemon.Options{})
	}
}

// change writes a configuration and waits until every worker and Redis have it.
func (c *changing) change(spec string) {
	c.t.Helper()
	config, _, err := network.Parse([]byte(spec))
	if err != nil {
		c.t.Fatal(err)
	}
	const taken = "hap_config_reloads_total"
	before := c.counts(taken)
	c.configure(spec)
	eventually(c.ctx, c.t, func() error {
		for i, n := range c.counts(taken) {
			if n <= before[i] {
				return fmt.Errorf("worker %d has not taken over %s", i, spec)
			}
		}
		state, err := c.ranges.State(c.ctx)
		if err == nil && !reflect.DeepEqual(state.Parents, config.Parents) {
			err = fmt.Errorf("the parents are %v, want %v", state.Parents, config.Parents)
		}
		return err
	})
}

// counts are the values of a counter, by worker.
func (c *changing) counts(series string) []int {
	c.t.Helper()
	out := make([]int, len(c.workers))
	for i, w := range c.workers {
		out[i], _ = strconv.Atoi(w.metric(series)) // absent is 0
	}
	return out
}

// tells waits until a worker has counted a network rule.
func (c *changing) tells(rule, result string) {
	c.t.Helper()
	series := fmt.Sprintf("hap_network_rules_total{result=%q,rule=%q}", result, rule)
	eventually(c.ctx, c.t, func() error {
		if slices.Max(c.counts(series)) == 0 {
			return errors.New(series + " is 0 in every worker")
		}
		return nil
	})
}

// comes provisions a cluster with a purpose and compares its blocks, as path=cidr.
func (c *changing) comes(id, purpose string, want ...string) {
	c.t.Helper()
	e := cluster(id, "ga-1", []string{purpose}, nil)
	c.asked[id] = e
	c.provision(e)
	c.same(id, c.given(e), want)
}

// keeps asks again for a cluster, under another id.
func (c *changing) keeps(id string, want ...string) {
	c.t.Helper()
	c.again++
	e := c.asked[id]
	e.ID = fmt.Sprintf("again-%d-%s", c.again, id)
	c.provision(e)
	c.same(id, c.given(e), want)
}

// extended waits for the nth extra reply of a cluster: it has blocks at these paths,
// which it returns, and is an answer like the first otherwise.
func (c *changing) extended(id string, n int, paths ...string) map[string]string {
	c.t.Helper()
	first := c.reply(c.asked[id].ReplySubject(c.subjects))
	subject := c.subjects.Reply(id, fmt.Sprintf("%s-net%d", first.RequestID, n))
	var r events.Reply
	eventually(c.ctx, c.t, func() error {
		if r = c.reply(subject); r.Status != events.StatusAssigned {
			return fmt.Errorf("%s is %q", subject, r.Status)
		}
		return nil
	})
	given := ranges(r)
	if got := slices.Sorted(maps.Keys(given)); !slices.Equal(got, paths) {
		c.t.Errorf("the extra reply of %s has blocks at %v, want %v", id, got, paths)
	}
	binding := *first.Binding
	binding.Claimed = false
	if *r.Binding != binding || r.Decision.Sequence != first.Decision.Sequence || r.Decision.Pool != first.Decision.Pool {
		c.t.Errorf("the extra reply of %s has %+v, %+v; the answer has %+v, %+v", id, r.Binding, r.Decision, first.Binding, first.Decision)
	}
	patched := map[string]any{}
	for _, operation := range r.ShootPatch {
		patched[operation.Path] = operation.Value
	}
	all := map[string]any{"/spec/credentialsBindingName": binding.Name}
	for path, cidr := range given {
		all[path] = cidr
	}
	if !reflect.DeepEqual(patched, all) || len(r.ShootPatch) != len(all) {
		c.t.Errorf("the extra reply of %s patches %v, want %v", id, r.ShootPatch, all)
	}
	return given
}

// gains waits for the first extra reply of a cluster, with a block at the path.
func (c *changing) gains(id, path string) {
	c.t.Helper()
	subject := c.subjects.Reply(id, c.asked[id].ID+"-net1")
	eventually(c.ctx, c.t, func() error {
		if r := c.reply(subject); ranges(r)[path] == "" {
			return fmt.Errorf("%s is %q with %v", subject, r.Status, r.Network)
		}
		return nil
	})
}

func (c *changing) same(id string, got map[string]string, want []string) {
	c.t.Helper()
	var have []string
	for _, path := range slices.Sorted(maps.Keys(got)) {
		have = append(have, path+"="+got[path])
	}
	slices.Sort(want)
	if !slices.Equal(have, want) {
		c.t.Errorf("%s has %v, want %v", id, have, want)
	}
}

// answers are the assignments of a runtime by request, and whether it is gone.
func (c *changing) answers() (assigned map[string]map[string]events.Reply, gone map[string]bool) {
	c.t.Helper()
	assigned, gone = map[string]map[string]events.Reply{}, map[string]bool{}
	err := storage.NewLedger(c.js, c.subjects, "/integration").Each(c.ctx, func(s events.Stored) error {
		r := s.Reply
		switch r.Status {
		case events.StatusAssigned:
			if assigned[r.RuntimeID] == nil {
				assigned[r.RuntimeID] = map[string]events.Reply{}
			}
			assigned[r.RuntimeID][r.RequestID] = r
		case events.StatusReleased:
			gone[r.RuntimeID] = true
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return assigned, gone
}

// disjoint checks that no two live clusters have an address in common, and that
// Redis has what they were answered with.
func (c *changing) disjoint() {
	c.t.Helper()
	assigned, gone := c.answers()
	has := map[netip.Prefix]string{} // runtime by block
	for runtime, replies := range assigned {
		for _, r := range replies {
			for _, block := range r.Network {
				cidr := netip.MustParsePrefix(block.CIDR)
				for other, by := range has {
					if by != runtime && !gone[by] && !gone[runtime] && other.Overlaps(cidr) {
						c.t.Errorf("%s of %s and %s of %s overlap", cidr, runtime, other, by)
					}
				}
				if !gone[runtime] {
					has[cidr] = runtime
				}
			}
		}
	}
	state, err := c.ranges.State(c.ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	held := map[netip.Prefix]string{}
	for _, record := range state.Records {
		for _, block := range record.Blocks {
			held[block.CIDR] = record.Cluster
		}
	}
	if !maps.Equal(held, has) {
		c.t.Errorf("Redis has %v, the answers have %v", held, has)
	}
	c.holds(checker.Terms{OneAccount: true})
}

// goAll deprovisions every cluster: nothing is left of them.
func (c *changing) goAll() {
	c.t.Helper()
	for id := range c.asked {
		c.left(goes(id, "ga-1"))
	}
	c.awaitSettled()
	state, err := c.ranges.State(c.ctx)
	if err != nil || len(state.Records) > 0 {
		c.t.Errorf("after every cluster is gone: %+v, %v", state.Records, err)
	}
}

// invalid edits the configuration so that it is refused, and mends it again.
func (c *changing) invalid(good string) {
	c.t.Helper()
	const refused = "hap_config_reload_failures_total"
	before := c.counts(refused)[0]
	c.configure(strings.Replace(good, "10.1.0.0/24", "10.1.0.0/24, 10.1.0.0/16", 1))
	c.shows(c.workers[0], refused, strconv.Itoa(before+1))
	e := cluster("last-good", "ga-1", []string{"mcp"}, nil)
	c.asked["last-good"] = e
	c.provision(e)
	if got := c.given(e); got["/z"] == "" {
		c.t.Errorf("under a refused configuration a cluster has %v, want a block of the last good one", got)
	}
	c.restart() // nothing is known of the last good one then: no ranges until it is mended
	c.comes("none", "mcp")
	c.change(good)
	c.gains("none", "/z")
}
