package migrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/natural"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/engine/terms"
)

// census is the source of a landscape: Gardener, or files.
type census interface {
	List(ctx context.Context, f func(engine.Binding) error) error
	Shoots(ctx context.Context, f func(engine.Shoot) error) error
	Referred(ctx context.Context) (func(binding string) bool, error)
}

// plannedBinding says what becomes of one account under the configuration.
type plannedBinding struct {
	Name            string           `json:"name"`
	Kind            string           `json:"kind"`
	Namespace       string           `json:"namespace,omitempty"`
	Pool            string           `json:"pool"`
	HyperscalerType string           `json:"hyperscalerType"`
	EUAccess        bool             `json:"euAccess"`
	Shared          bool             `json:"shared"`
	Tenant          string           `json:"tenant,omitempty"`
	State           account.State    `json:"state"`
	Shoots          int              `json:"shoots"`
	Selections      []rule.Selection `json:"selections"`
	Selectable      bool             `json:"selectable"`
	Why             string           `json:"why,omitempty"` // why it is not selectable
	Contradictions  []string         `json:"contradictions"`
	Notes           []string         `json:"notes"`
}

// shootProblem is a Shoot whose account is another tenant's, of no tenant, dirty or unknown.
type shootProblem struct {
	Shoot         string `json:"shoot"`
	RuntimeID     string `json:"runtimeID"`
	Tenant        string `json:"tenant,omitempty"`
	Binding       string `json:"binding"`
	BindingTenant string `json:"bindingTenant,omitempty"`
	Kind          string `json:"kind"`
	Message       string `json:"message"`
}

// The kinds of problems of Shoots. All but the last are contradictions.
const (
	shootForeign   = "foreign"   // the account's label names another tenant
	shootUnclaimed = "unclaimed" // the account's label names no tenant, so the next claim may take the account
	shootDirty     = "dirty"     // the account is to be cleaned
	shootMixed     = "mixed"     // like unclaimed, and the account has Shoots of several tenants
	shootUnknown   = "unknown"   // the Shoot uses no account of the landscape
)

// planner makes a plan.
type planner struct {
	decisions *terms.Decisions
	bindings  []engine.Binding
	shoots    []engine.Shoot
	referred  func(string) bool
	ways      map[engine.Pool][]rule.Selection
}

// readPlan reads the landscape into a planner.
func readPlan(ctx context.Context, of census, decisions *terms.Decisions) (*planner, error) {
	p := &planner{decisions: decisions, ways: map[engine.Pool][]rule.Selection{}}
	err := of.List(ctx, func(b engine.Binding) error {
		p.bindings = append(p.bindings, b)
		return nil
	})
	if err == nil {
		err = of.Shoots(ctx, func(s engine.Shoot) error {
			p.shoots = append(p.shoots, s)
			return nil
		})
	}
	if err == nil {
		p.referred, err = of.Referred(ctx)
	}
	slices.SortFunc(p.bindings, func(a, b engine.Binding) int {
		return cmp.Or(natural.Compare(a.Pool().Name(), b.Pool().Name()), natural.Compare(a.Name, b.Name))
	})
	slices.SortFunc(p.shoots, func(a, b engine.Shoot) int { return natural.Compare(a.Name, b.Name) })
	return p, err
}

