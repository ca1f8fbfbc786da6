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
	Deleting int    `json:"deleting"`

	Clusters    figure `json:"clusters"`
	Limit       int    `json:"limit,omitempty"`
	Tenants     figure `json:"tenants"`
	Waiting     figure `json:"waiting"`
	Differences figure `json:"differences"`
	// EmptyIn is how long the free accounts last if they are claimed as in the last day;
	// absent where none was claimed, or the ledger could not be read.
	EmptyIn *int64 `json:"emptyInSeconds,omitempty"`

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
	header := []string{"POOL", "FREE", "WAITING", "USED/LIMIT", "EMPTY-IN", "DIRTY", "TENANTS", "STATE"}
	if wide {
		header = append(header, "TYPE", "EU", "SHARED", "BINDINGS", "CLAIMED", "DRAINING", "INTERNAL", "CORDONED", "CLUSTERS", "LIMIT", "DIFFERENCES")
	}
	rows := make([][]string, len(v.Pools))
	for i, p := range v.Pools {
		rows[i] = p.row(wide)
	}
	table(w, header, rows)
}

func (p poolView) row(wide bool) []string {
	row := []string{
		p.Pool, p.Free.String(), p.Waiting.String(), p.used(), p.emptyIn(), p.Dirty.String(), p.Tenants.String(), p.state(),
	}
	if wide {
		limit := ""
		if p.Limit > 0 {
			limit = strconv.Itoa(p.Limit)
		}
		row = append(row, p.HyperscalerType, yes(p.EUAccess), yes(p.Shared))
		for _, n := range []any{p.Bindings, p.Claimed, p.Draining, p.Internal, p.Cordoned, p.Clusters, limit, p.Differences} {
			row = append(row, fmt.Sprint(n))
		}
	}
	return dashed(row)
}

// used is how many clusters the pool has, and how many its accounts have room for: those
// that are free, or of a tenant and not dirty.
func (p poolView) used() string {
	if p.Limit == 0 || p.Clusters.unknown {
		return p.Clusters.String()
	}
	return fmt.Sprintf("%d/%d", p.Clusters.n, p.Limit*(p.Free.n+p.Claimed.n+p.Draining.n))
}

func (p poolView) emptyIn() string {
	if p.EmptyIn == nil {
		return ""
	}
	return roughly(time.Duration(*p.EmptyIn) * time.Second)
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
	poolList{Pools: []poolView{v.poolView}}.show(w, wide)
	fmt.Fprintln(w)
	writeBindings(w, v.Accounts, wide)
}

var poolsLong = `Show the pools that Redis and Gardener know: how many accounts are free, in use,
draining, waiting to be cleaned or held back, how many clusters they carry, and for
how many tenants. If you pass a POOL, hapctl shows its accounts as 'hapctl bindings'
does.

USED/LIMIT compares the number of clusters with the number for which the accounts
have room, dirty accounts left out. EMPTY-IN estimates how long the free accounts
last if tenants claim them as fast as in the last day, judged by the newest ` + fmt.Sprint(newestMessages) + `
replies of the ledger; 'hapctl plan' forecasts better. -o wide shows all counts.

With --history, hapctl draws how many accounts of each pool were in use over the last
day, or over --since; of a shared pool, and with -o wide of every pool, it draws the
clusters. It starts from what is in use now and goes back by the replies of the
ledger. If the output is not a terminal, or NO_COLOR is set, it uses ASCII characters.

The name of a pool is the hyperscaler type, then +eu, then +shared: aws, aws+eu,
azure+shared, gcp_cf-sa30. The limits are those of --config.`

func newPools(s *shell) *cobra.Command {
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
		Args: arguments(cobra.MaximumNArgs(1)),
	}
	withNames(cmd).AddCommand(newPoolsSave(s))
	s.completeArgument(cmd, livePools)
	flags := cmd.Flags()
	flags.StringVar(&tenant, "tenant", "", "show only pools and accounts of the global account `id`")
	flags.BoolVarP(&watch.on, "watch", "w", false, "repeat until ^C; with -o json, print one document per line")
	flags.DurationVar(&watch.every, "interval", 2*time.Second, "with --watch: time between two outputs")
	flags.IntVar(&watch.count, "count", 0, "with --watch: stop after this many outputs; 0 means never")
	past.flags(flags)
	s.completeFlags(cmd)
	s.reader(cmd, "for Redis and Gardener", func(ctx context.Context, cfg *config.Config, args []string) error {
		if past.on {
			v, err := past.readPast(ctx, s, cfg, args)
			if err != nil {
				return err
			}
			return s.printSome(v, len(v.Pools), "pools")
		}
		v, err := s.readPoolView(ctx, cfg, args, tenant, &recent)
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
	watch.wrap(s, cmd, func(ctx context.Context, cfg *config.Config, args []string) (view, error) {
		return s.readPoolView(ctx, cfg, args, tenant, &recent)
	})
	past.wrap(cmd)
	return cmd
}

// readPoolView reads all pools, or the one that args name; that one is shown
// although it is not built, which is then the error.
func (s *shell) readPoolView(ctx context.Context, cfg *config.Config, args []string, tenant string, recent *claims) (view, error) {
	l, err := readLandscape(ctx, s, cfg, true)
	if err != nil {
		return nil, err
	}
	recent.read(ctx, s, cfg)
	if len(args) == 0 {
		l.sayUnbuilt(s)
		list := poolList{Pools: l.summary(tenant, termsOf(cfg))}
		for i := range list.Pools {
			list.Pools[i].EmptyIn = recent.emptyIn(&list.Pools[i])
		}
		return list, nil
	}
	detail, err := l.pool(args[0], tenant, termsOf(cfg))
	if err != nil {
		return nil, err
	}
	detail.EmptyIn = recent.emptyIn(&detail.poolView)
	if !detail.Built {
		err = notBuilt(fmt.Errorf("pool %s is not built", args[0]), cfg.Redis.URL)
	}
	return detail, err
}

// summary counts the accounts of every pool, or of those that the tenant has one in.
func (l landscape) summary(tenant string, limits terms) []poolView {
	pools := make([]poolView, 0, len(l.pools))
	from := 0
	for _, name := range slices.SortedFunc(maps.Keys(l.pools), natural) {
		for from < len(l.bindings) && natural(l.bindings[from].Pool, name) < 0 {
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
		if g.Deleting {
			p.Deleting++
		}
	}
	p.Clusters.n += v.Clusters.n
	if len(v.Differences) > 0 {
		p.Differences.n++
	}
}

func (v poolList) names() []string {
	return namesOf(v.Pools, func(p poolView) string { return p.Pool })
}

func (v poolDetail) names() []string { return bindingList{v.Accounts}.names() }
