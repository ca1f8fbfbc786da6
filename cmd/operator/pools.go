package operator

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

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/config"
)

// poolView is one pool: how many accounts it has in which state.
type poolView struct {
	Pool            string `json:"pool"`
	HyperscalerType string `json:"hyperscalerType"`
	EUAccess        bool   `json:"euAccess"`
	Shared          bool   `json:"shared"`
	Built           bool   `json:"built"`
	Paused          bool   `json:"paused"`

	Bindings int    `json:"bindings"`
	Free     figure `json:"free"`
	Claimed  figure `json:"claimed"`
	Draining figure `json:"draining"`
	Dirty    figure `json:"dirty"`
	Internal int    `json:"internal"`
	Cordoned int    `json:"cordoned"`

	Clusters    figure `json:"clusters"`
	Limit       int    `json:"limit,omitempty"`
	Tenants     figure `json:"tenants"`
	Waiting     figure `json:"waiting"`
	Differences figure `json:"differences"`

	Standings map[account.State]int `json:"standings"`
}

// figure is a count that may not be known, as where the pool is not built.
type figure struct {
	n       int
	unknown bool
}

// MarshalJSON writes null for what is not known.
func (n figure) MarshalJSON() ([]byte, error) {
	if n.unknown {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(n.n), 10), nil
}

func (n figure) String() string { return n.ofLimit(0) }

// ofLimit is the number with the limit that it is held against, 0 for none.
func (n figure) ofLimit(limit int) string {
	if n.unknown {
		return "–"
	}
	return ofLimit(n.n, limit)
}

type poolList struct {
	Pools []poolView `json:"pools"`
}

func (v poolList) show(w io.Writer, wide bool) {
	header := []string{"POOL", "TYPE", "EU", "SHARED", "BINDINGS", "FREE", "CLAIMED", "DRAINING", "DIRTY", "INTERNAL", "CORDONED", "CLUSTERS", "TENANTS"}
	if wide {
		header = append(header, "LIMIT", "WAITING", "STATE", "DIFFERENCES")
	}
	rows := make([][]string, len(v.Pools))
	for i, p := range v.Pools {
		rows[i] = p.row(wide)
	}
	table(w, header, rows)
}

func (p poolView) row(wide bool) []string {
	row := []string{p.Pool, p.HyperscalerType, yes(p.EUAccess), yes(p.Shared)}
	for _, n := range []any{p.Bindings, p.Free, p.Claimed, p.Draining, p.Dirty, p.Internal, p.Cordoned, p.Clusters, p.Tenants} {
		row = append(row, fmt.Sprint(n))
	}
	if wide {
		limit := ""
		if p.Limit > 0 {
			limit = strconv.Itoa(p.Limit)
		}
		row = append(row, limit, p.Waiting.String(), p.state(), p.Differences.String())
	}
	return dashed(row)
}

func (p poolView) state() string {
	switch {
	case !p.Built:
		return "not built"
	case p.Paused:
		return "paused"
	default:
		return "open"
	}
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

// poolDetail is one pool with its accounts.
type poolDetail struct {
	poolView
	Accounts []bindingView `json:"accounts"`
}

func (v poolDetail) show(w io.Writer, wide bool) {
	poolList{Pools: []poolView{v.poolView}}.show(w, true)
	fmt.Fprintln(w)
	writeBindings(w, v.Accounts, wide)
}

func newPools(s *shell) *cobra.Command {
	var tenant string
	var watch watching
	cmd := &cobra.Command{
		Use:   "pools [POOL]",
		Short: "Show the pools of accounts, or one of them with its accounts",
		Long: `Show the pools that Redis and Gardener know: how many accounts are free, in use,
draining, to be cleaned or held back, how many clusters they carry and for how
many tenants. With a pool, show its accounts as 'hapctl bindings' does.

A pool's name is the hyperscaler type, then +eu, then +shared: aws, aws+eu,
azure+shared, gcp_cf-sa30. Limits are those of --config.`,
		Example: `  hapctl pools
  hapctl pools --watch
  hapctl pools aws+eu -o wide`,
		Args: arguments(cobra.MaximumNArgs(1)),
	}
	cmd.AddCommand(newPoolsSave(s))
	flags := cmd.Flags()
	flags.StringVar(&tenant, "tenant", "", "only pools, and accounts, of the global account `id`")
	flags.BoolVarP(&watch.on, "watch", "w", false, "show them again and again, until ^C; with -o json one document a line")
	flags.DurationVar(&watch.every, "interval", 2*time.Second, "with --watch: how often")
	flags.IntVar(&watch.count, "count", 0, "with --watch: end after so many times; 0 is never")
	s.reader(cmd, "for Redis and Gardener", func(ctx context.Context, cfg *config.Config, args []string) error {
		v, err := s.readPoolView(ctx, cfg, args, tenant)
		if list, is := v.(poolList); is {
			return errors.Join(err, s.printSome(list, len(list.Pools), "pools"))
		}
		if v != nil {
			if printing := s.print(v); printing != nil {
				return printing
			}
		}
		return err
	})
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := watch.check(cmd.Flags().Changed); err != nil {
			return err
		}
		if !watch.on {
			return once(cmd, args)
		}
		timeout, err := cmd.Flags().GetDuration("timeout")
		if err != nil || timeout <= 0 {
			return usagef("--timeout is %s, must be positive", timeout)
		}
		cfg, err := s.connections.settings()
		if err != nil {
			return err
		}
		return watch.run(cmd.Context(), s, cfg, timeout, func(ctx context.Context, cfg *config.Config) (view, error) {
			return s.readPoolView(ctx, cfg, args, tenant)
		})
	}
	return cmd
}

