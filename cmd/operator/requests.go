package operator

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/config"
)

const requestHelp = `
The final reply is printed; a request that waits says so on standard error. When
the time is over, the exit code is 124 and the request goes on: the same --id
again picks its answer up, now or days later. A request that is rejected is
printed too, with exit code 4 where no rule matches or the pool is empty, 5 for a
conflict, else 1.

With -f FILE or --stdin, each line is the data of one request as docs/messages.md
has it, optionally with its "id". Several are in flight at once; the results are
lines of JSON in the order of the requests.`

func newProvision(s *shell) *cobra.Command {
	var p events.Provision
	var cluster events.Cluster
	var wanted string
	cmd := &cobra.Command{
		Use:   "provision --runtime ID --global-account ID --plan PLAN",
		Short: "Ask for what a runtime needs, and wait for the answer",
		Long:  "Publish a provision event and wait for its final reply: the account, network\nranges and implementation that the runtime gets.\n" + requestHelp,
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
	flags.StringVar(&p.Provider, "provider", "", "hyperscaler `name` (default: that of the plan)")
	flags.StringVar(&p.ShootName, "shoot", "", "`name` of the Shoot")
	flags.StringVar(&wanted, "interface", "", "interface whose implementation is wanted, `PATH[:REVISION]`")
	flags.StringVar(&cluster.Name, "cluster", "", "`name` of the cluster, for network rules")
	flags.StringVar(&cluster.Namespace, "cluster-namespace", "", "`namespace` of the cluster")
	flags.StringArrayVar(&cluster.Purposes, "purpose", nil, "a `purpose` of the cluster; may be given several times")
	flags.Var((*labelFlag)(&cluster.Labels), "label", "a label of the cluster, `KEY=VALUE`; may be given several times")
	mustRegister(cmd, "plan", cobra.FixedCompletions(planNames(), cobra.ShellCompDirectiveNoFileComp))
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

func newDeprovision(s *shell) *cobra.Command {
	var d events.Deprovision
	cmd := &cobra.Command{
		Use:   "deprovision --runtime ID",
		Short: "Give back what a runtime has, once its Shoot is gone",
		Long:  "Publish a deprovision event and wait for its final reply. A runtime that nobody\nknows is released too: on a terminal that is asked first, elsewhere standard error\nsays so.\n" + requestHelp,
		Example: `  hapctl deprovision --runtime rt-1
  hapctl deprovision -f gone.ndjson`,
	}
	flags := cmd.Flags()
	flags.StringVar(&d.RuntimeID, "runtime", "", "runtime `id`")
	flags.StringVar(&d.GlobalAccountID, "global-account", "", "global account `id`, for the subject; need not be the provision's")
	flags.StringVar(&d.ShootName, "shoot", "", "`name` of the Shoot")
	return requestCommand(s, cmd, events.TypeDeprovision, []string{"runtime"}, func(*config.Config) doubts { return unknownToLedger },
		func() events.Event {
			return events.Event{Deprovision: &d}
		})
}

func newRelease(s *shell) *cobra.Command {
	var r events.Release
	var generation int64
	cmd := &cobra.Command{
		Use:   "release --binding NAME",
		Short: "Return a dirty account to its pool, once it is emptied",
		Long:  "Publish a release event and wait for its final reply. Of an account that is not in\nGardener or not dirty, which is refused, standard error says so, and on a terminal it\nis asked first. A script needs no Gardener for that; it is looked at where the\nconfiguration names one.\n" + requestHelp,
		Example: `  hapctl release --binding aws-7
  hapctl release --binding aws-7 --generation 3`,
	}
	flags := cmd.Flags()
	flags.StringVar(&r.Binding, "binding", "", "`name` of the binding")
	flags.Int64Var(&generation, "generation", 0, "the `claim` that the account was emptied of; refused where it is no longer the binding's")
	return requestCommand(s, cmd, events.TypeRelease, []string{"binding"}, notToRelease,
		func() events.Event {
			if cmd.Flags().Changed("generation") {
				r.Generation = &generation
			}
			return events.Event{Release: &r}
		})
}

func newResolve(s *shell) *cobra.Command {
	var r events.Resolve
	var wanted string
	cmd := &cobra.Command{
		Use:     "resolve --runtime ID --interface PATH[:REVISION]",
		Short:   "Ask for the implementation of an interface",
		Long:    "Publish a resolve event and wait for its final reply: the implementation that\nthe policy chooses. Nothing is allotted.\n" + requestHelp,
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

// parseInterface reads PATH[:REVISION].
func parseInterface(text string) events.Interface {
	path, revision, _ := strings.Cut(text, ":")
	return events.Interface{Path: path, Revision: revision}
}
