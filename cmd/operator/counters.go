package operator

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/rebuild"
	"github.com/hap-worker/hap-worker/worker/reconcile"
)

// auditWithin is how long a command may take that reads the whole ledger.
const auditWithin = 10 * time.Minute

func newCounters(s *shell) *cobra.Command {
	return group("counters COMMAND", "Check the counts in Redis, and build them anew", newVerify(s), newRebuild(s))
}

// driftView is a drift; its fields are documented in docs/hapctl.md.
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

// verification is what verify prints.
type verification struct {
	Drifts   []driftView `json:"drifts"`
	Changed  []driftView `json:"changed"`
	NotBuilt []string    `json:"notBuilt"`
	Replies  int         `json:"replies"`
	Runtimes int         `json:"runtimes"`
	Bindings int         `json:"bindings"`
}

func (v verification) show(w io.Writer, _ bool) {
	for _, part := range []struct {
		title  string
		drifts []driftView
	}{{"CHANGED", v.Changed}, {"DRIFT", v.Drifts}} {
		if len(part.drifts) == 0 {
			continue
		}
		rows := make([][]string, len(part.drifts))
		for i, d := range part.drifts {
			rows[i] = dashed([]string{string(d.Kind), d.Pool, d.Binding, d.RuntimeID, string(d.Remedy), d.Message})
		}
		table(w, []string{part.title, "POOL", "BINDING", "RUNTIME", "REMEDY", "WHAT"}, rows)
		fmt.Fprintln(w)
	}
	pairs(w, [][2]string{
		{"RUNTIMES", strconv.Itoa(v.Runtimes)}, {"BINDINGS", strconv.Itoa(v.Bindings)}, {"REPLIES", strconv.Itoa(v.Replies)},
		{"DRIFTS", strconv.Itoa(len(v.Drifts))}, {"NOT BUILT", strings.Join(v.NotBuilt, ",")},
	})
}

func newVerify(s *shell) *cobra.Command {
	var repair, drainIdle, yes bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Hold Redis against ledger, labels and Shoots",
		Long: `Read ledger, labels, Shoots and Redis, all of them whole, and show what they do
not say alike. Where the first look finds anything, a second one follows, and what
both have seen is shown: what is merely in motion is none. Exit code 5 if any drift
is left.

With --repair, what is safe is mended, and everything is read once more. REMEDY
says what it does: mended; doubted (the label is looked at before the account is
given to anybody else, the drift stays until somebody mends the label); drain-idle
(only with --drain-idle: an account that is claimed and has no runtime drains and is
marked dirty once no Shoot refers to it); reported (somebody has to look).`,
		Example: `  hapctl counters verify
  hapctl counters verify --repair --yes -o json`,
		Args: arguments(cobra.NoArgs),
	}
	flags := cmd.Flags()
	flags.BoolVar(&repair, "repair", false, "mend what is safe")
	flags.BoolVar(&drainIdle, "drain-idle", false, "with --repair: drain accounts that are claimed and have no runtime")
	flags.BoolVar(&yes, "yes", false, "do not ask before anything is changed")
	timeout := flags.Duration("timeout", auditWithin, "how long all of it may take")
	cmd.RunE = func(_ *cobra.Command, _ []string) error {
		if drainIdle && !repair {
			return usagef("--drain-idle goes with --repair")
		}
		return s.withSources(cmd.Context(), *timeout, true, func(ctx context.Context, p *sources) error {
			if repair {
				if err := s.recorded(p.redis); err != nil {
					return err
				}
			}
			tell := s.progress()
			defer tell.end()
			return s.verify(ctx, p.audit(tell), tell, repair, drainIdle, yes)
		})
	}
	return cmd
}

func (s *shell) verify(ctx context.Context, audit *reconcile.Audit, tell *progress, repair, drainIdle, yes bool) error {
	found, err := audit.Verify(ctx)
	tell.end()
	if err != nil {
		return gardenerError(err)
	}
	var changed []account.Drift
	if n := repairable(found.Drifts, drainIdle); repair && n > 0 {
		if err := s.confirm(fmt.Sprintf("repair %d of %d drifts in Redis", n, len(found.Drifts)), yes); err != nil {
			return err
		}
		changed, err = audit.RepairAll(ctx, found.Drifts, drainIdle)
		if err != nil {
			return gardenerError(err)
		}
		s.say("Redis was changed for %d drifts", len(changed))
		found, err = audit.Verify(ctx)
		tell.end()
		if err != nil {
			return gardenerError(err)
		}
	}
	v := verification{
		Drifts: viewOfDrifts(found.Drifts), Changed: viewOfDrifts(changed), NotBuilt: append([]string{}, found.NotBuilt...),
		Replies: found.Replies, Runtimes: found.Runtimes, Bindings: found.Bindings,
	}
	if err := s.print(v); err != nil {
		return err
	}
	switch {
	case len(v.Drifts) > 0:
		return said(exitConflict)
	case len(v.NotBuilt) > 0:
		return fmt.Errorf("not built in Redis: %s; a running worker builds it, or hapctl counters rebuild", strings.Join(v.NotBuilt, ", "))
	}
	return nil
}

