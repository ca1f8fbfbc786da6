package rebuild

import (
	"context"
	"net/netip"
	"testing"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/memory/memorytest"
	"github.com/hap-worker/hap-worker/worker/ranges"
)

// interrupted is a ledger that calls before ahead of each final reply.
type interrupted struct {
	*storage.Ledger
	before func()
}

func (l *interrupted) Publish(ctx context.Context, subject string, r events.Reply, expect uint64) (uint64, error) {
	if r.Final() {
		l.before()
	}
	return l.Ledger.Publish(ctx, subject, r, expect)
}

// inSpace are the ranges of the model.
type inSpace struct{ *network.Space }

func (s inSpace) Acquire(_ context.Context, cluster, request string, rules []network.Rule) (network.Acquired, error) {
	return s.Space.Acquire(cluster, request, rules)
}

func (s inSpace) Return(_ context.Context, cluster, request string) (network.Returned, error) {
	return s.Space.Return(cluster, request), nil
}

func (s inSpace) Release(_ context.Context, cluster string) ([]network.Applied, error) {
	return s.Space.Release(cluster), nil
}

// assigned reports every runtime as assigned.
type assigned struct{}

func (assigned) Runtime(context.Context, string) (account.Place, account.Runtime, error) {
	return account.Place{Pool: "aws"}, account.Runtime{State: account.RuntimeAssigned}, nil
}

// always is a configuration that does not change.
func always(config *network.Config) func() *network.Config {
	return func() *network.Config { return config }
}

// A rebuild seals an extra reply that was announced before the loss: another cluster may have its blocks by then.
func TestExtraReplyBegunBeforeALoss(t *testing.T) {
	t.Parallel()
	broker, subjects := memorytest.Streams(t)
	ledger := storage.NewLedgerOn(broker, subjects, "test")
	answer := events.Reply{
		RequestID: "req-rt", RuntimeID: "rt", Status: events.StatusAssigned, GlobalAccountID: "ga",
		Binding: &events.Binding{Name: "aws-1"}, Decision: &events.Decision{Sequence: 1, Pool: "aws"},
	}
	if _, err := ledger.Publish(t.Context(), subjects.Reply("rt", "req-rt"), answer, 0); err != nil {
		t.Fatal(err)
	}
	config := &network.Config{
		Parents: []network.Parent{{ID: "foo", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}},
		Rules:   []network.Rule{{ID: "a", Injections: []network.Injection{{Paths: []string{"/a"}, Parents: []string{"foo"}, Size: 28}}}},
	}
	space := network.NewSpace()
	space.SetParents(config.Parents)
	gathers := &Rebuilder{Ledger: ledger, Networks: always(config)}
	lost := false
	late := &interrupted{Ledger: ledger, before: func() {
		if lost {
			return
		}
		lost = true
		state, err := gathers.gatherRanges(t.Context())
		if err != nil || len(state.Records) > 0 {
			t.Errorf("gathered %v, %v", state.Records, err)
		}
		space.Release("rt") // forgotten
		if _, err := space.Acquire("rt-2", "req-rt-2", config.Rules); err != nil {
			t.Error(err)
		}
	}}
	serves := &ranges.Reconciler{Ranges: inSpace{space}, Networks: always(config), Ledger: late, Runtime: assigned{}.Runtime, Rebuild: gathers, Subjects: subjects}
	if err := serves.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored, found, err := ledger.Last(t.Context(), subjects.Reply("rt", "req-rt-net1"))
	if r := stored.Reply; err != nil || !found || len(r.Network) != 1 || r.Network[0].CIDR != "10.0.0.16/28" {
		t.Errorf("it has %v, %v, want the block after the other cluster's", r.Network, err)
	}
	state, err := gathers.gatherRanges(t.Context())
	if err != nil || len(state.Records) != 1 || state.Records[0].Blocks[0].CIDR.String() != "10.0.0.16/28" {
		t.Errorf("the next rebuild gathers %v, %v", state.Records, err)
	}
}
