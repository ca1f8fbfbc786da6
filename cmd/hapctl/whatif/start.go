package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/simulate"
)

// mostStarted is the greatest number of clusters with which a simulation begins.
const mostStarted = 100_000

// startFlags describe a pool by flags, instead of reading one.
type startFlags struct {
	tenants []string
	request rule.Request // the request that the pool serves
}

func (f *startFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.tenants, "start", nil, "`tenant` and the clusters on its accounts, such as 'ga-1: A=200,B=150'; replaces the current pools; can be repeated")
	flags.StringVar(&f.request.Plan, "plan", "aws", "with --start: `plan` that the pool serves")
	flags.StringVar(&f.request.PlatformRegion, "platform-region", "", "with --start: platform `region` that the pool serves")
	flags.StringVar(&f.request.HyperscalerRegion, "hyperscaler-region", "", "with --start: hyperscaler `region` that the pool serves")
	cli.MustRegister(cmd, "plan", cobra.FixedCompletions(cli.PlanNames(), cobra.ShellCompDirectiveNoFileComp))
}

// startedTenant is a tenant with its accounts, in the order in which they were claimed.
type startedTenant struct {
	tenant   string
	accounts []startedAccount
}

type startedAccount struct {
	binding  string
	clusters int
}

// parse parses the values of --start.
func (f *startFlags) parse() ([]startedTenant, error) {
	var all []startedTenant
	seen, clusters := map[string]bool{}, 0
	for _, text := range f.tenants {
		one, err := parseStart(text, seen)
		if err != nil {
			return nil, cli.Usagef("--start %q: %w; write a tenant and its accounts, such as 'ga-1: A=200,B=150'", text, err)
		}
		for _, a := range one.accounts {
			clusters += a.clusters
		}
		all = append(all, one)
	}
	if clusters > mostStarted {
		return nil, cli.Usagef("--start has %d clusters, at most %d are simulated", clusters, mostStarted)
	}
	return all, nil
}

// freeAccount is the name of the free account that state adds. The ids of the runtimes that provisions requests begin
// with newRuntime, those of the runtimes at the start with the name of their account.
const (
	freeAccount = "free"
	newRuntime  = "new"
)

func parseStart(text string, seen map[string]bool) (startedTenant, error) {
	tenant, rest, ok := strings.Cut(text, ":")
	one := startedTenant{tenant: strings.TrimSpace(tenant)}
	switch {
	case !ok:
		return one, errors.New("it has no colon")
	case !engine.ValidID(one.tenant):
		return one, fmt.Errorf("%q is no id of a tenant", one.tenant)
	case seen["tenant "+one.tenant]:
		return one, fmt.Errorf("tenant %s is there twice", one.tenant)
	}
	seen["tenant "+one.tenant] = true
	for item := range strings.SplitSeq(rest, ",") {
		if strings.TrimSpace(item) == "" {
			continue
		}
		binding, value, _ := strings.Cut(item, "=")
		binding = strings.TrimSpace(binding)
		n, err := number(strings.TrimSpace(value))
		switch {
		case !engine.ValidID(binding):
			return one, fmt.Errorf("%q is no name of an account", binding)
		case err != nil:
			return one, err
		case binding == freeAccount || binding == newRuntime:
			return one, fmt.Errorf("no account can be called %s: the simulation adds %s and runtimes called %s-1, -2", binding, freeAccount, newRuntime)
		case seen["account "+binding]:
			return one, fmt.Errorf("account %s is there twice", binding)
		}
		seen["account "+binding] = true
		one.accounts = append(one.accounts, startedAccount{binding, n})
	}
	return one, nil
}