// readPoolView reads all pools, or the one that args name; that one is shown
// although it is not built, which is then the error.
func (s *shell) readPoolView(ctx context.Context, cfg *config.Config, args []string, tenant string) (view, error) {
	l, err := readLandscape(ctx, s, cfg, true)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		l.sayUnbuilt(s)
		return poolList{Pools: l.summary(tenant, termsOf(cfg))}, nil
	}
	detail, err := l.pool(args[0], tenant, termsOf(cfg))
	if err != nil {
		return nil, err
	}
	if !detail.Built {
		err = notBuilt(fmt.Errorf("pool %s is not built", args[0]), cfg.Redis.URL)
	}
	return detail, err
}

// summary counts the accounts of every pool, or of those that the tenant has one in.
func (l landscape) summary(tenant string, limits terms) []poolView {
	pools := make([]poolView, 0, len(l.pools))
	from := 0
	for _, name := range slices.Sorted(maps.Keys(l.pools)) {
		for from < len(l.bindings) && l.bindings[from].Pool < name {
			from++
		}
		to := from
		for to < len(l.bindings) && l.bindings[to].Pool == name {
			to++
		}
		if of := l.bindings[from:to]; tenant == "" || slices.ContainsFunc(of, ofTenant(tenant)) {
			pools = append(pools, l.count(name, of, limits))
		}
	}
	return pools
}

func ofTenant(tenant string) func(bindingView) bool {
	return func(v bindingView) bool {
		return v.Redis != nil && v.Redis.Tenant == tenant || v.Gardener != nil && v.Gardener.Tenant == tenant
	}
}

func (l landscape) pool(name, tenant string, limits terms) (poolDetail, error) {
	if _, known := l.pools[name]; !known {
		return poolDetail{}, fmt.Errorf("there is no pool %s, neither in Redis nor by a label; see hapctl pools for those that exist", name)
	}
	of := slices.DeleteFunc(slices.Clone(l.bindings), func(v bindingView) bool { return v.Pool != name })
	detail := poolDetail{poolView: l.count(name, of, limits), Accounts: of}
	if tenant != "" {
		mine := ofTenant(tenant)
		detail.Accounts = slices.DeleteFunc(of, func(v bindingView) bool { return !mine(v) })
	}
	return detail, nil
}

func (l landscape) count(name string, of []bindingView, limits terms) poolView {
	status := l.pools[name]
	pool := engine.ParsePool(name)
	p := poolView{
		Pool: name, HyperscalerType: pool.HyperscalerType, EUAccess: pool.EUAccess, Shared: pool.Shared,
		Built: status.Built, Paused: status.Paused, Limit: limits.ofPool(pool), Standings: map[account.State]int{},
	}
	tenants := map[string]bool{}
	maps.Copy(tenants, l.guests[name])
	for i := range of {
		p.count(&of[i])
		if tenant := of[i].tenant(); tenant != "" {
			tenants[tenant] = true
		}
	}
	p.Tenants.n, p.Waiting.n = len(tenants), status.Waiting
	for _, n := range []*figure{&p.Free, &p.Claimed, &p.Draining, &p.Dirty, &p.Clusters, &p.Tenants, &p.Waiting, &p.Differences} {
		n.unknown = !p.Built
	}
	return p
}

func (p *poolView) count(v *bindingView) {
	p.Standings[v.Standing]++
	switch account.State(v.State) {
	case account.Free, account.Common:
		p.Free.n++
	case account.Claiming, account.InUse, stateLabelled:
		p.Claimed.n++
	case account.Draining:
		p.Draining.n++
	case account.Dirty, account.Dirtying:
		p.Dirty.n++
	}
	if g := v.Gardener; g != nil {
		p.Bindings++
		if g.Internal {
			p.Internal++
		}
		if g.Cordoned {
			p.Cordoned++
		}
	}
	p.Clusters.n += v.Clusters.n
	if len(v.Differences) > 0 {
		p.Differences.n++
	}
}
