// Package repair implements the commands of hapctl that change the workers' data: holds on bindings and
// pools, foreign messages, counters and the record of the landscape.
package repair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/audit"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/rebuild"
)

// NewCounters returns the command hapctl counters.
func NewCounters(s *cli.Shell) *cobra.Command {
	return cli.Group("counters COMMAND", "Check or rebuild the counts in Redis", newVerify(s), newRebuild(s))
}

// driftView is a drift between Redis and the ledger, labels or Shoots. docs/hapctl.md documents its fields.
type driftView struct {
	Kind      account.DriftKind `json:"kind"`
	Pool      string            `json:"pool"`
	Binding   string            `json:"binding,omitempty"`
	RuntimeID string            `json:"runtimeID,omitempty"`
	Message   string            `json:"message"`
	Remedy    account.Remedy    `json:"remedy"`
}

func viewOfDrifts(drifts []account.Drift) []driftView {
	views := make([]driftView, len(drifts))
	for i, d := range drifts {
		views[i] = driftView{Kind: d.Kind, Pool: d.Pool, Binding: d.Binding, RuntimeID: d.Runtime, Message: d.Message, Remedy: d.Remedy()}
	}
	return views
}

// verification is the output of verify.
type verification struct {
	Drifts   []driftView `json:"drifts"`
	Changed  []driftView `json:"changed"`
	NotBuilt []string    `json:"notBuilt"`
	Replies  int         `json:"replies"`
	Runtimes int         `json:"runtimes"`
	Bindings int         `json:"bindings"`
}

func (v verification) Show(w io.Writer, wide bool) {
	for _, part := range []struct {
		title  string
		drifts []driftView
	}{{"CHANGED", v.Changed}, {"DRIFT", v.Drifts}} {
		if len(part.drifts) == 0 {
			continue
		}
		header, rows := driftRows(part.title, part.drifts)
		cli.FittedText(w, wide, header, rows, driftShort...)
		fmt.Fprintln(w)
	}
	cli.Pairs(w, append([][2]string{
		{"RUNTIMES", strconv.Itoa(v.Runtimes)}, {"BINDINGS", strconv.Itoa(v.Bindings)}, {"REPLIES", strconv.Itoa(v.Replies)},
		{"DRIFTS", strconv.Itoa(len(v.Drifts))},
	}, cli.FoldedPair("NOT BUILT", strings.Join(v.NotBuilt, ", "))...))
}

// driftShort are the columns of drifts that are shortened first.
var driftShort = []string{"RUNTIME", "POOL", "BINDING"}

func driftRows(title string, drifts []driftView) (header []string, rows [][]string) {
	for _, d := range drifts {
		rows = append(rows, cli.Dashed([]string{string(d.Kind), d.Pool, d.Binding, d.RuntimeID, string(d.Remedy), d.Message}))
	}
	return []string{title, "POOL", "BINDING", "RUNTIME", "REMEDY", "WHAT"}, rows
}

func newVerify(s *cli.Shell) *cobra.Command {
	var repair, drainIdle, yes bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare Redis with the ledger, labels and Shoots",
		Long: `Read the whole ledger and all labels, Shoots and records of Redis, and show where
they differ. If the first pass finds differences, hapctl reads everything again and
shows only those that both passes found: a worker may have been in the middle of a
change. The exit code is 5 if drift remains.

With --repair, hapctl repairs what is safe and then reads everything again. REMEDY
says how --repair treats the drift:

- mended: hapctl corrects Redis
- doubted: a worker checks the label before it gives the account to another tenant; the
  drift stays until an operator corrects the label
- drain-idle: only with --drain-idle, a claimed account without runtimes drains, and a
  worker marks it dirty once no Shoot refers to it
- reported: hapctl changes nothing; an operator has to check it`,
		Example: `  hapctl counters verify
  hapctl counters verify --repair --yes -o json`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	flags := cmd.Flags()
	flags.BoolVar(&repair, "repair", false, "repair the drift that is safe to repair")
	flags.BoolVar(&drainIdle, "drain-idle", false, "with --repair: drain claimed accounts that have no runtime")
	flags.BoolVar(&yes, "yes", false, "do not ask before the repair")
	timeout := flags.Duration("timeout", cli.AuditWithin, "time limit for the whole command")
	cmd.RunE = func(_ *cobra.Command, _ []string) error {
		if drainIdle && !repair {
			return cli.Usagef("--drain-idle goes with --repair")
		}
		return withSources(cmd.Context(), s, *timeout, true, func(ctx context.Context, p *sources) error {
			if repair {
				if err := s.Recorded(p.redis); err != nil {
					return err
				}
			}
			tell := newProgress(s)
			defer tell.end()
			return runVerify(ctx, s, p.audit(tell), tell, repair, drainIdle, yes)
		})
	}
	return cmd
}

