package simulation

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/simulation/gate"
)

// blocks are the network ranges in Redis as one process reaches them.
type blocks struct{ p *process }

// allotted is ranged for operations whose results have effects outside of Redis. It returns an error if the epoch
// that the ranges had at the call is not in force (rule 15).
func allotted[T any](ctx context.Context, b blocks, op, arg string, do func(context.Context, *memory.Ranges) (T, error)) (T, error) {
	var epochs account.Epochs
	out, err := ranged(ctx, b, op, arg, func(ctx context.Context, r *memory.Ranges) (T, error) {
		out, err := do(ctx, r)
		epoch, _ := r.Epoch(ctx)
		epochs = account.Epochs{account.RangesPlace: epoch}
		return out, err
	})
	if err != nil {
		return out, err
	}
	return out, b.p.inForce(ctx, op+" "+arg, epochs)
}

func ranged[T any](ctx context.Context, b blocks, op, arg string, do func(context.Context, *memory.Ranges) (T, error)) (T, error) {
	return ask(ctx, b.p, call{Port: gate.Redis, Op: op, Arg: arg}, func(ctx context.Context) (T, error) { return do(ctx, b.p.redis.Load().Ranges) })
}

func (b blocks) Acquire(ctx context.Context, cluster, request string, rules []network.Rule) (network.Acquired, error) {
	return allotted(ctx, b, "acquire blocks", cluster, func(ctx context.Context, r *memory.Ranges) (network.Acquired, error) {
		return r.Acquire(ctx, cluster, request, rules)
	})
}

func (b blocks) Return(ctx context.Context, cluster, request string) (network.Returned, error) {
	return allotted(ctx, b, "return blocks", cluster, func(ctx context.Context, r *memory.Ranges) (network.Returned, error) {
		return r.Return(ctx, cluster, request)
	})
}

func (b blocks) Release(ctx context.Context, cluster string) ([]network.Applied, error) {
	return allotted(ctx, b, "release blocks", cluster, func(ctx context.Context, r *memory.Ranges) ([]network.Applied, error) {
		return r.Release(ctx, cluster)
	})
}

func (b blocks) Applied(ctx context.Context, cluster string) ([]network.Applied, error) {
	return allotted(ctx, b, "blocks of", cluster, func(ctx context.Context, r *memory.Ranges) ([]network.Applied, error) { return r.Applied(ctx, cluster) })
}

func (b blocks) SetParents(ctx context.Context, parents []network.Parent) error {
	_, err := ranged(ctx, b, opParents, "", func(ctx context.Context, r *memory.Ranges) (any, error) { return nil, r.SetParents(ctx, parents) })
	return err
}

func (b blocks) Block(ctx context.Context, foreign ...netip.Prefix) error {
	_, err := ranged(ctx, b, "block", fmt.Sprint(foreign), func(ctx context.Context, r *memory.Ranges) (any, error) { return nil, r.Block(ctx, foreign...) })
	return err
}

func (b blocks) Unblock(ctx context.Context, foreign ...netip.Prefix) error {
	_, err := ranged(ctx, b, "unblock", fmt.Sprint(foreign), func(ctx context.Context, r *memory.Ranges) (any, error) { return nil, r.Unblock(ctx, foreign...) })
	return err
}

func (b blocks) Restore(ctx context.Context, record network.Record) (bool, error) {
	return ranged(ctx, b, "restore blocks", record.Cluster, func(ctx context.Context, r *memory.Ranges) (bool, error) { return r.Restore(ctx, record) })
}

func (b blocks) State(ctx context.Context) (network.State, error) {
	return allotted(ctx, b, "all blocks", "", func(ctx context.Context, r *memory.Ranges) (network.State, error) { return r.State(ctx) })
}

func (b blocks) Epoch(ctx context.Context) (string, error) {
	return ranged(ctx, b, "ranges built", "", func(ctx context.Context, r *memory.Ranges) (string, error) { return r.Epoch(ctx) })
}

func (b blocks) Depose(ctx context.Context, epoch string) (bool, error) {
	return ranged(ctx, b, "discard", "ranges", func(ctx context.Context, r *memory.Ranges) (bool, error) { return r.Depose(ctx, epoch) })
}

func (b blocks) BeginRebuild(ctx context.Context, token string, now time.Time, lease time.Duration) (bool, error) {
	return ranged(ctx, b, "begin rebuild of ranges", "", func(ctx context.Context, r *memory.Ranges) (bool, error) {
		return r.BeginRebuild(ctx, token, now, lease)
	})
}

func (b blocks) RenewRebuild(ctx context.Context, token string, now time.Time) (bool, error) {
	return ranged(ctx, b, opRenew, "ranges", func(ctx context.Context, r *memory.Ranges) (bool, error) { return r.RenewRebuild(ctx, token, now) })
}

func (b blocks) Install(ctx context.Context, token string, state network.State) (bool, error) {
	return ranged(ctx, b, "install ranges", "", func(ctx context.Context, r *memory.Ranges) (bool, error) { return r.Install(ctx, token, state) })
}
