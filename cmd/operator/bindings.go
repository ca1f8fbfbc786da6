package operator

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

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/config"
)

type bindingList struct {
	Bindings []bindingView `json:"bindings"`
}

func (v bindingList) show(w io.Writer, wide bool) { writeBindings(w, v.Bindings, wide) }

// bindingDetail is one account with the runtimes on it.
type bindingDetail struct {
	bindingView
	Runtimes []runtimeView `json:"runtimes"`
}

func (v bindingDetail) show(w io.Writer, wide bool) {
	lines := [][2]string{
		{"BINDING", v.Name}, {"POOL", v.Pool}, {"STATE", v.State}, {"STANDING", string(v.Standing)}, {"MARKS", v.marks()}, {"CLUSTERS", v.Clusters.ofLimit(v.Limit)},
	}
	if wide && v.Gardener != nil {
		lines = append(lines, [2]string{"KIND", v.Gardener.Kind}, [2]string{"NAMESPACE", v.Gardener.Namespace},
			[2]string{"EPOCH", v.Gardener.Epoch}, [2]string{"RELEASED BY", v.Gardener.ReleasedBy})
	}
	for _, text := range v.Differences {
		lines = append(lines, [2]string{"DIFFERENCE", text})
	}
	pairs(w, lines)
	fmt.Fprintln(w)
	table(w, []string{"SIDE", "STATE", "TENANT", "GENERATION", "CONFIRMED"}, v.sides())
	if len(v.Runtimes) > 0 {
		fmt.Fprintln(w)
		writeRuntimes(w, v.Runtimes, wide)
	}
}

// sides are what Redis and Gardener say, a row each.
func (v bindingDetail) sides() [][]string {
	redis, labels := []string{"redis", "not built", "", "", ""}, []string{"gardener", string(account.Missing), "", "", ""}
	if r := v.Redis; r != nil {
		redis = []string{"redis", string(r.State), r.Tenant, strconv.FormatInt(r.Generation, 10), strconv.FormatBool(r.Confirmed)}
	}
	if g := v.Gardener; g != nil {
		labels = []string{"gardener", cmp.Or(v.marks(), "clean"), g.Tenant, strconv.FormatInt(g.Generation, 10), ""}
	}
	return [][]string{dashed(redis), dashed(labels)}
}

// bindingFilter is what rows are chosen by.
type bindingFilter struct {
	pool, tenant, state string
	different           bool
}

func (f bindingFilter) takes(v bindingView) bool {
	return (f.pool == "" || v.Pool == f.pool) && (f.tenant == "" || ofTenant(f.tenant)(v)) &&
		(f.state == "" || v.State == f.state || string(v.Standing) == f.state) && (!f.different || len(v.Differences) > 0)
}

func newBindings(s *shell) *cobra.Command {
	var f bindingFilter
	state := choice{of: words(account.Free, account.Claiming, account.InUse, account.Draining, account.Dirtying, account.Dirty,
		account.Internal, account.Cordoned, account.Common, account.Held, account.Missing, account.Unknown, stateLabelled)}
	cmd := &cobra.Command{
		Use:   "bindings [NAME]",
		Short: "Show the accounts as Redis and as Gardener has them, side by side",
		Long: `Show the accounts: TENANT, GENERATION, CONFIRMED and CLUSTERS are what Redis has,
LABEL and MARKS what Gardener has; DIFFERENCE says where the two are not alike.
With a name, show one of them with the runtimes on it.

STANDING is the state of an account, the same word as in metrics and on the page:
free; claiming (taken, label not confirmed); claimed; draining (empty, may be
revived); dirtying and dirty (to be cleaned); internal; cordoned; shared; held
(runtimes are on it that no label accounts for); missing (not in Gardener's pool);
unknown (the pool is not built). STATE is the same but for labelled (a tenant's by
its label, not known to Redis yet: claimed) and held (internal and cordoned, too).

A difference may be one of the moment, while a worker is at it; what stays is
drift, which 'hapctl counters verify' looks into.`,
		Example: `  hapctl bindings --pool aws --state dirty
  hapctl bindings --different
  hapctl bindings aws-7 -o json`,
		Args: arguments(cobra.MaximumNArgs(1)),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.pool, "pool", "", "only those of the `pool`")
	flags.StringVar(&f.tenant, "tenant", "", "only those of the global account `id`, by Redis or by label")
	state.flag(cmd, "state", "only those in the `state`, by STANDING or by STATE")
	flags.BoolVar(&f.different, "different", false, "only those where Redis and Gardener differ")
	return s.reader(cmd, "for Redis and Gardener", func(ctx context.Context, cfg *config.Config, args []string) error {
		f.state = state.taken
		if len(args) == 1 {
			return s.binding(ctx, cfg, args[0])
		}
		l, err := readLandscape(ctx, s, cfg, false)
		if err != nil {
			return err
		}
		l.sayUnbuilt(s)
		list := bindingList{slices.DeleteFunc(l.bindings, func(v bindingView) bool { return !f.takes(v) })}
		return s.printSome(list, len(list.Bindings), "bindings")
	})
}

// binding shows one account.
func (s *shell) binding(ctx context.Context, cfg *config.Config, name string) error {
	client, tell, err := openGardener(ctx, s, cfg.Gardener)
	if err != nil {
		return err
	}
	defer tell()
	store, err := openRedis(ctx, s, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	var labelled []engine.Binding
	b, err := client.Get(ctx, name)
	switch {
	case err == nil:
		labelled = append(labelled, b)
	case engine.CodeOf(err) != engine.CodeUnknownBinding:
		return gardenerError(err)
	}
	r, err := recordsOf(ctx, store, name, labelled)
	if err != nil {
		return err
	}
	found := sideBySide(r, labelled, termsOf(cfg)).bindings
	if len(found) == 0 {
		return s.unknown(&engine.Error{
			Code: engine.CodeUnknownBinding, Err: fmt.Errorf("neither Gardener nor Redis has a binding %s", name),
			Hint: "see hapctl bindings for those that exist",
		})
	}
	// A record in a pool that the labels do not name is what the labels' row lacks.
	detail := bindingDetail{bindingView: found[0], Runtimes: []runtimeView{}}
	for _, v := range found {
		if len(v.Differences) > 0 || v.Clusters.n > detail.Clusters.n {
			detail.bindingView = v
			break
		}
	}
	runtimes, err := readRuntimes(ctx, store, []string{detail.Pool}, runtimeFilter{binding: name, state: string(account.RuntimeAssigned)})
	if err != nil {
		return err
	}
	detail.Runtimes = append(detail.Runtimes, runtimes...)
	return s.print(detail)
}

// recordsOf reads the records of one binding in whatever pool.
func recordsOf(ctx context.Context, store *counters.Store, name string, labelled []engine.Binding) (records, error) {
	r := records{known: map[place]account.Record{}, pools: map[string]account.Status{}}
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
	return r, eachPool(ctx, pools, func(ctx context.Context, _ int, pool string) error {
		rec, err := store.Binding(ctx, pool, name)
		if err != nil && !errors.Is(err, account.ErrNotBuilt) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		r.pools[pool] = account.Status{Built: err == nil}
		if err == nil && rec.State != account.Free {
			r.known[place{pool, name}] = rec
		}
		return nil
	})
}