func runVerify(ctx context.Context, s *cli.Shell, audit *audit.Audit, tell *progress, repair, drainIdle, yes bool) error {
	found, err := audit.Verify(ctx)
	tell.end()
	if err != nil {
		return cli.GardenerError(err)
	}
	var changed []account.Drift
	if drifts, how := repairable(found.Drifts, drainIdle); repair && len(drifts) > 0 {
		header, rows := driftRows("DRIFT", viewOfDrifts(drifts))
		s.ShowAffected(header, rows, driftShort...)
		if err := s.Confirm(ctx, fmt.Sprintf("repair %d of %d drifts in Redis (%s)", len(drifts), len(found.Drifts), how), yes); err != nil {
			return err
		}
		found, changed, err = runRepair(ctx, s, audit, tell, found, drainIdle)
	}
	v := verification{
		Drifts: viewOfDrifts(found.Drifts), Changed: viewOfDrifts(changed), NotBuilt: append([]string{}, found.NotBuilt...),
		Replies: found.Replies, Runtimes: found.Runtimes, Bindings: found.Bindings,
	}
	if failed := s.Print(v); err == nil {
		err = failed
	}
	if err != nil {
		return cli.GardenerError(err)
	}
	switch {
	case len(v.Drifts) > 0:
		return cli.Said(cli.ExitConflict)
	case len(v.NotBuilt) > 0:
		return fmt.Errorf("not built in Redis: %s; a running worker builds it, or hapctl counters rebuild", strings.Join(v.NotBuilt, ", "))
	}
	return nil
}

// runRepair repairs and reads everything again. If either fails, it returns the error with the changed drifts
// and the finding of before, without these, so that the output still says what was changed.
func runRepair(ctx context.Context, s *cli.Shell, a *audit.Audit, tell *progress, found audit.Finding, drainIdle bool) (audit.Finding, []account.Drift, error) {
	changed, err := a.RepairAll(ctx, found.Drifts, drainIdle)
	s.Say("Redis was changed for %d drifts", len(changed))
	if err == nil {
		again, failed := a.Verify(ctx)
		tell.end()
		if failed == nil {
			return again, changed, nil
		}
		err = failed
	}
	found.Drifts = slices.DeleteFunc(slices.Clone(found.Drifts), func(d account.Drift) bool { return slices.ContainsFunc(changed, d.Is) })
	return found, changed, err
}

// repairable returns the drifts that a repair may change, and how many of them by each remedy, for the question.
func repairable(drifts []account.Drift, drainIdle bool) (all []account.Drift, how string) {
	var counts []string
	for _, r := range []struct {
		remedy     account.Remedy
		verb, noun string
	}{{account.Mended, "mend", "drift"}, {account.Doubted, "doubt", "drift"}, {account.DrainOnly, "drain", "claimed account"}} {
		before := len(all)
		for _, d := range drifts {
			if d.Remedy() == r.remedy && (r.remedy != account.DrainOnly || drainIdle) {
				all = append(all, d)
			}
		}
		if n := len(all) - before; n > 0 {
			counts = append(counts, r.verb+" "+cli.Count(n, r.noun))
		}
	}
	return all, strings.Join(counts, ", ")
}

// rebuilt is the output of rebuild.
type rebuilt struct {
	Pools    []string `json:"pools"`
	Runtimes int      `json:"runtimes"`
	Bindings int      `json:"bindings"`
	Seconds  float64  `json:"seconds"`
}

func (v rebuilt) Show(w io.Writer, _ bool) {
	cli.Pairs(w, [][2]string{
		{"POOLS", cmp.Or(strings.Join(v.Pools, ","), "-")}, {"RUNTIMES", strconv.Itoa(v.Runtimes)},
		{"BINDINGS", strconv.Itoa(v.Bindings)}, {"SECONDS", strconv.FormatFloat(v.Seconds, 'f', 2, 64)},
	})
}

func newRebuild(s *cli.Shell) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Rebuild Redis from the ledger, labels and Shoots",
		Long: `Discard what Redis records, and rebuild all pools and the directory from the ledger,
labels and Shoots. Until that is done, workers assign nothing; events and requests
wait, and none is lost. Workers that run rebuild it. If none does within a minute,
hapctl does, except for network ranges, and needs the rights of a worker on NATS
then. Do not run it after Redis lost data or restarted: workers notice that
themselves.`,
		Example: `  hapctl counters rebuild --yes`,
		Args:    cli.Arguments(cobra.NoArgs),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask before Redis is discarded")
	timeout := cmd.Flags().Duration("timeout", cli.AuditWithin, "time limit for the whole command")
	cmd.RunE = func(_ *cobra.Command, _ []string) error {
		return withSources(cmd.Context(), s, *timeout, false, func(ctx context.Context, p *sources) error {
			empty, err := redisIsEmptied(ctx, s, p)
			if err != nil {
				return err
			}
			if err := s.Confirm(ctx, "discard what Redis has and build it anew", yes); err != nil {
				return err
			}
			if empty {
				if err := claimRedis(ctx, s, p); err != nil {
					return err
				}
			}
			return runRebuild(ctx, s, p)
		})
	}
	return cmd
}

