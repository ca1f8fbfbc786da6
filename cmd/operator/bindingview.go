package operator

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// bindingView is one account, as Redis and as Gardener has it.
type bindingView struct {
	Name            string `json:"name"`
	Pool            string `json:"pool"`
	HyperscalerType string `json:"hyperscalerType"`
	EUAccess        bool   `json:"euAccess"`
	Shared          bool   `json:"shared"`
	State           string `json:"state"`
	Clusters        int    `json:"clusters"`
	Limit           int    `json:"limit,omitempty"`

	Redis       *redisSide    `json:"redis"`
	Gardener    *gardenerSide `json:"gardener"`
	Differences []string      `json:"differences"`
}

// redisSide is what is allotted now; nil where the pool is not built.
type redisSide struct {
	State      account.State `json:"state"`
	Tenant     string        `json:"tenant,omitempty"`
	Generation int64         `json:"generation"`
	Confirmed  bool          `json:"confirmed"`
}

// gardenerSide is what labels and annotations say; nil where there is no such binding.
type gardenerSide struct {
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Tenant     string `json:"tenant,omitempty"`
	Dirty      bool   `json:"dirty"`
	Internal   bool   `json:"internal"`
	Cordoned   bool   `json:"cordoned"`
	Generation int64  `json:"generation"`
	Epoch      string `json:"epoch,omitempty"`
	ReleasedBy string `json:"releasedBy,omitempty"`
}

// The states of an account beside those of Redis.
const (
	stateDirty    = "dirty"    // marked, to be cleaned
	stateShared   = "shared"   // for all tenants
	stateHeld     = "held"     // unclaimed, but internal or cordoned
	stateMissing  = "missing"  // Gardener does not have it
	stateUnknown  = "unknown"  // the pool is not built
	stateLabelled = "labelled" // a tenant's by its label, Redis does not know it yet
)

func newBindingView(at place, b *engine.Binding, rec *account.Record, limits terms) bindingView {
	pool := engine.ParsePool(at.pool)
	v := bindingView{
		Name: at.binding, Pool: at.pool, HyperscalerType: pool.HyperscalerType,
		EUAccess: pool.EUAccess, Shared: pool.Shared, Differences: []string{},
	}
	if rec != nil {
		v.Redis = &redisSide{State: rec.State, Tenant: rec.Tenant, Generation: rec.Generation, Confirmed: rec.Confirmed}
		v.Clusters = rec.Count
	}
	if b != nil {
		v.Gardener = &gardenerSide{
			Kind: b.Kind, Namespace: b.Namespace, Tenant: b.Tenant, Dirty: b.Dirty, Internal: b.Internal,
			Cordoned: b.Cordoned, Generation: b.Generation, Epoch: b.Epoch, ReleasedBy: b.ReleasedBy,
		}
	}
	v.State = v.state()
	if !pool.Shared {
		v.Limit = limits.ofTenant(v.tenant(), pool.HyperscalerType)
	}
	v.compare(b)
	return v
}

// tenant is whose the account is, by Redis first.
func (v *bindingView) tenant() string {
	if v.Redis != nil && v.Redis.Tenant != "" {
		return v.Redis.Tenant
	}
	if v.Gardener != nil {
		return v.Gardener.Tenant
	}
	return ""
}

// state is what the account is for who wants to use it.
func (v *bindingView) state() string {
	g, r := v.Gardener, v.Redis
	switch {
	case g == nil:
		return stateMissing
	case g.Dirty:
		return stateDirty
	case v.Shared && (g.Internal || g.Cordoned):
		return stateHeld
	case v.Shared:
		return stateShared
	case r == nil:
		return stateUnknown
	case r.State != account.Free:
		return string(r.State)
	case g.Tenant != "":
		return stateLabelled
	case g.Internal, g.Cordoned:
		return stateHeld
	default:
		return string(account.Free)
	}
}

