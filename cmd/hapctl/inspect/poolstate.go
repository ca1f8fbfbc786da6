package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/simulate"
)

func newPoolsSave(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "save FILE",
		Short: "Save all pools, accounts and runtimes to a file",
		Long: `Read all pools and runtimes from Redis and all accounts from Gardener, and save them
to a file for 'hapctl simulate --pool FILE'. The file contains the ids of tenants and
runtimes, but no data of any Secret. hapctl replaces the file as a whole. - means
standard output.`,
		Example: `  hapctl pools save pools.json
  hapctl simulate -f events.ndjson --pool pools.json`,
		Args: cli.Arguments(cobra.ExactArgs(1)),
	}
	return s.Reader(cmd, "for Redis and Gardener", func(ctx context.Context, cfg *config.Config, args []string) error {
		state, err := ReadState(ctx, s, cfg)
		if err != nil {
			return err
		}
		text, err := json.Marshal(state)
		if err != nil {
			return err
		}
		text = append(text, '\n')
		if args[0] == "-" {
			_, err = s.Stdout.Write(text)
			return err
		}
		if err := ReplaceFile(args[0], text); err != nil {
			return fmt.Errorf("save the pools: %w", err)
		}
		s.Say("saved %d pools and %d accounts to %s", len(state.Pools), len(state.Bindings), args[0])
		return nil
	})
}

// ReplaceFile writes a file atomically: path has the old or the whole new content. Only its owner may read the new
// file.
func ReplaceFile(path string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".hapctl-*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(file.Name()))
	}
	return err
}

// ReadState reads the state of Redis and Gardener for a simulation.
func ReadState(ctx context.Context, s *cli.Shell, cfg *config.Config) (*simulate.State, error) {
	store, err := cli.OpenRedis(ctx, s, cfg)
	if err != nil {
		return nil, err
	}
	client, tell, err := cli.OpenGardener(ctx, s, cfg.Gardener)
	if err != nil {
		return nil, err
	}
	defer tell()
	state := &simulate.State{Version: simulate.Version, TakenAt: time.Now().UTC().Truncate(time.Second), Gone: []string{}}
	pools, unbuilt := map[string]bool{}, []string(nil)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return cli.GardenerError(client.List(ctx, func(b engine.Binding) error {
			state.Bindings = append(state.Bindings, simulate.Binding(b))
			pools[b.Pool().Name()] = true
			return nil
		}))
	})
	group.Go(func() (err error) {
		unbuilt, err = readPools(ctx, store, state)
		return err
	})
	group.Go(func() error { return readRanges(ctx, store, state) })
	if err := group.Wait(); err != nil {
		return state, err
	}
	return state, needed(state, unbuilt, pools, cfg.Redis.URL)
}

// needed returns an error if one of the pools that have accounts is not built, or is not in Redis at all: without its
// runtimes they would seem to be free. A pool without accounts may stay unbuilt until a request needs it.
func needed(state *simulate.State, unbuilt []string, has map[string]bool, at config.URLs) error {
	for _, pool := range slices.Sorted(maps.Keys(has)) {
		known := slices.ContainsFunc(state.Pools, func(p simulate.PoolState) bool { return p.Name == pool })
		if !known || slices.Contains(unbuilt, pool) {
			return unbuiltPool(account.ErrNotBuilt, pool, at)
		}
	}
	return nil
}

// readPools reads the records of Redis, and returns the pools that are not built.
func readPools(ctx context.Context, store *counters.Store, state *simulate.State) (unbuilt []string, err error) {
	names, err := store.Pools(ctx)
	if err != nil {
		return nil, err
	}
	state.Pools = make([]simulate.PoolState, len(names))
	lost := make([]bool, len(names))
	err = view.EachPool(ctx, names, func(ctx context.Context, i int, name string) error {
		status, err := store.Status(ctx, name)
		if err != nil {
			return err
		}
		records, err := view.Gather(store.Bindings(ctx, name))
		var runtimes []account.NamedRuntime
		if err == nil {
			runtimes, err = view.Gather(store.Runtimes(ctx, name))
		}
		if lost[i] = errors.Is(err, account.ErrNotBuilt); lost[i] {
			records, runtimes, err = nil, nil, nil
		}
		state.Pools[i] = simulate.PoolState{
			Name: name, Sequence: status.Sequence, Paused: status.Paused,
			Accounts: simulate.Accounts(records), Runtimes: simulate.Runtimes(runtimes),
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		if lost[i] {
			unbuilt = append(unbuilt, name)
		}
	}
	for n := range account.Buckets {
		places, err := view.Gather(store.Places(ctx, account.BucketName(n)))
		if err != nil {
			return nil, err
		}
		for _, p := range places {
			if p.Gone {
				state.Gone = append(state.Gone, p.Runtime)
			}
		}
	}
	return unbuilt, nil
}

// unbuiltPool adds the pool and the remedy to account.ErrNotBuilt, and returns any other error as it is.
func unbuiltPool(err error, pool string, at config.URLs) error {
	if errors.Is(err, account.ErrNotBuilt) {
		return cli.NotBuilt(fmt.Errorf("pool %s is not built", pool), at)
	}
	return err
}

// readRanges reads the network blocks, if Redis has any.
func readRanges(ctx context.Context, store *counters.Store, state *simulate.State) error {
	ranges, err := blocks.New(store).State(ctx)
	if errors.Is(err, account.ErrNotBuilt) {
		return nil
	}
	if err == nil {
		state.Networks = simulate.Blocks(ranges)
	}
	return err
}

// LoadState reads a file of 'hapctl pools save'. It returns an error for a file of another format version.
func LoadState(path string) (*simulate.State, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the saved pools: %w", err)
	}
	text, err := document.Text(content)
	if err != nil {
		return nil, fmt.Errorf("read the saved pools: %w", connect.InFile(err, path))
	}
	state := &simulate.State{}
	if err := json.Unmarshal(text, state); err != nil {
		return nil, fmt.Errorf("%s is no file of hapctl pools save: %w", path, err)
	}
	if state.Version != simulate.Version {
		return nil, fmt.Errorf("%s has format version %d, this hapctl reads version %d: save it again with 'hapctl pools save'", path, state.Version, simulate.Version)
	}
	return state, nil
}
