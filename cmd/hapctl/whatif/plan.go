package whatif

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/inspect"
	"github.com/hap-worker/hap-worker/engine/capacity"
	"github.com/hap-worker/hap-worker/engine/natural"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/engine/terms"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/simulate"
)

// percent is a flag with a share, written as 1% or 0.01.
type percent float64

func (p *percent) String() string { return percentText(float64(*p)) }

func (p *percent) Type() string { return "share" }

// Set parses a share.
func (p *percent) Set(text string) error {
	number, isPercent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil {
		return fmt.Errorf("%q is no share: write it as 1%% or 0.01", text)
	}
	if isPercent {
		x /= 100
	}
	*p = percent(x)
	return nil
}

type planFlags struct {
	horizon, window, cleaning cli.Span
	growth                    float64
	risk                      percent
	runs                      int
	seed                      uint64
	pool, history, save, svg  string
	whatIf                    []string
}

func (f *planFlags) options() capacity.Options {
	return capacity.Options{
		Horizon: time.Duration(f.horizon), Growth: f.growth, Risk: float64(f.risk), Runs: f.runs, Seed: f.seed,
	}
}

func (f *planFlags) check() error {
	if err := f.options().Check(); err != nil {
		return cli.Usagef("%w", err)
	}
	switch {
	case f.window < 0:
		return cli.Usagef("--window is %s, must not be negative", &f.window)
	case f.cleaning < 0:
		return cli.Usagef("--cleaning is %s, must not be negative", &f.cleaning)
	case f.history != "" && f.save != "":
		return cli.Usagef("--history and --save-history exclude each other")
	}
	return nil
}

const planLong = `Forecast how many accounts each pool needs, and when today's accounts run out. hapctl
changes nothing.

hapctl learns from the ledger how many requests came, from which tenants, how long
clusters lived and how long accounts were cleaned. Starting with today's pools, it
replays similar requests in memory, with the rules of production, many times and each
time in another order. NEEDED is the smallest number of accounts with which, at a
confidence of 95 %, the share of requests that find no account stays below --risk; if
the runs have too few requests to show that, the smallest with which none waits.
EMPTY-IN is the time until the first request finds no account, in half of the runs,
with today's accounts. The forecast leaves out shared pools: they have room for every
request.

The ledger keeps a runtime's replies for nats.retention after its deprovision, and is
complete only that far back. --window sets how far back hapctl uses it.

--what-if changes the terms and makes a second forecast: limit.PROVIDER=N,
strategy=NAME, allowedGlobalAccounts=ID,..., rules=FILE, accounts.POOL=N (N
additional accounts).`

// NewPlan returns the command hapctl plan.
func NewPlan(s *cli.Shell) *cobra.Command {
	f := planFlags{horizon: cli.Span(90 * cli.Day), cleaning: cli.Span(cli.Day), risk: 0.01}
	cmd := &cobra.Command{
		Use:   "plan [POOL...]",
		Short: "Forecast how many accounts pools need, and when they run out",
		Long:  planLong,
		Example: `  hapctl plan --horizon 90d --growth 1.3 --risk 1%
  hapctl plan aws --what-if limit.aws=200 -o wide
  hapctl plan --save-history history.json --svg plan.svg
  hapctl plan --history history.json --pool pools.json`,
		Args: cli.Arguments(cobra.ArbitraryArgs),
	}
	flags := cmd.Flags()
	flags.Var(&f.horizon, "horizon", "how far to look ahead")
	flags.Float64Var(&f.growth, "growth", 1, "request rate at the end of the horizon, as a multiple of today's rate")
	flags.Var(&f.risk, "risk", "acceptable share of requests that find no account")
	flags.IntVar(&f.runs, "runs", 1000, "maximum number of replays for each number of accounts")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the random order; the same seed repeats the forecast")
	flags.Var(&f.window, "window", "how far back to use the ledger (default: nats.retention)")
	flags.Var(&f.cleaning, "cleaning", "how long cleaning an account takes if the ledger has no example")
	flags.StringVar(&f.pool, "pool", "", "`file` of 'hapctl pools save'; replaces the current pools")
	flags.StringVar(&f.history, "history", "", "`file` of --save-history; replaces the ledger")
	flags.StringVar(&f.save, "save-history", "", "`file` to save the history of the ledger to; it contains tenant and runtime ids")
	flags.StringVar(&f.svg, "svg", "", "`file` for a plot of the accounts in use, - for standard output")
	flags.StringArrayVar(&f.whatIf, "what-if", nil, "`change` of the terms, such as limit.aws=200; can be repeated")
	timeout := flags.Duration("timeout", 5*time.Minute, "time limit for reading and replaying")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *timeout <= 0 {
			return cli.Usagef("--timeout is %s, must be positive", *timeout)
		}
		if err := f.check(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		return printPlan(ctx, s, f, args)
	}
	return cmd
}

