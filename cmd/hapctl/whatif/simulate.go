// Package whatif implements the commands of hapctl that predict decisions: simulate and plan.
package whatif

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/inspect"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/simulate"
)

// simulation is the output of simulate.
type simulation struct {
	Results []simulate.Result `json:"results"`
	Pools   []poolChange      `json:"pools"` // pools that changed
	WhatIf  []string          `json:"whatIf"`
	First   []simulate.Result `json:"first,omitempty"` // waiting requests that were served before the first event
}

// poolChange is a pool before and after the events.
type poolChange struct {
	Pool   string     `json:"pool"`
	Before poolCounts `json:"before"`
	After  poolCounts `json:"after"`
}

// poolCounts are the counts of a pool.
type poolCounts struct {
	Free     int `json:"free"`
	Claimed  int `json:"claimed"`
	Dirty    int `json:"dirty"`
	Clusters int `json:"clusters"`
	Waiting  int `json:"waiting"`
}

func (v simulation) Show(w io.Writer, wide bool) {
	header := []string{"REQUEST", "TYPE", "RUNTIME", "TENANT", "STATUS", "POOL", "BINDING", "CLUSTERS", "WHAT"}
	if wide {
		header = append(header, "RULE", "CONSIDERED")
	}
	var rows [][]string
	for _, r := range v.First {
		rows = append(rows, resultRow(r, wide))
	}
	for _, r := range v.Results {
		rows = append(rows, resultRow(r, wide))
		for _, served := range r.Serves {
			rows = append(rows, resultRow(served, wide))
		}
	}
	cli.Table(w, header, rows)
	if len(v.Pools) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows = make([][]string, len(v.Pools))
	for i, p := range v.Pools {
		rows[i] = []string{p.Pool, fromTo(p.Before.Free, p.After.Free), fromTo(p.Before.Claimed, p.After.Claimed),
			fromTo(p.Before.Dirty, p.After.Dirty), fromTo(p.Before.Clusters, p.After.Clusters), fromTo(p.Before.Waiting, p.After.Waiting)}
	}
	cli.Table(w, []string{"POOL", "FREE", "CLAIMED", "DIRTY", "CLUSTERS", "WAITING"}, rows)
}

func fromTo(before, after int) string {
	if before == after {
		return strconv.Itoa(after)
	}
	return fmt.Sprintf("%d -> %d", before, after)
}

func resultRow(r simulate.Result, wide bool) []string {
	clusters := ""
	if r.Clusters != nil {
		clusters = view.OfLimit(*r.Clusters, r.Limit)
	}
	row := []string{r.RequestID, string(r.Type), r.RuntimeID, r.Tenant, string(r.Status), r.Pool, r.Binding, clusters, whatText(r)}
	if wide {
		looked := make([]string, len(r.Considered))
		for i, c := range r.Considered {
			looked[i] = fmt.Sprintf("%s %s", c.Binding, c.Verdict)
		}
		rule := ""
		if r.Rule != "" {
			rule = cli.Numbered(r.RuleNumber, r.Rule)
		}
		row = append(row, rule, strings.Join(looked, ", "))
	}
	return cli.Dashed(row)
}

func whatText(r simulate.Result) string {
	var words []string
	if r.Served {
		words = append(words, "had waited")
	}
	switch {
	case r.Error != nil:
		words = append(words, string(r.Error.Code))
	case r.Claimed:
		words = append(words, "claimed")
	case r.Dirty:
		words = append(words, "marked dirty")
	case r.Waiting != nil && r.Waiting.Reason.Network():
		words = append(words, string(r.Waiting.Reason))
	case r.Position > 0:
		words = append(words, "place "+strconv.Itoa(r.Position))
	}
	return strings.Join(words, ", ")
}

type simulateFlags struct {
	file, pool string
	stdin      bool
	whatIf     []string
	limit      int
	start      startFlags
	terms      termFiles
}

