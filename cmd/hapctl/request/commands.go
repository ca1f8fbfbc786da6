package request

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/config"
)

// requestHelp returns the part of the help that all commands for requests have. exits completes its sentence about
// the exit codes of rejections.
func requestHelp(exits string) string {
	return `
hapctl prints the final reply. If --timeout passes first, the exit code is 124 and the request
continues: repeat the command with the same --id to get its answer, even days later. If the
request is rejected, hapctl prints the rejection. The exit code is then 5 if --id was used
before for another kind of request, ` + exits + `

With -f FILE or --stdin, each line is the data of one request in the form of
docs/messages.md, optionally with its "id". hapctl sends several requests at once and prints
the results as lines of JSON in the order of the requests. The exit code is the highest of all.`
}

// NewProvision returns the command hapctl provision.
func NewProvision(s *cli.Shell) *cobra.Command {
	var p events.Provision
	var cluster events.Cluster
	var wanted string
	cmd := &cobra.Command{
		Use:   "provision --runtime ID --global-account ID --plan PLAN",
		Short: "Request an account for a runtime, and wait for the answer",
		Long: "Publish a provision event and wait for its final reply: the account, network\nranges and implementation that the runtime gets. If the request has to wait, hapctl says so\non standard error.\n" +
			requestHelp("5 too if the runtime was deprovisioned, 4 if no rule\nmatches, nothing was free until the deadline or no implementation serves the interface, and\notherwise 1."),
		Example: `  hapctl provision --runtime rt-1 --global-account ga-1 --plan aws --platform-region cf-eu11
  hapctl provision -f requests.ndjson > replies.ndjson
  hapctl provision --runtime rt-1 --global-account ga-1 --plan aws --id 7d3c --no-wait
  hapctl provision --runtime rt-1 --global-account ga-1 --plan aws --cluster c-1 --cluster-namespace clusters --purpose mcp --label env=test`,
	}
	flags := cmd.Flags()
	flags.StringVar(&p.RuntimeID, "runtime", "", "runtime `id`")
	flags.StringVar(&p.GlobalAccountID, "global-account", "", "global account `id` of the tenant")
	flags.StringVar(&p.Plan, "plan", "", "`plan`, such as aws")
	flags.StringVar(&p.PlatformRegion, "platform-region", "", "platform `region`, such as cf-eu11")
	flags.StringVar(&p.HyperscalerRegion, "hyperscaler-region", "", "hyperscaler `region`, such as eu-central-1")
	flags.StringVar(&p.Provider, "provider", "", "hyperscaler `name` (default: the plan's)")
	flags.StringVar(&p.ShootName, "shoot", "", "`name` of the Shoot")
	flags.StringVar(&wanted, "interface", "", "also resolve the interface `PATH[:REVISION]`")
	flags.StringVar(&cluster.Name, "cluster", "", "`name` of the cluster, for network rules")
	flags.StringVar(&cluster.Namespace, "cluster-namespace", "", "`namespace` of the cluster")
	flags.StringArrayVar(&cluster.Purposes, "purpose", nil, "a `purpose` of the cluster; can be repeated")
	flags.Var((*labelFlag)(&cluster.Labels), "label", "a label of the cluster, `KEY=VALUE`; can be repeated")
	cli.MustRegister(cmd, "plan", cobra.FixedCompletions(cli.PlanNames(), cobra.ShellCompDirectiveNoFileComp))
	return requestCommand(s, cmd, events.TypeProvision, []string{"runtime", "global-account", "plan"}, nil,
		func() events.Event {
			if wanted != "" {
				i := parseInterface(wanted)
				p.Interface = &i
			}
			if cluster.Name != "" || cluster.Namespace != "" || cluster.Purposes != nil || cluster.Labels != nil {
				p.Cluster = &cluster
			}
			return events.Event{Provision: &p}
		})
}