func repairable(drifts []account.Drift, drainIdle bool) int {
	n := 0
	for _, d := range drifts {
		if r := d.Remedy(); r == account.Mended || r == account.Doubted || r == account.DrainOnly && drainIdle {
			n++
		}
	}
	return n
}

// rebuilt is what rebuild prints.
type rebuilt struct {
	Pools    []string `json:"pools"`
	Runtimes int      `json:"runtimes"`
	Bindings int      `json:"bindings"`
	Seconds  float64  `json:"seconds"`
}

func (v rebuilt) show(w io.Writer, _ bool) {
	pairs(w, [][2]string{
		{"POOLS", cmp.Or(strings.Join(v.Pools, ","), "-")}, {"RUNTIMES", strconv.Itoa(v.Runtimes)},
		{"BINDINGS", strconv.Itoa(v.Bindings)}, {"SECONDS", strconv.FormatFloat(v.Seconds, 'f', 2, 64)},
	})
}

func newRebuild(s *shell) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Build Redis anew from ledger, labels and Shoots",
		Long: `Discard what Redis has, as if it had lost everything, and build all pools and the
directory from ledger, labels and Shoots. Until that is done nothing is assigned;
events and requests wait for it and none is lost. A running worker may do a part of
it, and all of the network ranges. It is never needed after a loss or restart of Redis: workers notice.`,
		Example: `  hapctl counters rebuild --yes`,
		Args:    arguments(cobra.NoArgs),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	timeout := cmd.Flags().Duration("timeout", auditWithin, "how long all of it may take")
	cmd.RunE = func(_ *cobra.Command, _ []string) error {
		return s.withSources(cmd.Context(), *timeout, false, func(ctx context.Context, p *sources) error {
			empty, err := s.emptied(ctx, p)
			if err != nil {
				return err
			}
			if err := s.confirm("discard what Redis has and build it anew", yes); err != nil {
				return err
			}
			if empty {
				if err := s.claim(ctx, p); err != nil {
					return err
				}
			}
			return s.rebuild(ctx, p)
		})
	}
	return cmd
}

func (s *shell) rebuild(ctx context.Context, p *sources) error {
	begin := time.Now()
	if err := p.gardener.Start(ctx); err != nil {
		return err
	}
	defer p.gardener.Stop()
	if err := p.gardener.WaitSynced(ctx); err != nil {
		return gardenerError(err)
	}
	pools, err := p.store.Pools(ctx)
	if err != nil {
		return err
	}
	tell := s.progress()
	defer tell.end()
	r := rebuild.Rebuilder{
		Builder: p.store, Inventory: countedGardener{p.gardener, tell}, Ledger: countedLedger{p.ledger, tell}, Room: p.room, Subjects: p.subjects,
		Record: p.ledger, Replicated: p.redis.Replicated(), Reconnect: p.store.Reconnect,
		Observer: observe.Observer{
			OnStep: tell.rebuilds,
			OnRebuild: func(_ context.Context, i observe.Rebuild) {
				tell.end()
				if i.Err != nil {
					s.say("rebuild: %v; trying again", i.Err)
					return
				}
				s.say("rebuild: %d pools and %d parts of the directory from %d replies, %d events sealed", len(i.Pools), i.Buckets, i.Replies, i.Sealed)
			},
		},
	}
	ranges, err := p.discard(ctx, pools)
	if err != nil {
		return err
	}
	if ranges {
		s.say("rebuild: the network ranges are discarded too: a worker that allots any builds them anew within %s", 15*time.Second)
	}
	for _, pool := range pools {
		r.Wanted(pool)
	}
	if err := r.Ensure(ctx); err != nil {
		return gardenerError(err)
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
	return s.print(v)
}

// discard takes pools, directory and network ranges out of Redis, and reports
// whether there were ranges.
func (p *sources) discard(ctx context.Context, pools []string) (ranges bool, err error) {
	places := slices.Clone(pools)
	for n := range account.Buckets {
		places = append(places, account.BucketName(n))
	}
	for _, place := range places {
		if _, err := p.store.Discard(ctx, place); err != nil {
			return false, err
		}
	}
	return blocks.New(p.store).Discard(ctx)
}

// confirm names the change and its target, and asks for consent on a terminal unless
// yes is set. Without a terminal and without yes it is a usage error.
func (s *shell) confirm(what string, yes bool) error {
	s.announce(what)
	if yes {
		return nil
	}
	if !terminal(s.stdin) {
		return usagef("%s? Say so with --yes: there is no terminal to ask on", what)
	}
	return s.ask(what)
}

// ask asks for consent on a terminal.
func (s *shell) ask(what string) error {
	fmt.Fprintf(s.stderr, "hapctl: %s? [y/N] ", what)
	answer, err := bufio.NewReader(s.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &exitError{code: exitFailure, err: errors.New("nothing was changed")}
}