func (f *simulateFlags) check(cmd *cobra.Command) error {
	begins := len(f.start.tenants) > 0
	switch {
	case f.stdin && f.file != "", !f.stdin && f.file == "" && !begins:
		return cli.Usagef("name the events with -f FILE, or read them with --stdin; or describe a pool with --start")
	case begins && f.pool != "":
		return cli.Usagef("--start and --pool exclude each other; both say what the pools are")
	case cmd.Flags().Changed("limit") && (f.limit < 0 || f.limit > mostNumber):
		return cli.Usagef("--limit is %d, must be from 0 to %d", f.limit, mostNumber)
	}
	for _, name := range []string{"plan", "platform-region", "hyperscaler-region"} {
		if cmd.Flags().Changed(name) && !begins {
			return cli.Usagef("--%s is only for --start; write it into the events", name)
		}
	}
	return f.terms.check(f.file, f.stdin)
}

const simulateLong = `Decide events one after the other on a copy of the pools, and show the answer to each
event and how full the pools are afterwards. The worker's own code decides, in
memory, with the rules and limits of --config. hapctl publishes and writes nothing.
It starts with the current pools, or with those that 'hapctl pools save' saved. If
the pools have room for waiting requests, hapctl serves these first.

The policy comes from --config, or from --policy, --catalog and --type-instances. The
network rules come from --config or --network. If --config names a file that is
missing, or an object in the cluster, hapctl prints a message and simulates without
it.

Each line is an event's data with its type, or a whole CloudEvent. You can omit the
type if the fields identify it:
  {"type":"provision","id":"r1","runtimeID":"rt-1","globalAccountID":"ga-1","plan":"aws"}
  {"runtimeID":"rt-1"}                        a deprovision
  {"binding":"aws-7"}                         a release

--what-if changes the terms before the first decision: limit.PROVIDER=N,
limit.default=N, strategy=NAME, allowedGlobalAccounts=ID,... (* for all tenants,
empty for none), rules=FILE, accounts.POOL=N (N additional free accounts; requests
that already wait may take them). --limit N lets every tenant have several accounts
with N clusters each, for any provider.

--start replaces the current pools by one pool: it lists tenants, their accounts in
the order in which they were claimed, and the clusters on each account. The pool is
the one that serves --plan. Unless it is shared, it has one additional free account
named free; --what-if can set another number. Without events, each tenant asks for
one cluster.

In the simulation, labels are written at once, no deadline passes, and an account is
dirty as soon as its last cluster leaves it. The exit code is the highest of all
lines: 4 if a request finds no rule or has to wait. With --stdin, hapctl
answers each line with one line of JSON. In it, serves lists the waiting requests
that the event made room for. In the first line, first lists the requests that hapctl
served before it.`

// NewSimulate returns the command hapctl simulate.
func NewSimulate(s *cli.Shell) *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate (-f FILE | --stdin | --start TENANT:...)",
		Short: "Show how a worker would answer events",
		Long:  simulateLong,
		Example: `  hapctl simulate -f events.ndjson --config hap-worker.yaml
  hapctl simulate -f events.ndjson --config new.yaml --pool saved.json
  hapctl simulate -f events.ndjson --config hap-worker.yaml --what-if limit.aws=100 --what-if accounts.aws=5
  hapctl simulate --start 'ga-1: A=200,B=150' --limit 200`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "`file` of events, one JSON object per line, - for standard input")
	flags.BoolVar(&f.stdin, "stdin", false, "read events from standard input and answer line by line")
	flags.StringVar(&f.pool, "pool", "", "`file` of 'hapctl pools save'; replaces the current pools")
	flags.StringArrayVar(&f.whatIf, "what-if", nil, "`change` of the terms, such as limit.aws=100; can be repeated")
	flags.IntVar(&f.limit, "limit", 0, "maximum number of `clusters` on an account, for every tenant and provider (default: the limits of --config)")
	f.start.flags(cmd)
	f.terms.flags(cmd)
	timeout := flags.Duration("timeout", cli.ReadWithin, "how long to wait for Redis and Gardener")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *timeout <= 0 {
			return cli.Usagef("--timeout is %s, must be positive", *timeout)
		}
		if err := f.check(cmd); err != nil {
			return err
		}
		limited := cmd.Flags().Changed("limit")
		return runSimulation(cmd.Context(), s, f, limited, func(ctx context.Context, cfg *config.Config) (*simulate.State, error) {
			if f.pool != "" {
				return inspect.LoadState(f.pool)
			}
			ctx, cancel := context.WithTimeout(ctx, *timeout)
			defer cancel()
			state, err := inspect.ReadState(ctx, s, cfg)
			return state, cli.InTime(ctx, err)
		})
	}
	return cmd
}

