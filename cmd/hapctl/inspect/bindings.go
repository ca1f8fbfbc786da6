package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/config"
)

type bindingList struct {
	Bindings []view.Binding `json:"bindings"`
}

func (v bindingList) Show(w io.Writer, wide bool) { view.WriteBindings(w, v.Bindings, wide) }

// bindingDetail is one account with its runtimes.
type bindingDetail struct {
	view.Binding
	Runtimes []runtimeView `json:"runtimes"`
}

func (v bindingDetail) Show(w io.Writer, wide bool) {
	lines := [][2]string{
		{"BINDING", v.Name}, {"POOL", v.Pool}, {"STATE", v.State}, {"STANDING", string(v.Standing)}, {"MARKS", v.Marks()}, {"CLUSTERS", v.Clusters.OfLimit(v.Limit)},
	}
	if wide && v.Gardener != nil {
		lines = append(lines, [2]string{"KIND", v.Gardener.Kind}, [2]string{"NAMESPACE", v.Gardener.Namespace},
			[2]string{"EPOCH", v.Gardener.Epoch}, [2]string{"RELEASED BY", v.Gardener.ReleasedBy})
	}
	for _, text := range v.Differences {
		lines = append(lines, cli.FoldedPair("DIFFERENCE", text)...)
	}
	cli.Pairs(w, lines)
	fmt.Fprintln(w)
	cli.Table(w, []string{"SIDE", "STATE", "TENANT", "GENERATION", "CONFIRMED"}, v.sides())
	if len(v.Runtimes) > 0 {
		fmt.Fprintln(w)
		writeRuntimes(w, v.Runtimes, wide)
	}
}

// sides returns a row for Redis and a row for Gardener.
func (v bindingDetail) sides() [][]string {
	redis, labels := []string{"redis", "not built", "", "", ""}, []string{"gardener", string(account.Missing), "", "", ""}
	if r := v.Redis; r != nil {
		redis = []string{"redis", string(r.State), r.Tenant, strconv.FormatInt(r.Generation, 10), strconv.FormatBool(r.Confirmed)}
	}
	if g := v.Gardener; g != nil {
		labels = []string{"gardener", cmp.Or(v.Marks(), "clean"), g.Tenant, strconv.FormatInt(g.Generation, 10), ""}
	}
	return [][]string{cli.Dashed(redis), cli.Dashed(labels)}
}

// bindingFilter selects accounts. An empty field selects all.
type bindingFilter struct {
	pool, tenant, state string
	different           bool
}

func (f bindingFilter) takes(v view.Binding) bool {
	return (f.pool == "" || v.Pool == f.pool) && (f.tenant == "" || ofTenant(f.tenant)(v)) &&
		(f.state == "" || v.State == f.state || string(v.Standing) == f.state) && (!f.different || len(v.Differences) > 0)
}

