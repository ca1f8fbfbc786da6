package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/natural"
	"github.com/hap-worker/hap-worker/worker/config"
)

// PoolView is one pool, with the number of its accounts in each state.
type PoolView struct {
	Pool            string `json:"pool"`
	HyperscalerType string `json:"hyperscalerType"`
	EUAccess        bool   `json:"euAccess"`
	Shared          bool   `json:"shared"`
	Built           bool   `json:"built"`
	Paused          bool   `json:"paused"`

	Bindings int         `json:"bindings"`
	Free     view.Figure `json:"free"`
	Claimed  view.Figure `json:"claimed"`
	Draining view.Figure `json:"draining"`
	Dirty    view.Figure `json:"dirty"`
	Internal int         `json:"internal"`
	Cordoned int         `json:"cordoned"`
	Deleting int         `json:"deleting"`
	// Duplicates is the number of bindings that refer to the Secret of another one, claimed or not.
	Duplicates int `json:"duplicates"`

	Clusters    view.Figure `json:"clusters"`
	Limit       int         `json:"limit,omitempty"`
	Tenants     view.Figure `json:"tenants"`
	Waiting     view.Figure `json:"waiting"`
	Differences view.Figure `json:"differences"`
	// EmptyIn is how long the free accounts last if they are claimed as fast as in the last day; nil if none was
	// claimed, for a shared pool, and if Redis or the ledger does not say it.
	EmptyIn *int64 `json:"emptyInSeconds,omitempty"`

	Standings map[account.State]int `json:"standings"`
}

type poolList struct {
	Pools []PoolView `json:"pools"`
}

func (v poolList) Show(w io.Writer, wide bool) {
	header := []string{"POOL", "FREE", "WAITING", "USED/LIMIT", "EMPTY-IN", "DIRTY", "TENANTS", "STATE"}
	if wide {
		header = append(header, "TYPE", "EU", "SHARED", "BINDINGS", "CLAIMED", "DRAINING", "INTERNAL", "CORDONED", "CLUSTERS", "LIMIT", "DIFFERENCES")
	}
	rows := make([][]string, len(v.Pools))
	for i, p := range v.Pools {
		rows[i] = p.row(wide)
	}
	cli.Table(w, header, rows)
}

func (p PoolView) row(wide bool) []string {
	row := []string{
		p.Pool, p.Free.String(), p.Waiting.String(), p.used(), p.emptyIn(), p.Dirty.String(), p.Tenants.String(), p.state(),
	}
	if wide {
		limit := ""
		if p.Limit > 0 {
			limit = strconv.Itoa(p.Limit)
		}
		row = append(row, p.HyperscalerType, cli.Yes(p.EUAccess), cli.Yes(p.Shared))
		for _, n := range []any{p.Bindings, p.Claimed, p.Draining, p.Internal, p.Cordoned, p.Clusters, limit, p.Differences} {
			row = append(row, fmt.Sprint(n))
		}
	}
	return cli.Dashed(row)
}

// used returns the number of clusters of the pool and, if there is a limit, after a slash the number that its
// free, claimed and draining accounts can carry.
func (p PoolView) used() string {
	if p.Limit == 0 || p.Clusters.Unknown {
		return p.Clusters.String()
	}
	return fmt.Sprintf("%d/%d", p.Clusters.N, p.Limit*(p.Free.N+p.Claimed.N+p.Draining.N))
}

func (p PoolView) emptyIn() string {
	if p.EmptyIn == nil {
		return ""
	}
	return roughly(time.Duration(*p.EmptyIn) * time.Second)
}

func (p PoolView) state() string {
	switch {
	case !p.Built:
		return "not built"
	case p.Paused:
		return "paused"
	default:
		return "open"
	}
}

// poolDetail is one pool with its accounts.
type poolDetail struct {
	PoolView
	Accounts []view.Binding `json:"accounts"`
}

func (v poolDetail) Show(w io.Writer, wide bool) {
	poolList{Pools: []PoolView{v.PoolView}}.Show(w, wide)
	fmt.Fprintln(w)
	view.WriteBindings(w, v.Accounts, wide)
}