func runRebuild(ctx context.Context, s *cli.Shell, p *sources) error {
	begin := time.Now()
	if err := p.gardener.Start(ctx); err != nil {
		return err
	}
	defer p.gardener.Stop()
	if err := p.gardener.WaitSynced(ctx); err != nil {
		return cli.GardenerError(err)
	}
	pools, err := p.store.Pools(ctx)
	if err != nil {
		return err
	}
	tell := newProgress(s)
	defer tell.end()
	r := rebuild.Rebuilder{
		Builder: p.store, Inventory: countedGardener{p.gardener, tell}, Ledger: countedLedger{p.ledger, tell}, Waiting: p.room.Addresses, Subjects: p.subjects,
		Record: p.ledger, Reconnect: p.store.Reconnect,
		Observer: observe.Observer{
			OnStep: tell.rebuilds,
			OnRebuild: func(_ context.Context, i observe.Rebuild) {
				tell.end()
				if i.Err != nil {
					s.Say("rebuild: %v; trying again", i.Err)
					return
				}
				s.Say("rebuild: %d pools and %d parts of the directory from %d replies, %d events sealed", len(i.Pools), i.Buckets, i.Replies, i.Sealed)
			},
		},
	}
	ranges, err := p.discard(ctx, pools)
	if err != nil {
		return err
	}
	if ranges {
		s.Say("rebuild: the network ranges are discarded too: a worker that allots any builds them anew within %s", workersLook)
	}
	if done, err := builtByWorkers(ctx, s, p); err != nil || !done {
		if err != nil {
			return err
		}
		for _, pool := range pools {
			r.Wanted(pool)
		}
		if err := r.Ensure(ctx); err != nil {
			return cli.GardenerError(err)
		}
	}
	v := rebuilt{Pools: []string{}}
	if v.Pools, err = p.store.Pools(ctx); err != nil {
		return err
	}
	for _, pool := range v.Pools {
		status, err := p.store.Status(ctx, pool)
		if err != nil {
			return err
		}
		v.Runtimes, v.Bindings = v.Runtimes+status.Runtimes, v.Bindings+status.Bindings
	}
	v.Seconds = time.Since(begin).Seconds()
	return s.Print(v)
}

// workersLook is how often each worker checks whether Redis is built. workersWithin is how long hapctl waits
// until workers have built it.
const (
	workersLook   = 15 * time.Second
	workersWithin = 4 * workersLook
)

// builtByWorkers waits until running workers have built the pools and the directory: an operator may have no
// right to write seals and the record of the epochs in force. It returns false if no worker runs, or if not
// all is built within workersWithin.
func builtByWorkers(ctx context.Context, s *cli.Shell, p *sources) (bool, error) {
	if !workersMayRun(ctx, s, p) {
		return false, ctx.Err()
	}
	places := bucketNames()
	for _, pool := range p.gardener.Pools() {
		places = append(places, pool.Name())
	}
	within, cancel := context.WithTimeout(ctx, workersWithin)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		built, err := p.store.Built(within, places...)
		if err == nil && !slices.ContainsFunc(places, func(place string) bool { return !built[place] }) {
			return true, nil
		}
		select {
		case <-within.Done():
			s.Say("rebuild: not all was built within %s; hapctl builds it now, which needs the rights of a worker", workersWithin)
			return false, ctx.Err()
		case <-tick.C:
		}
	}
}

// workersMayRun reports whether a worker runs or may run, and then tells the user which of the two.
func workersMayRun(ctx context.Context, s *cli.Shell, p *sources) bool {
	info, err := cli.WorkersConsumer(ctx, p.js, p.subjects)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound), err == nil && info.NumWaiting == 0 && info.NumAckPending == 0:
		return false
	case err != nil:
		s.Say("rebuild: it is not known whether workers run (%s); those that do build it within %s, else hapctl does", cli.OneLineOf(err), workersWithin)
	default:
		s.Say("rebuild: running workers do it, and begin within %s", workersLook)
	}
	return true
}

func bucketNames() []string {
	names := make([]string, account.Buckets)
	for n := range names {
		names[n] = account.BucketName(n)
	}
	return names
}

// discard discards the pools, the directory and the network ranges in Redis, and reports whether there were
// ranges.
func (p *sources) discard(ctx context.Context, pools []string) (ranges bool, err error) {
	for _, place := range slices.Concat(pools, bucketNames()) {
		if _, err := p.store.Discard(ctx, place); err != nil {
			return false, err
		}
	}
	return blocks.New(p.store).Discard(ctx)
}