// compare notes what Redis and Gardener say differently. A claim that is not
// confirmed is on its way to the label, so that one is no difference.
func (v *bindingView) compare(b *engine.Binding) {
	note := func(text string, args ...any) { v.Differences = append(v.Differences, fmt.Sprintf(text, args...)) }
	g, r := v.Gardener, v.Redis
	switch {
	case r == nil:
		return
	case g == nil:
		note("Gardener has no such binding, Redis has it %s with %s", r.State, clustersText(v.Clusters))
		return
	case b.Pool().Name() != v.Pool:
		note("its labels put it into pool %s, Redis has it in %s with %s", b.Pool().Name(), v.Pool, clustersText(v.Clusters))
		return
	case v.Shared:
		return
	}
	switch r.State {
	case account.Free:
		if g.Tenant != "" || g.Dirty {
			note("Redis has it free, its labels say %s", labelsText(g))
		}
		return
	case account.Dirtying:
		if !g.Dirty {
			note("Redis has it on its way to dirty, the label is not there")
		}
	default:
		if g.Dirty {
			note("the label says dirty, Redis has it %s", r.State)
		}
	}
	if g.Tenant != r.Tenant && (r.Confirmed || g.Tenant != "") {
		note("tenant: Redis %s, label %s", cmp.Or(r.Tenant, "none"), cmp.Or(g.Tenant, "none"))
	}
	if g.Generation != r.Generation && r.Confirmed {
		note("generation: Redis %d, annotation %d", r.Generation, g.Generation)
	}
}

func labelsText(g *gardenerSide) string {
	var words []string
	if g.Tenant != "" {
		words = append(words, "tenant "+g.Tenant)
	}
	if g.Dirty {
		words = append(words, "dirty")
	}
	return strings.Join(words, ", ")
}

// marks are the labels that keep an account from being used.
func (v *bindingView) marks() string {
	g := v.Gardener
	if g == nil {
		return ""
	}
	var words []string
	for _, mark := range []struct {
		is   bool
		word string
	}{{g.Dirty, "dirty"}, {g.Internal, "internal"}, {g.Cordoned, "cordoned"}} {
		if mark.is {
			words = append(words, mark.word)
		}
	}
	return strings.Join(words, ",")
}

var (
	bindingHeader     = []string{"BINDING", "POOL", "STATE", "TENANT", "LABEL", "CLUSTERS", "GENERATION", "CONFIRMED", "MARKS", "DIFFERENCE"}
	bindingHeaderWide = []string{"KIND", "LABEL GENERATION", "EPOCH", "RELEASED BY"}
)

func (v *bindingView) row(wide bool) []string {
	row := []string{v.Name, v.Pool, v.State, "", "", ofLimit(v.Clusters, v.Limit), "", "", v.marks(), strings.Join(v.Differences, "; ")}
	if r := v.Redis; r != nil {
		row[3] = r.Tenant
		if r.State != account.Free && !v.Shared {
			row[6], row[7] = strconv.FormatInt(r.Generation, 10), strconv.FormatBool(r.Confirmed)
		}
	}
	if v.Gardener != nil {
		row[4] = v.Gardener.Tenant
	}
	if !wide {
		return dashed(row)
	}
	if g := v.Gardener; g != nil {
		row = append(row, g.Kind, strconv.FormatInt(g.Generation, 10), g.Epoch, g.ReleasedBy)
	} else {
		row = append(row, "", "", "", "")
	}
	return dashed(row)
}

// dashed shows empty cells, so that columns can be cut by a program too.
func dashed(row []string) []string {
	for i, cell := range row {
		if cell == "" {
			row[i] = "-"
		}
	}
	return row
}

func writeBindings(w io.Writer, bindings []bindingView, wide bool) {
	header := bindingHeader
	if wide {
		header = append(append([]string{}, header...), bindingHeaderWide...)
	}
	rows := make([][]string, len(bindings))
	for i := range bindings {
		rows[i] = bindings[i].row(wide)
	}
	table(w, header, rows)
}