var poolsLong = `Show the pools that Redis and Gardener know: how many accounts are free, in use,
draining, waiting to be cleaned or held back, how many clusters they carry, and for
how many tenants. If you pass a POOL, hapctl shows its accounts as 'hapctl bindings'
does.

USED/LIMIT compares the number of clusters with the number for which the free,
claimed and draining accounts have room. EMPTY-IN estimates how long the free
accounts last if tenants claim them as fast as in the last day, judged by the newest
` + fmt.Sprint(newestMessages) + ` replies of the ledger; 'hapctl plan' forecasts better. -o wide shows all counts.

With --history, hapctl draws how many accounts of each pool were in use over the last
day, or over --since; of a shared pool, and with -o wide of every pool, it draws the
clusters. It starts from what is in use now and goes back by the replies of the
ledger. If the output is not a terminal, or NO_COLOR is set, it uses ASCII characters.

The name of a pool is the hyperscaler type, then +eu, then +shared: aws, aws+eu,
azure+shared, gcp_cf-sa30. The limits are those of --config.`

// NewPools returns the command hapctl pools.
func NewPools(s *cli.Shell) *cobra.Command {
	var tenant string
	var watch watching
	var past lookingBack
	var recent claims
	cmd := &cobra.Command{
		Use:   "pools [POOL]",
		Short: "Show pools, or the accounts of one pool",
		Long:  poolsLong,
		Example: `  hapctl pools
  hapctl pools --watch
  hapctl pools aws+eu -o wide
  hapctl pools aws --history --since 30d`,
		Args: cli.Arguments(cobra.MaximumNArgs(1)),
	}
	cli.WithNames(cmd).AddCommand(newPoolsSave(s))
	s.CompleteArgument(cmd, cli.LivePools)
	flags := cmd.Flags()
	flags.StringVar(&tenant, "tenant", "", "show only pools and accounts of the global account `id`")
	flags.BoolVarP(&watch.on, "watch", "w", false, "repeat until ^C; with -o json, print one document per line")
	flags.DurationVar(&watch.every, "interval", 2*time.Second, "with --watch: time between two outputs")
	flags.IntVar(&watch.count, "count", 0, "with --watch: stop after this many outputs; 0 means never")
	past.flags(flags)
	s.CompleteFlags(cmd)
	s.Reader(cmd, "for Redis and Gardener", func(ctx context.Context, cfg *config.Config, args []string) error {
		if past.on {
			v, err := past.readPast(ctx, s, cfg, args)
			if err != nil {
				return err
			}
			return s.PrintSome(v, len(v.Pools), "pools")
		}
		v, err := readPoolView(ctx, s, cfg, args, tenant, &recent)
		if list, is := v.(poolList); is {
			return errors.Join(err, s.PrintSome(list, len(list.Pools), "pools"))
		}
		if v != nil {
			if printing := s.Print(v); printing != nil {
				return printing
			}
		}
		return err
	})
	watch.wrap(s, cmd, func(ctx context.Context, cfg *config.Config, args []string) (cli.View, error) {
		return readPoolView(ctx, s, cfg, args, tenant, &recent)
	})
	past.wrap(cmd)
	return cmd
}

// readPoolView reads all pools, or the pool that args name. If that pool is not built, it returns both its
// view and an error.
func readPoolView(ctx context.Context, s *cli.Shell, cfg *config.Config, args []string, tenant string, recent *claims) (cli.View, error) {
	l, err := view.ReadLandscape(ctx, s, cfg, true)
	if err != nil {
		return nil, err
	}
	if err := recent.read(ctx, s, cfg); err != nil {
		return nil, err
	}
	if len(args) == 0 {
		l.SayUnbuilt(s)
		list := poolList{Pools: summarize(l, tenant, view.TermsOf(cfg))}
		for i := range list.Pools {
			list.Pools[i].EmptyIn = recent.emptyIn(&list.Pools[i])
		}
		return list, nil
	}
	detail, err := poolOf(l, args[0], tenant, view.TermsOf(cfg))
	if err != nil {
		return nil, err
	}
	detail.EmptyIn = recent.emptyIn(&detail.PoolView)
	if !detail.Built {
		err = cli.NotBuilt(fmt.Errorf("pool %s is not built", args[0]), cfg.Redis.URL)
	}
	return detail, err
}

