package inspect

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/config"
	past "github.com/hap-worker/hap-worker/worker/history"
)

const (
	// plotSteps is the number of columns of a plot, plotRows the greatest number of its lines above that of 0,
	// plotTicks the number of times below it. Even with an axis of seven digits, a plot is narrower than LineWidth.
	plotSteps = 60
	plotRows  = 6
	plotTicks = 4
	// pastWithin is the default of --timeout with 'pools --history'.
	pastWithin = 2 * time.Minute
)

// lookingBack has the flags of pools --history.
type lookingBack struct {
	on    bool
	since cli.Span
}

func (b *lookingBack) flags(flags *pflag.FlagSet) {
	b.since = cli.Span(cli.Day)
	flags.BoolVar(&b.on, "history", false, "show how many accounts and clusters pools had in use over time, from the ledger")
	flags.Var(&b.since, "since", "with --history: how far to look back, such as 30d")
}

// check returns a usage error, nil for none.
func (b *lookingBack) check(changed func(string) bool) error {
	switch {
	case !b.on && changed("since"):
		return cli.Usagef("--since goes with --history")
	case !b.on:
		return nil
	case changed("tenant"):
		return cli.Usagef("--history and --tenant exclude each other: the ledger does not say which tenant returned an account")
	case changed("watch"):
		return cli.Usagef("--history and --watch exclude each other")
	case time.Duration(b.since) < plotSteps*time.Second:
		return cli.Usagef("--since is %s, must be a minute or more", &b.since)
	}
	return nil
}

// wrap makes the command check its flags first. With --history it raises the default of --timeout, since the ledger
// may be long.
func (b *lookingBack) wrap(cmd *cobra.Command) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		flags := cmd.Flags()
		if err := b.check(flags.Changed); err != nil {
			return err
		}
		if b.on && !flags.Changed("timeout") {
			if err := flags.Set("timeout", pastWithin.String()); err != nil {
				return err
			}
		}
		return run(cmd, args)
	}
}

// poolsPast is the past use of pools.
type poolsPast struct {
	Since time.Time  `json:"since"`
	Until time.Time  `json:"until"`
	Step  int64      `json:"stepSeconds"`
	Pools []poolPast `json:"pools"`

	plain bool // no character beyond ASCII
}

// poolPast is the past use of one pool in equal steps of time.
type poolPast struct {
	Pool   string `json:"pool"`
	Shared bool   `json:"shared"`
	Built  bool   `json:"built"`
	// Accounts is the number of accounts now. The accounts of a shared pool are never claimed.
	Accounts int         `json:"accounts"`
	Levels   []pastLevel `json:"levels"` // empty if the pool is not built
}

// pastLevel is the use at the end of a step. The last one is now.
type pastLevel struct {
	At       time.Time `json:"at"`
	InUse    *int      `json:"accountsInUse,omitempty"` // nil for a shared pool
	Clusters int       `json:"clusters"`
}

// readPast reads the present use of the pools, and derives the past use by undoing the entries of the ledger.
func (b *lookingBack) readPast(ctx context.Context, s *cli.Shell, cfg *config.Config, args []string) (poolsPast, error) {
	pools, err := poolsNow(ctx, s, cfg, args)
	if err != nil {
		return poolsPast{}, err
	}
	until := time.Now()
	window := past.Back(time.Duration(b.since), plotSteps)
	var occupancy *past.Occupancy
	err = s.WithStreams(ctx, cfg, func(js jetstream.JetStream, subjects events.Subjects) error {
		occupancy, err = occupancyUntil(ctx, storage.NewLedger(js, subjects, cli.Source), until, window)
		return err
	})
	if err != nil {
		return poolsPast{}, err
	}
	if kept := cfg.NATS.Retention; time.Duration(b.since) > kept && forPeople(s) {
		s.Say("the ledger forgets clusters %s after their release: earlier counts lack these clusters, and may have too many or too few accounts in use", cli.SpanText(kept))
	}
	v := poolsPast{Until: until.UTC().Truncate(time.Second), Step: int64(window.Step.Seconds()), Pools: []poolPast{}, plain: plain(s)}
	v.Since = v.Until.Add(-window.Length())
	for i := range pools {
		v.Pools = append(v.Pools, pastOf(&pools[i], occupancy.Changes(pools[i].Pool, window), window.Step, v.Until))
	}
	return v, nil
}

// occupancyUntil sums the ledger's changes within a window that ends at until. It reads the whole ledger, since a
// reply may repeat a decision that is older than the window.
func occupancyUntil(ctx context.Context, ledger past.Ledger, until time.Time, window past.Window) (*past.Occupancy, error) {
	occupancy := past.NewOccupancy(func() time.Time { return until }, window)
	return occupancy, ledger.FactsAfter(ctx, 0, func(fact storage.Fact) error {
		if !fact.Time.After(until) { // the present use was read before later ones
			occupancy.Take(fact)
		}
		return nil
	})
}

