// Package counterstest tests the account protocol on a Redis of any kind. Run must pass on every kind
// of server that package counters is used with.
package counterstest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
)

// Machine is a Store as accounttest's stories drive it.
type Machine struct {
	*counters.Store
	client redis.UniversalClient
	prefix string
}

var _ accounttest.Machine = (*Machine)(nil)

// NewMachine returns a Store whose keys begin with prefix, "" for the default one.
func NewMachine(client redis.UniversalClient, prefix string) *Machine {
	prefix = cmp.Or(prefix, counters.DefaultPrefix)
	return &Machine{Store: counters.New(client, prefix), client: client, prefix: prefix}
}

// OverLanes makes the callers of m share connections, as the callers in a worker do.
func (m *Machine) OverLanes(t testing.TB) *Machine {
	m.Store.OverLanes()
	t.Cleanup(m.EndLanes)
	return m
}

// Records returns all records of a pool by name.
func (m *Machine) Records(ctx context.Context, pool string) ([]account.NamedRecord, []account.NamedRuntime, error) {
	bindings, err := collect(m.Bindings(ctx, pool))
	if err != nil {
		return nil, nil, err
	}
	runtimes, err := collect(m.Runtimes(ctx, pool))
	slices.SortFunc(bindings, func(a, b account.NamedRecord) int { return cmp.Compare(a.Binding, b.Binding) })
	slices.SortFunc(runtimes, func(a, b account.NamedRuntime) int { return cmp.Compare(a.ID, b.ID) })
	return bindings, runtimes, err
}

func collect[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for entry, err := range seq {
		if err != nil {
			return nil, err
		}
		all = append(all, entry)
	}
	return all, nil
}

// Lose removes every key that begins with the prefix.
func (m *Machine) Lose(ctx context.Context) error {
	return m.eachPage(ctx, ":*", func(pipe redis.Pipeliner, key string) { pipe.Unlink(ctx, key) })
}

// restarted makes the records of all epochs and tokens name a former run of the server, as after a restart
// with the same data.
func (m *Machine) restarted(ctx context.Context) error {
	return m.eachPage(ctx, ":{*}:meta", func(pipe redis.Pipeliner, key string) {
		pipe.HSet(ctx, key, "server", elsewhere, "tokenServer", elsewhere)
	})
}

// eachPage calls do for every key that matches the pattern prefix + like, and runs the commands that do has added
// to pipe.
func (m *Machine) eachPage(ctx context.Context, like string, do func(pipe redis.Pipeliner, key string)) error {
	scan := func(ctx context.Context, node *redis.Client) error {
		var cursor uint64
		for {
			keys, next, err := node.Scan(ctx, cursor, m.prefix+like, 1000).Result()
			if err != nil {
				return err
			}
			if _, err := node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for _, key := range keys {
					do(pipe, key)
				}
				return nil
			}); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	switch client := m.client.(type) {
	case *redis.ClusterClient:
		return client.ForEachMaster(ctx, scan)
	case *redis.Client:
		return scan(ctx, client)
	default:
		return fmt.Errorf("nothing is known of the keys of a %T", client)
	}
}

// Run runs every story on a Store of client, each under separate keys.
func Run(t *testing.T, client redis.UniversalClient) {
	for _, story := range accounttest.Stories() {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			accounttest.Tell(t, story, NewMachine(client, story).OverLanes(t))
		})
	}
}