func runSimulation(ctx context.Context, s *cli.Shell, f simulateFlags, limited bool, read func(context.Context, *config.Config) (*simulate.State, error)) error {
	cfg, err := s.Connections.Settings()
	if err != nil {
		return err
	}
	tenants, err := f.start.parse()
	if err != nil {
		return err
	}
	if limited {
		everybody(&cfg.HAP, f.limit)
	}
	more, err := applyWhatIf(s, &cfg.HAP, f.whatIf)
	if err != nil {
		return err
	}
	decisions, err := cfg.Decisions()
	if err != nil {
		return err
	}
	by, err := simulationTerms(s, cfg, decisions, f.terms)
	if err != nil {
		return err
	}
	var state *simulate.State
	if len(tenants) > 0 {
		state, err = f.start.state(tenants, decisions.Rules(), more)
	} else {
		state, err = read(ctx, cfg)
	}
	if err != nil {
		return err
	}
	imagine(s, state, more, len(tenants) == 0)
	sim, err := simulate.New(ctx, state, by)
	if err != nil {
		return fmt.Errorf("the pools cannot be simulated: %w", err)
	}
	before, err := tallied(ctx, sim)
	if err != nil {
		return err
	}
	first, err := sim.First(ctx)
	if err != nil {
		return err
	}
	if f.stdin {
		return simulateLines(ctx, s, sim, first)
	}
	v := simulation{Results: []simulate.Result{}, WhatIf: append([]string{}, f.whatIf...), First: first}
	if f.file == "" {
		return started(ctx, s, sim, f.start.provisions(tenants), v, before)
	}
	in, err := openEvents(s, f.file)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	return simulateAll(ctx, s, sim, in, v, before)
}

func openEvents(s *cli.Shell, path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(s.Stdin), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return file, nil
}

// simulateLines answers line by line. The first result lists the requests that were served before it.
func simulateLines(ctx context.Context, s *cli.Shell, sim *simulate.Simulator, first []simulate.Result) error {
	worst := cli.ExitDone
	err := cli.RunLines(ctx, s, func(ctx context.Context, in eventLine) (any, error) {
		r, err := doLine(ctx, sim, in)
		if err != nil {
			return nil, err
		}
		r.First, first = first, nil
		worst = max(worst, resultExit(r))
		return r, nil
	})
	if err == nil || errors.Is(err, cli.ErrSaid) {
		return cli.Said(max(worst, cli.ExitCode(err)))
	}
	return err
}

// simulateAll decides all events and then prints the results. At a line that cannot be read, or an event that is not
// answered, it returns an error and prints nothing.
func simulateAll(ctx context.Context, s *cli.Shell, sim *simulate.Simulator, in io.Reader, v simulation, before tallies) error {
	number, worst := 0, cli.ExitDone
	for line := range cli.ReadLines(ctx, in) {
		number++
		_, err := cli.RunLine(ctx, line, func(ctx context.Context, in eventLine) (any, error) {
			r, err := doLine(ctx, sim, in)
			if err == nil {
				v.Results, worst = append(v.Results, r), max(worst, resultExit(r))
			}
			return r, err
		})
		if err != nil {
			return fmt.Errorf("event %d: %w", number, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return simulated(ctx, s, sim, v, before, worst)
}

// simulated prints the results and the changes of the pools.
func simulated(ctx context.Context, s *cli.Shell, sim *simulate.Simulator, v simulation, before tallies, worst int) error {
	after, err := tallied(ctx, sim)
	if err != nil {
		return err
	}
	v.Pools = before.changes(after)
	if err := s.Print(v); err != nil {
		return err
	}
	return cli.Said(worst)
}

func doLine(ctx context.Context, sim *simulate.Simulator, in eventLine) (simulate.Result, error) {
	e, err := in.event()
	if err != nil {
		return simulate.Result{}, err
	}
	return sim.Do(ctx, e)
}

// resultExit returns the exit code for a result.
func resultExit(r simulate.Result) int {
	switch {
	case r.Error != nil:
		return r.Error.Code.Info().Exit
	case r.Status == events.StatusWaiting:
		return cli.ExitNothing
	default:
		return cli.ExitDone
	}
}