// namespaces returns the namespaces of the bindings. The plan permits only one, since it identifies bindings by
// name.
func (p *planner) namespaces() []string {
	var names []string
	for _, b := range p.bindings {
		names = append(names, b.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (p *planner) plan() planView {
	v := planView{Bindings: []plannedBinding{}, Shoots: []shootProblem{}, Warnings: []string{}}
	users := map[string][]engine.Shoot{}
	for _, s := range p.shoots {
		users[s.Binding] = append(users[s.Binding], s)
	}
	byName := make(map[string]*engine.Binding, len(p.bindings))
	several := p.severalAccounts()
	for i := range p.bindings {
		b := &p.bindings[i]
		byName[b.Name] = b
		planned := p.binding(b, len(users[b.Name]))
		if others := several[owner{b.Pool(), b.Tenant}]; others > 1 && planned.State == account.InUse {
			planned.Notes = append(planned.Notes, fmt.Sprintf(
				"%s has %d accounts of the pool and may have one: only the fullest can get clusters; see hap.multiHyperscalerAccount", b.Tenant, others))
		}
		v.Bindings = append(v.Bindings, planned)
	}
	for _, s := range p.shoots {
		if problem, wrong := shootOn(s, byName[s.Binding], users[s.Binding]); wrong {
			v.Shoots = append(v.Shoots, problem)
		}
	}
	v.count(len(p.shoots))
	return v
}

// owner is a tenant in a pool.
type owner struct {
	pool   engine.Pool
	tenant string
}

// severalAccounts counts, by tenant and pool, the accounts of the tenants that may have only one in a pool. It leaves
// out shared, dirty and held back accounts, and internal ones that the tenant must not use.
func (p *planner) severalAccounts() map[owner]int {
	counts := map[owner]int{}
	for _, b := range p.bindings {
		if !b.Shared && !b.Dirty && !b.HeldBack() && b.Tenant != "" && (!b.Internal || p.decisions.Internal(b.Tenant)) && !p.terms(b).Several {
			counts[owner{b.Pool(), b.Tenant}]++
		}
	}
	return counts
}

func (p *planner) terms(b engine.Binding) account.Terms {
	return p.decisions.Terms(b.Tenant, view.ProviderOf(b.HyperscalerType))
}

func (p *planner) binding(b *engine.Binding, shoots int) plannedBinding {
	pool := b.Pool()
	ways, known := p.ways[pool]
	if !known {
		ways = cli.NotNil(p.decisions.Rules().Selections(pool))
		p.ways[pool] = ways
	}
	planned := plannedBinding{
		Name: b.Name, Kind: b.Kind, Namespace: b.Namespace,
		Pool: pool.Name(), HyperscalerType: b.HyperscalerType, EUAccess: b.EUAccess, Shared: b.Shared,
		Tenant: b.Tenant, State: plannedState(b), Shoots: shoots, Selections: ways,
		Contradictions: cli.NotNil(p.contradictions(b)), Notes: []string{},
	}
	planned.Why = p.unselectable(b, ways)
	planned.Selectable = planned.Why == ""
	if limit := p.terms(*b).LimitIn(pool); limit > 0 && shoots > limit {
		planned.Notes = append(planned.Notes, fmt.Sprintf("has %d clusters, its limit is %d: it keeps them and gets none until it is below", shoots, limit))
	}
	return planned
}

// plannedState returns the standing before Redis has any record. Unlike Standing, it puts the reasons that
// keep an account from new runtimes first, even if the account has a tenant.
func plannedState(b *engine.Binding) account.State {
	switch word := account.Standing(b, &account.Record{}); {
	case word == account.Dirty:
		return word
	case b.Deleting:
		return account.Deleting
	case b.Cordoned:
		return account.Cordoned
	case b.Internal:
		return account.Internal
	case b.SameSecretAs != "":
		return account.Duplicate
	default:
		return word
	}
}

// unselectable returns why no request can ever get this account, "" if one can. A temporary reason does not
// count, such as dirty, which a release ends.
func (p *planner) unselectable(b *engine.Binding, ways []rule.Selection) string {
	switch {
	case len(ways) == 0:
		return "no rule leads to pool " + b.Pool().Name()
	case !p.referred(b.Name):
		return "no CredentialsBinding or SecretBinding refers to it: no Shoot can use it"
	case b.Deleting:
		return "it was deleted, and stays only until its finalizers are gone"
	case b.SameSecretAs != "":
		return "it refers to the same credentials as " + b.SameSecretAs + ": they are one account, under that name"
	case b.Internal && b.Shared:
		return "it is internal, and a shared pool leaves internal accounts out"
	case b.Internal && b.Tenant == "":
		return "it is internal and of no tenant: it is never claimed"
	case b.Internal && !p.decisions.Internal(b.Tenant):
		return fmt.Sprintf("it is internal, and %s is none of hap.internalGlobalAccounts", b.Tenant)
	case b.Tenant != "" && !b.Shared && !engine.ValidID(b.Tenant):
		return fmt.Sprintf("no request can come from the tenant %q: it is no id", b.Tenant)
	}
	return ""
}

// contradictions returns a sentence for each contradiction in the labels, and for an empty label of the hyperscaler
// type.
func (p *planner) contradictions(b *engine.Binding) []string {
	var found []string
	for _, c := range []struct {
		is   bool
		says string
	}{
		{b.Shared && b.Tenant != "", "shared, and of the tenant " + b.Tenant + ": a shared account belongs to nobody"},
		{b.Shared && b.Dirty, "shared, and dirty: a shared account is never given back, and gets no clusters while it is dirty"},
		{b.Shared && b.Internal, "shared, and internal: a shared pool leaves internal accounts out"},
		{!b.Shared && b.Dirty && b.Tenant == "", "dirty, and of no tenant: only an account that a tenant has left has to be cleaned"},
		{!b.Shared && b.Internal && b.Tenant != "" && !p.decisions.Internal(b.Tenant),
			"internal, and of the tenant " + b.Tenant + ", which is none of hap.internalGlobalAccounts"},
		{b.HyperscalerType == "", "the label of the hyperscaler type is empty"},
	} {
		if c.is {
			found = append(found, c.says)
		}
	}
	return found
}

// shootOn compares a Shoot with the account that it uses, and returns its problem; false if there is none. b is nil
// if the account is not of the landscape. users are all Shoots of the account.
func shootOn(s engine.Shoot, b *engine.Binding, users []engine.Shoot) (shootProblem, bool) {
	problem := shootProblem{Shoot: s.Name, RuntimeID: s.RuntimeID, Tenant: s.Tenant, Binding: s.Binding}
	if b == nil {
		problem.Kind, problem.Message = shootUnknown, "it uses no account of this landscape"
		if s.Binding != "" {
			problem.Message = fmt.Sprintf("it uses %s, which is no account of this landscape", s.Binding)
		}
		return problem, true
	}
	problem.BindingTenant = b.Tenant
	switch tenants := tenantsOf(users); {
	case b.Dirty:
		problem.Kind, problem.Message = shootDirty, "its account is dirty, and will be cleaned while the Shoot uses it"
	case b.Shared:
		return problem, false
	case b.Tenant != "" && s.Tenant != "" && b.Tenant != s.Tenant:
		problem.Kind = shootForeign
		problem.Message = fmt.Sprintf("it is of %s and uses an account of %s", s.Tenant, b.Tenant)
	case b.Tenant == "" && len(tenants) > 1:
		problem.Kind = shootMixed
		problem.Message = "it uses an account of no tenant, together with Shoots of " + strings.Join(tenants, ", ")
	case b.Tenant == "":
		problem.Kind, problem.Message = shootUnclaimed, "it uses an account of no tenant, which the next claim may give to another tenant"
	default:
		return problem, false
	}
	return problem, true
}

// tenantsOf returns the known tenants of Shoots, sorted.
func tenantsOf(shoots []engine.Shoot) []string {
	var tenants []string
	for _, s := range shoots {
		if s.Tenant != "" {
			tenants = append(tenants, s.Tenant)
		}
	}
	slices.Sort(tenants)
	return slices.Compact(tenants)
}