func printPlan(ctx context.Context, s *cli.Shell, f planFlags, wanted []string) error {
	cfg, err := s.Connections.Settings()
	if err != nil {
		return err
	}
	decisions, err := cfg.Decisions()
	if err != nil {
		return err
	}
	changed, err := changedTerms(s, *cfg, f.whatIf)
	if err != nil {
		return err
	}
	state, past, err := planInputs(ctx, s, cfg, f)
	if err != nil {
		return err
	}
	if err := checkPools(plannedPools(state, past.begins(), past.Until.Sub(past.Since)), wanted, changed.more); err != nil {
		return err
	}
	if text := past.short(f.lookBack(cfg)); text != "" {
		s.Say("%s", text)
	}
	begin := time.Now()
	v, err := forecast(ctx, f, state, past, planTerms{decisions: decisions}, wanted)
	if err != nil {
		return err
	}
	if len(f.whatIf) > 0 {
		other, err := forecast(ctx, f, state, past, changed, wanted)
		if err != nil {
			return err
		}
		v.WhatIf = f.whatIf
		v.decisions += other.decisions
		v.compare(other)
	}
	v.sayDoubts(s, f.risk)
	if took := time.Since(begin); v.decisions > 0 {
		s.Say("%d decisions in %s, %.0f a second", v.decisions, took.Round(10*time.Millisecond), float64(v.decisions)/took.Seconds())
	}
	if f.svg == "-" {
		return s.Stdout.AtOnce(func(out cli.Stream) error { return v.draw(out) })
	}
	if f.svg != "" {
		var text strings.Builder
		if err := v.draw(&text); err != nil {
			return err
		}
		if err := inspect.ReplaceFile(f.svg, []byte(text.String())); err != nil {
			return fmt.Errorf("save the drawing: %w", err)
		}
	}
	return s.PrintSome(v, len(v.Pools), "pools that are not shared")
}

// sayDoubts tells the user of which pools NEEDED is uncertain.
func (v *forecastView) sayDoubts(s *cli.Shell, risk percent) {
	for _, p := range v.Pools {
		if p.Requests > 0 && p.MedianLifetimeDays == nil {
			s.Say("pool %s: no cluster of the past has ended, so none ends in the forecast, and NEEDED may be too high", p.Pool)
		}
		if p.WithoutNeeded.Share == 0 && p.WithoutNeeded.High > v.Risk {
			s.Say("pool %s: the runs have too few requests to show a share below %s, so NEEDED is the number with which none waits; a longer --horizon or more --runs have more requests", p.Pool, risk.String())
		}
	}
}

// lookBack returns how far back the ledger is used.
func (f *planFlags) lookBack(cfg *config.Config) time.Duration {
	return cmp.Or(time.Duration(f.window), cfg.NATS.Retention)
}

// planInputs reads the present pools and the past requests. With --save-history it saves the past requests.
func planInputs(ctx context.Context, s *cli.Shell, cfg *config.Config, f planFlags) (*simulate.State, *history, error) {
	var past *history
	var err error
	if f.history != "" {
		past, err = loadHistory(f.history)
	} else {
		past, err = readHistory(ctx, s, cfg, f.lookBack(cfg))
	}
	if err != nil {
		return nil, nil, err
	}
	if f.save != "" {
		text, err := json.MarshalIndent(past, "", " ")
		if err != nil {
			return nil, nil, err
		}
		if err := inspect.ReplaceFile(f.save, append(text, '\n')); err != nil {
			return nil, nil, fmt.Errorf("save the history: %w", err)
		}
		s.Say("saved %d clusters, %d refused requests and %d cleanings to %s", len(past.Clusters), len(past.Refused), len(past.Cleanings), f.save)
	}
	if f.pool != "" {
		state, err := inspect.LoadState(f.pool)
		return state, past, err
	}
	state, err := inspect.ReadState(ctx, s, cfg)
	return state, past, err
}

// planTerms are the terms of a forecast.
type planTerms struct {
	decisions *terms.Decisions
	rules     *rule.Ruleset  // the rules for past requests; nil keeps each in its pool
	more      map[string]int // additional accounts, by pool
}

// changedTerms returns the terms with the changes of --what-if.
func changedTerms(s *cli.Shell, cfg config.Config, changes []string) (changed planTerms, err error) {
	if changed.more, err = applyWhatIf(s, &cfg.HAP, changes); err != nil {
		return changed, err
	}
	if changed.decisions, err = cfg.Decisions(); err != nil {
		return changed, err
	}
	if slices.ContainsFunc(changes, func(change string) bool { return strings.HasPrefix(change, "rules=") }) {
		changed.rules = changed.decisions.Rules()
	}
	return changed, nil
}

// checkPools returns a usage error if one of the wanted pools, or of those that get more accounts, is not among pools.
func checkPools(pools map[string]*plannedPool, wanted []string, more map[string]int) error {
	names := strings.Join(slices.SortedFunc(maps.Keys(pools), natural.Compare), ", ")
	for _, name := range wanted {
		if pools[name] == nil {
			return cli.Usagef("no pool %s has dedicated accounts; the pools with dedicated accounts are %s", name, names)
		}
	}
	for name := range more {
		if pools[name] == nil {
			return cli.Usagef("--what-if accounts.%s: no pool %s has dedicated accounts; the pools with dedicated accounts are %s", name, name, names)
		}
	}
	return nil
}

// forecast forecasts the wanted pools; without names, all pools that are not shared.
func forecast(ctx context.Context, f planFlags, state *simulate.State, past *history, by planTerms, wanted []string) (forecastView, error) {
	pools := plannedPools(state, past.begins(), past.Until.Sub(past.Since))
	pasts := past.pasts(by.rules)
	v := newForecastView(f, past)
	for _, name := range slices.SortedFunc(maps.Keys(pools), natural.Compare) {
		if len(wanted) > 0 && !slices.Contains(wanted, name) {
			continue
		}
		p := pools[name]
		p.ask(pasts[name], by.decisions, time.Duration(f.cleaning))
		for n := range by.more[name] {
			p.Accounts = append(p.Accounts, capacity.Account{Name: "imagined-" + strconv.Itoa(n)})
		}
		found, err := p.Plan(ctx, f.options())
		if err != nil {
			return v, fmt.Errorf("pool %s: %w", name, err)
		}
		v.add(name, p, found)
	}
	return v, nil
}
