package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/config"
)

const (
	// tenantSince is the default of --since: how far back explain looks for the requests of a tenant.
	tenantSince = 24 * time.Hour
	// newestMessages is the default of --newest for unsettled events and dead letters: how many of the newest
	// messages of each stream explain reads. hapctl pools reads as many replies for EMPTY-IN.
	newestMessages = 10_000
)

// question is the subject of explain: one of the first four fields, or a name that can be any of them.
type question struct {
	runtime, request, account, tenant, name string

	since  time.Duration // how far back to look for requests of a tenant
	newest uint64        // the value of --newest
	given  bool          // --newest was given
}

// most returns the value of --newest if the user gave the flag, and otherwise its argument.
func (q question) most(otherwise uint64) uint64 {
	if q.given {
		return q.newest
	}
	return otherwise
}

// NewExplain returns the command hapctl explain.
func NewExplain(s *cli.Shell) *cobra.Command {
	var q question
	cmd := &cobra.Command{
		Use:   "explain [NAME]",
		Short: "Explain the decisions about a runtime, a request, an account or a tenant",
		Long: `Show why a runtime was assigned its account, or why it waits. For each decision,
hapctl shows the rule that matched and why no more specific rule did, the accounts
that were considered and why each was rejected, why a new account was claimed, and
which label writes failed. For a waiting request it shows since when, behind which
requests and until when. For a deprovision it shows what changed.

The decisions come from the ledger, the highest decision number first; replies without
a number come last. The first lines say what Redis and the account's label record now.
Each account is listed with the clusters that it had before the decision; hapctl lists
at most ` + fmt.Sprint(account.MaxConsidered) + ` accounts.

NAME is a runtime. If there is no such runtime, hapctl looks for a request, then for
an account, then for a tenant of that name. --request finds a request whether it is
answered, waiting, in progress or a dead letter. --account shows which tenants had an
account, when, and with which clusters, as long as Redis remembers the runtimes.
--tenant shows the tenant's accounts, its waiting requests, and its requests within
--since, including rejected ones.

hapctl finds runtimes, requests and accounts by the subjects of their messages, for
an account at most its newest ` + fmt.Sprint(mostRuntimes) + ` runtimes. For a tenant it reads the replies since
--since. --newest sets another limit for both. Of unsettled events and dead letters it
reads the newest, at most --newest of them. SEARCHED says what was read, and which
flag reads more if there is more.`,
		Example: `  hapctl explain rt-1
  hapctl explain --request b3c1a5e2
  hapctl explain --tenant ga-1 --since 2h
  hapctl explain --account aws-7
  hapctl explain rt-1 -o json | jq -r '.decisions[0].why[].text'`,
		Args: cli.Arguments(cobra.MaximumNArgs(1)),
	}
	flags := cmd.Flags()
	flags.StringVar(&q.runtime, "runtime", "", "explain the runtime `id`; the same as NAME, but nothing else is looked for")
	flags.StringVar(&q.request, "request", "", "find the request `id`")
	flags.StringVar(&q.account, "account", "", "find the account whose binding has the `name`")
	flags.StringVar(&q.tenant, "tenant", "", "find the tenant with the global account `id`")
	flags.DurationVar(&q.since, "since", tenantSince, "for a tenant: how far back to look for requests")
	flags.Uint64Var(&q.newest, "newest", newestMessages, "read at most this many of the newest `messages` of each stream, and runtimes of an account")
	s.CompleteFlags(cmd)
	s.CompleteArgument(cmd, cli.LiveRuntimes)
	s.Reader(cmd, "for Redis, Gardener and the ledger", func(ctx context.Context, cfg *config.Config, _ []string) error {
		return findAndPrint(ctx, s, cfg, q)
	})
	read := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			q.name = args[0]
		}
		q.given = cmd.Flags().Changed("newest")
		if err := q.check(cmd.Flags().Changed("since")); err != nil {
			return err
		}
		return read(cmd, args)
	}
	return cmd
}

// check returns a usage error, nil for a valid question. since says whether --since was given.
func (q question) check(since bool) error {
	given := slices.DeleteFunc([]string{q.runtime, q.request, q.account, q.tenant, q.name}, func(s string) bool { return s == "" })
	switch {
	case len(given) == 0:
		return cli.Usagef("explain what? Name a runtime, or use --request, --account or --tenant")
	case len(given) > 1:
		return cli.Usagef("%s and %s exclude each other", given[0], given[1])
	case since && q.tenant == "" && q.name == "":
		return cli.Usagef("--since goes with --tenant")
	case q.since <= 0:
		return cli.Usagef("--since is %s, must be positive", q.since)
	case q.newest == 0:
		return cli.Usagef("--newest is 0, must be positive")
	}
	id := cmp.Or(q.runtime, q.request, q.tenant)
	if id != "" && !engine.ValidID(id) {
		return cli.Usagef("%q is no id: 1 to %d letters, digits, - and _, a letter or digit at both ends", id, engine.MaxID)
	}
	if name := cmp.Or(q.account, q.name); name != "" && !engine.ValidID(name) && len(validation.IsDNS1123Subdomain(name)) > 0 {
		return cli.Usagef("%q is no runtime id, and no name in Kubernetes: 1 to %d letters, digits, - and _, a letter or digit at both ends", name, engine.MaxID)
	}
	return nil
}

func findAndPrint(ctx context.Context, s *cli.Shell, cfg *config.Config, q question) error {
	find := finder{s: s, cfg: cfg, question: q}
	var v cli.View
	var err error
	switch {
	case q.request != "":
		v, err = find.findRequest(ctx, q.request)
	case q.account != "":
		v, err = find.findAccount(ctx, q.account)
	case q.tenant != "":
		v, err = find.findTenant(ctx, q.tenant)
	case q.runtime != "":
		v, err = find.findRuntime(ctx, q.runtime)
	default:
		v, err = find.any(ctx, q.name)
	}
	if err != nil {
		return err
	}
	if v == nil {
		return s.Unknown(find.unknown())
	}
	return s.Print(v)
}