// summarize counts the accounts of every pool, or of the pools in which the tenant has one.
func summarize(l view.Landscape, tenant string, limits view.Terms) []PoolView {
	pools := make([]PoolView, 0, len(l.Pools))
	from := 0
	for _, name := range slices.SortedFunc(maps.Keys(l.Pools), natural.Compare) {
		for from < len(l.Bindings) && natural.Compare(l.Bindings[from].Pool, name) < 0 {
			from++
		}
		to := from
		for to < len(l.Bindings) && l.Bindings[to].Pool == name {
			to++
		}
		if of := l.Bindings[from:to]; tenant == "" || slices.ContainsFunc(of, ofTenant(tenant)) {
			pools = append(pools, countPool(l, name, of, limits))
		}
	}
	return pools
}

func ofTenant(tenant string) func(view.Binding) bool {
	return func(v view.Binding) bool {
		return v.Redis != nil && v.Redis.Tenant == tenant || v.Gardener != nil && v.Gardener.Tenant == tenant
	}
}

func poolOf(l view.Landscape, name, tenant string, limits view.Terms) (poolDetail, error) {
	if _, known := l.Pools[name]; !known {
		return poolDetail{}, fmt.Errorf("there is no pool %s, neither in Redis nor by a label; see hapctl pools for those that exist", name)
	}
	of := slices.DeleteFunc(slices.Clone(l.Bindings), func(v view.Binding) bool { return v.Pool != name })
	detail := poolDetail{PoolView: countPool(l, name, of, limits), Accounts: of}
	if tenant != "" {
		mine := ofTenant(tenant)
		detail.Accounts = slices.DeleteFunc(of, func(v view.Binding) bool { return !mine(v) })
	}
	return detail, nil
}

func countPool(l view.Landscape, name string, of []view.Binding, limits view.Terms) PoolView {
	status := l.Pools[name]
	pool := engine.ParsePool(name)
	p := PoolView{
		Pool: name, HyperscalerType: pool.HyperscalerType, EUAccess: pool.EUAccess, Shared: pool.Shared,
		Built: status.Built, Paused: status.Paused, Limit: limits.OfPool(pool), Standings: map[account.State]int{},
	}
	tenants := map[string]bool{}
	maps.Copy(tenants, l.Guests[name])
	for i := range of {
		p.Count(&of[i])
		if tenant := of[i].Tenant(); tenant != "" {
			tenants[tenant] = true
		}
	}
	p.Tenants.N, p.Waiting.N = len(tenants), status.Waiting
	for _, n := range []*view.Figure{&p.Free, &p.Claimed, &p.Draining, &p.Dirty, &p.Clusters, &p.Tenants, &p.Waiting, &p.Differences} {
		n.Unknown = !p.Built
	}
	return p
}

// Count adds one account to the counts.
func (p *PoolView) Count(v *view.Binding) {
	p.Standings[v.Standing]++
	switch account.State(v.State) {
	case account.Free, account.Common:
		p.Free.N++
	case account.Claiming, account.InUse, view.StateLabelled:
		p.Claimed.N++
	case account.Draining:
		p.Draining.N++
	case account.Dirty, account.Dirtying:
		p.Dirty.N++
	}
	if g := v.Gardener; g != nil {
		p.Bindings++
		if g.Internal {
			p.Internal++
		}
		if g.Cordoned {
			p.Cordoned++
		}
		if g.Deleting {
			p.Deleting++
		}
		if g.SameSecretAs != "" {
			p.Duplicates++
		}
	}
	p.Clusters.N += v.Clusters.N
	if len(v.Differences) > 0 {
		p.Differences.N++
	}
}

func (v poolList) Names() []string {
	return cli.NamesOf(v.Pools, func(p PoolView) string { return p.Pool })
}

func (v poolDetail) Names() []string { return bindingList{v.Accounts}.Names() }