// state returns the pool that the flags describe. Unless the pool is shared or in more, it has one free
// account: the caller adds the accounts of more.
func (f *startFlags) state(tenants []startedTenant, rules *rule.Ruleset, more map[string]int) (*simulate.State, error) {
	m, err := rules.Match(f.request)
	if err != nil {
		return nil, fmt.Errorf("the pool of --start: %w", err)
	}
	pool := simulate.PoolState{Name: m.Pool.Name(), Accounts: []simulate.Account{}, Runtimes: []simulate.Runtime{}}
	state := &simulate.State{Version: simulate.Version, TakenAt: time.Now().UTC().Truncate(time.Second), Gone: []string{}}
	binding := simulate.Binding{HyperscalerType: m.Pool.HyperscalerType, EUAccess: m.Pool.EUAccess, Shared: m.Pool.Shared}
	for _, t := range tenants {
		for _, a := range t.accounts {
			record, origin := simulate.Record{State: account.InUse, Confirmed: true, Count: a.clusters}, account.Shared
			binding.Name = a.binding
			if !m.Pool.Shared {
				pool.Sequence++
				record.Tenant, record.Generation, record.Claimed, origin = t.tenant, 1, pool.Sequence, account.Own
				binding.Tenant, binding.ClaimedIn, binding.Generation = t.tenant, pool.Name, 1
			}
			state.Bindings = append(state.Bindings, binding)
			pool.Accounts = append(pool.Accounts, simulate.Account{Binding: a.binding, Record: record})
			for i := range a.clusters {
				pool.Sequence++
				pool.Runtimes = append(pool.Runtimes, simulate.Runtime{ID: a.binding + "-" + strconv.Itoa(i+1), Place: simulate.Place{
					State: account.RuntimeAssigned, Binding: a.binding, Sequence: pool.Sequence, Confirmed: true, Origin: origin, Tenant: t.tenant,
				}})
			}
		}
	}
	if _, said := more[pool.Name]; !said && !m.Pool.Shared {
		binding.Name, binding.Tenant, binding.ClaimedIn, binding.Generation = freeAccount, "", "", 0
		state.Bindings = append(state.Bindings, binding)
	}
	state.Pools = []simulate.PoolState{pool}
	return state, nil
}

// provisions returns one request of each tenant.
func (f *startFlags) provisions(tenants []startedTenant) []events.Event {
	all := make([]events.Event, len(tenants))
	for i, t := range tenants {
		e, _, _ := events.NewEvent(events.TypeProvision)
		e.Source = cli.Source
		*e.Provision = events.Provision{
			RuntimeID: newRuntime + "-" + strconv.Itoa(i+1), GlobalAccountID: t.tenant, Plan: f.request.Plan,
			PlatformRegion: f.request.PlatformRegion, HyperscalerRegion: f.request.HyperscalerRegion,
		}
		all[i] = e
	}
	return all
}

// started decides the requests that --start implies.
func started(ctx context.Context, s *cli.Shell, sim *simulate.Simulator, requests []events.Event, v simulation, before tallies) error {
	worst := cli.ExitDone
	for _, e := range requests {
		r, err := sim.Do(ctx, e)
		if err != nil {
			return err
		}
		v.Results, worst = append(v.Results, r), max(worst, resultExit(r))
	}
	return simulated(ctx, s, sim, v, before, worst)
}

// everybody lets every tenant have several accounts with limit clusters each.
func everybody(hap *config.HAP, limit int) {
	hap.MultiHyperscalerAccount.AllowedGlobalAccounts = []string{config.AnyTenant}
	hap.MultiHyperscalerAccount.Limits = map[string]int{config.DefaultLimit: limit}
}

// otherRules replaces the rules by the rules of a file, and adds the file's plans.
func otherRules(s *cli.Shell, hap *config.HAP, path string) error {
	file, err := s.ReadRules(path)
	if err != nil {
		return err
	}
	hap.Rule = file.Texts
	hap.PlatformRegionRule, hap.ClusterRegionRule, hap.SharedRule, hap.EUAccessRule = "", "", "", ""
	if older := file.Older; older != nil {
		hap.PlatformRegionRule, hap.ClusterRegionRule = older.PlatformRegion, older.ClusterRegion
		hap.SharedRule, hap.EUAccessRule = older.Shared, older.EUAccess
	}
	for name, plan := range file.Plans {
		if hap.Plans == nil {
			hap.Plans = map[string]config.Plan{}
		}
		hap.Plans[name] = config.Plan{Providers: plan.Providers, Default: plan.Default}
	}
	return nil
}

// tenantList parses ids separated by commas; * is any tenant, and an empty text none.
func tenantList(text string) ([]string, error) {
	list := cli.Names(strings.Split(text, ","))
	for _, id := range list {
		if id != config.AnyTenant && !engine.ValidID(id) {
			return nil, fmt.Errorf("%q is no id of a tenant", cmp.Or(id, text))
		}
	}
	return list, nil
}