// NewBindings returns the command hapctl bindings.
func NewBindings(s *cli.Shell) *cobra.Command {
	var f bindingFilter
	state := cli.Choice{Of: cli.Words(account.Free, account.Claiming, account.InUse, account.Draining, account.Dirtying, account.Dirty,
		account.Internal, account.Cordoned, account.Deleting, account.Duplicate, account.Common, account.Held, account.Missing, account.Unknown, view.StateLabelled)}
	cmd := &cobra.Command{
		Use:   "bindings [NAME]",
		Short: "Show accounts as Redis and Gardener record them",
		Long: `Show each account with its tenant (from Redis, or from the label if Redis has none),
followed by the differences between Redis and Gardener. In -o wide, TENANT,
GENERATION, CONFIRMED and CLUSTERS come from Redis; LABEL and MARKS come from
Gardener. If you pass a NAME, hapctl shows that account and its runtimes.

STANDING is the state of the account. Metrics and the page use the same words:

- free: no tenant has it
- claiming: a worker has assigned it to a tenant, and has not confirmed the label yet
- claimed: it belongs to a tenant
- draining: it has no clusters; its tenant may still use it again
- dirtying: a worker is about to mark it dirty
- dirty: it has to be cleaned
- internal, cordoned: no tenant has it, and its label says so
- shared: its label says so
- deleting: it was deleted in Gardener, and stays until its finalizers are gone
- duplicate: it refers to the Secret of another account, MARKS says of which
- held: it has runtimes, but no label accounts for them
- missing: Gardener has no such account in this pool
- unknown: the pool is not built

STATE differs in some cases. labelled: the label names a tenant that Redis does not
know yet; STANDING says claimed. held: STATE also uses it for internal, cordoned,
deleting and duplicate accounts. Of a missing account that another pool has, STATE is
that of its record, and of an unknown one dirty or shared if its label says so.

A difference may disappear by itself while a worker processes the account. A
difference that stays is drift; run 'hapctl counters verify' to check it.`,
		Example: `  hapctl bindings --pool aws --state dirty
  hapctl bindings --different
  hapctl bindings aws-7 -o json`,
		Args: cli.RowOrFlags("NAME", "pool", "tenant", "state", "different"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.pool, "pool", "", "show only accounts of the `pool`")
	flags.StringVar(&f.tenant, "tenant", "", "show only accounts of the global account `id`, by Redis or by label")
	state.Flag(cmd, "state", "show only accounts in the `state`, by STANDING or by STATE")
	flags.BoolVar(&f.different, "different", false, "show only accounts for which Redis and Gardener differ")
	s.CompleteFlags(cmd)
	s.CompleteArgument(cmd, cli.LiveAccounts)
	return s.Reader(cli.WithNames(cmd), "for Redis and Gardener", func(ctx context.Context, cfg *config.Config, args []string) error {
		f.state = state.Taken
		if len(args) == 1 {
			return showBinding(ctx, s, cfg, args[0])
		}
		l, err := view.ReadLandscape(ctx, s, cfg, false)
		if err != nil {
			return err
		}
		l.SayUnbuilt(s)
		list := bindingList{slices.DeleteFunc(l.Bindings, func(v view.Binding) bool { return !f.takes(v) })}
		return s.PrintSome(list, len(list.Bindings), "bindings")
	})
}

// showBinding shows one account.
func showBinding(ctx context.Context, s *cli.Shell, cfg *config.Config, name string) error {
	detail, known, err := readBinding(ctx, s, cfg, name, runtimeFilter{binding: name, state: string(account.RuntimeAssigned)})
	if err != nil {
		return err
	}
	if !known {
		return s.Unknown(unknownBinding(name))
	}
	return s.Print(detail)
}

func unknownBinding(name string) *engine.Error {
	return &engine.Error{
		Code: engine.CodeUnknownBinding, Err: fmt.Errorf("neither Gardener nor Redis has a binding %s", name),
		Hint: "see hapctl bindings for those that exist",
	}
}

// readBinding reads one account, with the runtimes of its pool that the filter selects.
func readBinding(ctx context.Context, s *cli.Shell, cfg *config.Config, name string, f runtimeFilter) (detail bindingDetail, known bool, err error) {
	client, tell, err := cli.OpenGardener(ctx, s, cfg.Gardener)
	if err != nil {
		return detail, false, err
	}
	defer tell()
	store, err := cli.OpenRedis(ctx, s, cfg)
	if err != nil {
		return detail, false, err
	}
	var labelled []engine.Binding
	b, err := client.Find(ctx, name)
	switch {
	case err == nil:
		labelled = append(labelled, b)
	case engine.CodeOf(err) != engine.CodeUnknownBinding:
		return detail, false, cli.GardenerError(err)
	}
	r, err := recordsOf(ctx, store, name, labelled)
	if err != nil {
		return detail, false, err
	}
	found := view.SideBySide(r, labelled, view.TermsOf(cfg)).Bindings
	if len(found) == 0 {
		return detail, false, nil
	}
	// The binding has a second row if Redis has a record in a pool that the labels do not name. Show the row
	// with differences or more clusters.
	detail = bindingDetail{Binding: found[0], Runtimes: []runtimeView{}}
	for _, v := range found {
		if len(v.Differences) > 0 || v.Clusters.N > detail.Clusters.N {
			detail.Binding = v
			break
		}
	}
	detail.Runtimes, _, err = readRuntimes(ctx, store, []string{detail.Pool}, f)
	return detail, true, err
}

// recordsOf reads the records of one binding in all pools of Redis and in those that labels name. It leaves out
// records that say free and count no clusters: these stand for none.
func recordsOf(ctx context.Context, store *counters.Store, name string, labelled []engine.Binding) (view.Records, error) {
	r := view.Records{Known: map[view.Place]account.Record{}, Pools: map[string]account.Status{}}
	pools, err := store.Pools(ctx)
	if err != nil {
		return r, err
	}
	for _, b := range labelled {
		if !slices.Contains(pools, b.Pool().Name()) {
			pools = append(pools, b.Pool().Name())
		}
	}
	var mu sync.Mutex
	return r, view.EachPool(ctx, pools, func(ctx context.Context, _ int, pool string) error {
		rec, err := store.Binding(ctx, pool, name)
		if err != nil && !errors.Is(err, account.ErrNotBuilt) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		r.Pools[pool] = account.Status{Built: err == nil}
		if err == nil && (rec.State != account.Free || rec.Count > 0) {
			r.Known[view.Place{Pool: pool, Binding: name}] = rec
		}
		return nil
	})
}

func (v bindingList) Names() []string {
	return cli.NamesOf(v.Bindings, func(b view.Binding) string { return b.Name })
}

func (v bindingDetail) Names() []string { return []string{v.Name} }