// poolsNow counts the accounts of all pools, or of the pool that args name.
func poolsNow(ctx context.Context, s *cli.Shell, cfg *config.Config, args []string) ([]PoolView, error) {
	l, err := view.ReadLandscape(ctx, s, cfg, false)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return summarize(l, "", view.Terms{}), nil
	}
	detail, err := poolOf(l, args[0], "", view.Terms{})
	return []PoolView{detail.PoolView}, err
}

// plain reports whether drawings use ASCII only: if standard output is no terminal that understands control
// sequences, or if NO_COLOR is set.
func plain(s *cli.Shell) bool { return os.Getenv("NO_COLOR") != "" || !s.Stdout.Moves() }

func forPeople(s *cli.Shell) bool { return s.Format == cli.FormatTable || s.Format == cli.FormatWide }

func pastOf(p *PoolView, changes []past.Change, step time.Duration, until time.Time) poolPast {
	of := poolPast{Pool: p.Pool, Shared: p.Shared, Built: p.Built, Levels: []pastLevel{}}
	for _, n := range p.Standings {
		of.Accounts += n
	}
	if !p.Built {
		return of
	}
	free := p.Standings[account.Free]
	levels := past.Levels(changes, past.Level{Accounts: of.Accounts - free, Clusters: p.Clusters.N})
	for i, l := range levels {
		level := pastLevel{At: until.Add(-time.Duration(len(levels)-1-i) * step), Clusters: l.Clusters}
		if !p.Shared {
			level.InUse = &l.Accounts
		}
		of.Levels = append(of.Levels, level)
	}
	return of
}

func (v poolsPast) Names() []string {
	return cli.NamesOf(v.Pools, func(p poolPast) string { return p.Pool })
}

// Show draws the accounts in use of each pool; in the wide form also its clusters. For a shared pool it draws
// only the clusters.
func (v poolsPast) Show(w io.Writer, wide bool) {
	for i := range v.Pools {
		p := &v.Pools[i]
		if i > 0 {
			fmt.Fprintln(w)
		}
		if !p.Built {
			titled(w, p.Pool+": not known, the pool is not built")
			continue
		}
		if !p.Shared {
			v.draw(w, p, fmt.Sprintf("of %d accounts in use", p.Accounts), p.Accounts, func(l pastLevel) int { return *l.InUse })
		}
		if !p.Shared && wide {
			fmt.Fprintln(w)
		}
		if p.Shared || wide {
			v.draw(w, p, "clusters", 0, func(l pastLevel) int { return l.Clusters })
		}
	}
}

// draw writes a title and a plot below it. The plot reaches from 0 to all or, if it is more, to the greatest value.
func (v poolsPast) draw(w io.Writer, p *poolPast, of string, all int, value func(pastLevel) int) {
	series, peak := make([]float64, len(p.Levels)), 0
	for i, l := range p.Levels {
		series[i], peak = float64(value(l)), max(peak, value(l))
	}
	ago := v.Until.Sub(v.Since)
	titled(w, fmt.Sprintf("%s: %d %s, at most %d in %s", p.Pool, value(p.Levels[len(p.Levels)-1]), of, peak, agoText(ago, ago)))
	step := lineStep(max(peak, all, 1))
	rows := (max(peak, all, 1) + step - 1) / step
	plot := asciigraph.Plot(series,
		asciigraph.Height(rows), asciigraph.LowerBound(0), asciigraph.UpperBound(float64(rows*step)), asciigraph.Precision(0),
		asciigraph.XAxisRange(-ago.Seconds(), 0), asciigraph.XAxisTickCount(plotTicks),
		asciigraph.XAxisValueFormatter(func(seconds float64) string {
			if seconds == 0 {
				return "now"
			}
			return "-" + agoText(time.Duration(-seconds*float64(time.Second)), ago)
		}))
	if v.plain {
		plot = inASCII.Replace(plot)
	}
	for line := range strings.Lines(plot) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

// lineStep returns the difference in value between two lines of a plot from 0 to most: the least number of the form 1,
// 2, 2.5 or 5 times a power of ten, rounded down, with which at most plotRows lines are above that of 0.
func lineStep(most int) int {
	least := (most + plotRows - 1) / plotRows
	for unit := 1; ; unit *= 10 {
		for _, step := range []int{unit, 2 * unit, 5 * unit / 2, 5 * unit} {
			if step >= least {
				return step
			}
		}
	}
}

// agoText returns a time within a window, in the unit for all times of the window.
func agoText(d, window time.Duration) string {
	unit, of := "d", cli.Day
	switch {
	case window <= time.Hour:
		unit, of = "m", time.Minute
	case window <= 2*cli.Day:
		unit, of = "h", time.Hour
	}
	return strconv.FormatFloat(math.Round(10*float64(d)/float64(of))/10, 'f', -1, 64) + unit
}

func titled(w io.Writer, text string) {
	fmt.Fprintln(w, strings.Join(cli.Fold(text, cli.LineWidth), "\n"))
}

// inASCII replaces the plot's characters by ASCII, which every terminal, file and mail can show.
var inASCII = strings.NewReplacer(
	"─", "-", "│", "|", "┤", "|", "┼", "+", "└", "+", "┬", "+",
	"╭", ".", "╮", ".", "╰", "'", "╯", "'", "╴", "-", "╶", "-",
)