// NewDeprovision returns the command hapctl deprovision.
func NewDeprovision(s *cli.Shell) *cobra.Command {
	var d events.Deprovision
	cmd := &cobra.Command{
		Use:   "deprovision --runtime ID",
		Short: "Return what a runtime has after its Shoot is deleted",
		Long:  "Publish a deprovision event and wait for its final reply. If the ledger does not know the\nruntime, hapctl says so on standard error and, on a terminal, asks before it publishes.\nWithout a terminal, it publishes the event.\n" + requestHelp("and otherwise 1."),
		Example: `  hapctl deprovision --runtime rt-1
  hapctl deprovision -f gone.ndjson`,
	}
	flags := cmd.Flags()
	flags.StringVar(&d.RuntimeID, "runtime", "", "runtime `id`")
	flags.StringVar(&d.GlobalAccountID, "global-account", "", "global account `id` for the subject; may differ from that of the provision")
	flags.StringVar(&d.ShootName, "shoot", "", "`name` of the Shoot")
	return requestCommand(s, cmd, events.TypeDeprovision, []string{"runtime"}, func(*config.Config) doubts { return unknownToLedger },
		func() events.Event {
			return events.Event{Deprovision: &d}
		})
}

// NewRelease returns the command hapctl release.
func NewRelease(s *cli.Shell) *cobra.Command {
	var r events.Release
	var generation int64
	cmd := &cobra.Command{
		Use:   "release --binding NAME",
		Short: "Return a cleaned account to its pool",
		Long: "Publish a release event and wait for its final reply. If the account is not in Gardener or\nnot dirty, has another uid than --uid, or was claimed more than once and --generation is\nmissing, a worker refuses the release. hapctl checks this first, says so on standard error\nand, on a terminal, asks before it publishes. Without a terminal, hapctl checks it only if\nthe configuration names Gardener, and publishes the event.\n" +
			requestHelp("5 too if the account is in use, not dirty or\nwas claimed anew, and otherwise 1."),
		Example: `  hapctl release --binding aws-7
  hapctl release --binding aws-7 --generation 3`,
	}
	flags := cmd.Flags()
	flags.StringVar(&r.Binding, "binding", "", "`name` of the binding")
	flags.StringVar(&r.UID, "uid", "", "metadata.uid of the `object` that was cleaned up; a worker refuses the release if the binding was deleted and created again since")
	flags.Int64Var(&generation, "generation", 0, "generation of the `claim` that was cleaned up; a worker refuses the release if the binding has a newer one")
	s.CompleteFlags(cmd)
	return requestCommand(s, cmd, events.TypeRelease, []string{"binding"}, notToRelease,
		func() events.Event {
			if cmd.Flags().Changed("generation") {
				r.Generation = &generation
			}
			return events.Event{Release: &r}
		})
}

// NewResolve returns the command hapctl resolve.
func NewResolve(s *cli.Shell) *cobra.Command {
	var r events.Resolve
	var wanted string
	cmd := &cobra.Command{
		Use:   "resolve --runtime ID --interface PATH[:REVISION]",
		Short: "Request the implementation of an interface",
		Long: "Publish a resolve event and wait for its final reply: the implementation that\nthe policy chooses. A resolve event assigns nothing.\n" +
			requestHelp("4 if no implementation serves the interface, and\notherwise 1."),
		Example: `  hapctl resolve --runtime rt-1 --interface cap.interface.database.postgresql.install:0.1.0`,
	}
	flags := cmd.Flags()
	flags.StringVar(&r.RuntimeID, "runtime", "", "runtime `id`")
	flags.StringVar(&r.GlobalAccountID, "global-account", "", "global account `id` of the tenant")
	flags.StringVar(&wanted, "interface", "", "interface, `PATH[:REVISION]`")
	return requestCommand(s, cmd, events.TypeResolve, []string{"runtime", "interface"}, nil,
		func() events.Event {
			r.Interface = parseInterface(wanted)
			return events.Event{Resolve: &r}
		})
}

// parseInterface parses PATH[:REVISION]. Without a revision, Revision is "".
func parseInterface(text string) events.Interface {
	path, revision, _ := strings.Cut(text, ":")
	return events.Interface{Path: path, Revision: revision}
}
