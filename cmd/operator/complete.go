package operator

import (
	"context"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/counters"
)

const (
	// completeWithin is how long a person waits for a completion, and mostCompleted how many
	// words a shell is given: what has so many is to be typed further.
	completeWithin = time.Second
	mostCompleted  = 200
)

// living are words that Redis has now.
type living func(context.Context, *counters.Store) iter.Seq[string]

// livePools are the pools.
func livePools(ctx context.Context, store *counters.Store) iter.Seq[string] {
	pools, _ := store.Pools(ctx) // without an answer there is nothing to complete
	return slices.Values(pools)
}

// liveRuntimes are the runtimes of all pools, page by page.
func liveRuntimes(ctx context.Context, store *counters.Store) iter.Seq[string] {
	return func(yield func(string) bool) {
		for pool := range livePools(ctx, store) {
			for rt, err := range store.Runtimes(ctx, pool) {
				if err != nil {
					break
				}
				if !yield(rt.ID) {
					return
				}
			}
		}
	}
}

// liveTenants are the tenants that have accounts.
func liveTenants(ctx context.Context, store *counters.Store) iter.Seq[string] {
	return func(yield func(string) bool) {
		for pool := range livePools(ctx, store) {
			for rec, err := range store.Bindings(ctx, pool) {
				if err != nil {
					break
				}
				if rec.Tenant != "" && !yield(rec.Tenant) {
					return
				}
			}
		}
	}
}

// completeArgument completes the only argument of a command.
func (s *shell) completeArgument(cmd *cobra.Command, of living) {
	complete := s.complete(of)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, begun)
	}
}

// completeFlags registers completions for the flags of a command, by their names.
func (s *shell) completeFlags(cmd *cobra.Command) {
	for name, of := range map[string]living{"pool": livePools, "tenant": liveTenants, "runtime": liveRuntimes} {
		if cmd.Flags().Lookup(name) != nil {
			mustRegister(cmd, name, s.complete(of))
		}
	}
}

// complete returns the words that begin as typed. A Redis that does not answer has none, and
// says nothing into the line that is typed.
func (s *shell) complete(of living) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
		defer cancel()
		silent := *s
		silent.stderr = stream{io.Discard}
		cfg, err := s.connections.settings()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		store, err := openRedis(ctx, &silent, cfg)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var words []string
		for word := range of(ctx, store) {
			if !strings.HasPrefix(word, begun) || slices.Contains(words, word) {
				continue
			}
			if words = append(words, word); len(words) == mostCompleted {
				break
			}
		}
		slices.SortFunc(words, natural)
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
