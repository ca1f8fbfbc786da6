package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/simulate"
)

func newPoolsSave(s *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "save FILE",
		Short: "Save all pools, accounts and runtimes to a file",
		Long: `Read all pools and runtimes from Redis and all accounts from Gardener, and save them
to a file for 'hapctl simulate --pool FILE'. The file contains the ids of tenants and
runtimes, but no data of any Secret. hapctl replaces the file as a whole. - means
standard output.`,
		Example: `  hapctl pools save pools.json
  hapctl simulate -f events.ndjson --pool pools.json`,
		Args: arguments(cobra.ExactArgs(1)),
	}
	return s.reader(cmd, "for Redis and Gardener", func(ctx context.Context, cfg *config.Config, args []string) error {
		state, err := readState(ctx, s, cfg)
		if err != nil {
			return err
		}
		text, err := json.Marshal(state)
		if err != nil {
			return err
		}
		text = append(text, '\n')
		if args[0] == "-" {
			_, err = s.stdout.Write(text)
			return err
		}
		if err := replaceFile(args[0], text); err != nil {
			return fmt.Errorf("save the pools: %w", err)
		}
		s.say("saved %d pools and %d accounts to %s", len(state.Pools), len(state.Bindings), args[0])
		return nil
	})
}

// replaceFile writes a file that is there as a whole or not at all.
func replaceFile(path string, text []byte) error {
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

// readState reads Redis and Gardener for a simulation.
func readState(ctx context.Context, s *shell, cfg *config.Config) (*simulate.State, error) {
	store, err := openRedis(ctx, s, cfg)
	if err != nil {
		return nil, err
	}
	client, tell, err := openGardener(ctx, s, cfg.Gardener)
	if err != nil {
		return nil, err
	}
	defer tell()
	state := &simulate.State{Version: simulate.Version, TakenAt: time.Now().UTC().Truncate(time.Second), Gone: []string{}}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return gardenerError(client.List(ctx, func(b engine.Binding) error {
			state.Bindings = append(state.Bindings, simulate.Binding(b))
			return nil
		}))
	})
	group.Go(func() error { return readPools(ctx, store, state) })
	group.Go(func() error { return readRanges(ctx, store, state) })
	return state, group.Wait()
}

func readPools(ctx context.Context, store *counters.Store, state *simulate.State) error {
	names, err := store.Pools(ctx)
	if err != nil {
		return err
	}
	state.Pools = make([]simulate.PoolState, len(names))
	err = eachPool(ctx, names, func(ctx context.Context, i int, name string) error {
		status, err := store.Status(ctx, name)
		if err != nil {
			return err
		}
		p := simulate.PoolState{Name: name, Sequence: status.Sequence, Paused: status.Paused}
		records, err := gather(store.Bindings(ctx, name))
		if err != nil {
			return err
		}
		runtimes, err := gather(store.Runtimes(ctx, name))
		p.Accounts, p.Runtimes = simulate.Accounts(records), simulate.Runtimes(runtimes)
		state.Pools[i] = p
		return err
	})
	if err != nil {
		return err
	}
	for n := range account.Buckets {
		places, err := gather(store.Places(ctx, account.BucketName(n)))
		if err != nil {
			return err
		}
		for _, p := range places {
			if p.Gone {
				state.Gone = append(state.Gone, p.Runtime)
			}
		}
	}
	return nil
}

// readRanges reads the network blocks, where Redis has any.
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

// loadState reads what 'hapctl pools save' wrote.
func loadState(path string) (*simulate.State, error) {
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
	return state, nil
}
