package cli

import (
	"context"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/natural"
)

const (
	// completeWithin is the longest that a user waits for a completion. mostCompleted is the most words that a
	// shell gets: if more words fit, the user has to type on.
	completeWithin = time.Second
	mostCompleted  = 200
)

// Living yields words that are in Redis now.
type Living func(context.Context, *counters.Store) iter.Seq[string]

// LivePools yields the pools.
func LivePools(ctx context.Context, store *counters.Store) iter.Seq[string] {
	pools, _ := store.Pools(ctx) // without an answer there is nothing to complete
	return slices.Values(pools)
}

// LiveRuntimes yields the runtimes of all pools.
func LiveRuntimes(ctx context.Context, store *counters.Store) iter.Seq[string] {
	return func(yield func(string) bool) {
		for pool := range LivePools(ctx, store) {
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

// liveTenants yields the tenants in the records of accounts, once for each account.
func liveTenants(ctx context.Context, store *counters.Store) iter.Seq[string] {
	return fromRecords(ctx, store, func(rec account.NamedRecord) string { return rec.Tenant })
}

// LiveAccounts yields the accounts that have a record in Redis.
func LiveAccounts(ctx context.Context, store *counters.Store) iter.Seq[string] {
	return fromRecords(ctx, store, func(rec account.NamedRecord) string { return rec.Binding })
}

// fromRecords yields what word returns for each account's record, unless that is "".
func fromRecords(ctx context.Context, store *counters.Store, word func(account.NamedRecord) string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for pool := range LivePools(ctx, store) {
			for rec, err := range store.Bindings(ctx, pool) {
				if err != nil {
					break
				}
				if w := word(rec); w != "" && !yield(w) {
					return
				}
			}
		}
	}
}

// CompleteArgument completes the only argument of a command.
func (s *Shell) CompleteArgument(cmd *cobra.Command, of Living) {
	complete := s.complete(of)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, begun)
	}
}

// CompleteFlags registers completions for the flags of a command, by their names.
func (s *Shell) CompleteFlags(cmd *cobra.Command) {
	for name, of := range map[string]Living{
		"pool": LivePools, "tenant": liveTenants, "runtime": LiveRuntimes, "binding": LiveAccounts, "account": LiveAccounts,
	} {
		if cmd.Flags().Lookup(name) != nil {
			MustRegister(cmd, name, s.complete(of))
		}
	}
}

// complete returns a completion: up to mostCompleted words that begin with the typed text. If Redis cannot be used, it
// has none, and writes nothing into the line that the user types.
func (s *Shell) complete(of Living) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
		defer cancel()
		silent := *s
		silent.Stderr = Stream{io.Discard}
		cfg, err := s.Connections.Settings()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		store, err := OpenRedis(ctx, &silent, cfg)
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
		slices.SortFunc(words, natural.Compare)
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
