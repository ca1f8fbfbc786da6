// Package view defines how several commands of hapctl show bindings, limits and replies, and reads Redis and
// Gardener side by side.
package view

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// Binding is one account in Redis and in Gardener.
type Binding struct {
	Name            string `json:"name"`
	Pool            string `json:"pool"`
	HyperscalerType string `json:"hyperscalerType"`
	EUAccess        bool   `json:"euAccess"`
	Shared          bool   `json:"shared"`
	Limit           int    `json:"limit,omitempty"`

	State    string        `json:"state"` // in the older words; see oldState
	Standing account.State `json:"standing"`
	Clusters Figure        `json:"clusters"`

	Redis       *redisSide    `json:"redis"`
	Gardener    *gardenerSide `json:"gardener"`
	Differences []string      `json:"differences"`
}

// redisSide is the record in Redis; nil if the pool is not built.
type redisSide struct {
	State      account.State `json:"state"`
	Tenant     string        `json:"tenant,omitempty"`
	Generation int64         `json:"generation"`
	Confirmed  bool          `json:"confirmed"`
}

// gardenerSide has the labels and annotations; nil if Gardener has no such binding.
type gardenerSide struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Tenant    string `json:"tenant,omitempty"`
	Dirty     bool   `json:"dirty"`
	Internal  bool   `json:"internal"`
	Cordoned  bool   `json:"cordoned"`
	Deleting  bool   `json:"deleting"`
	// SameSecretAs names another binding with the same Secret; "" for none. Both are one account, which counts
	// under that name.
	SameSecretAs string `json:"sameSecretAs,omitempty"`
	Generation   int64  `json:"generation"`
	Epoch        string `json:"epoch,omitempty"`
	ReleasedBy   string `json:"releasedBy,omitempty"`
}

// StateLabelled is the older word for an account whose label names a tenant that Redis does not know yet.
const StateLabelled = "labelled"

// NewBinding returns the row of a binding. b is nil if Gardener does not have the binding. rec is nil if the
// pool is not built.
func NewBinding(at Place, b *engine.Binding, rec *account.Record, limits Terms) Binding {
	pool := engine.ParsePool(at.Pool)
	v := Binding{
		Name: at.Binding, Pool: at.Pool, HyperscalerType: pool.HyperscalerType,
		EUAccess: pool.EUAccess, Shared: pool.Shared, Differences: []string{},
	}
	v.Clusters.Unknown = rec == nil
	if rec != nil {
		v.Redis = &redisSide{State: rec.State, Tenant: rec.Tenant, Generation: rec.Generation, Confirmed: rec.Confirmed}
		v.Clusters.N = rec.Count
	}
	if b != nil {
		v.Gardener = &gardenerSide{
			Kind: b.Kind, Namespace: b.Namespace, Tenant: b.Tenant, Dirty: b.Dirty, Internal: b.Internal,
			Cordoned: b.Cordoned, Deleting: b.Deleting, SameSecretAs: b.SameSecretAs, Generation: b.Generation, Epoch: b.Epoch, ReleasedBy: b.ReleasedBy,
		}
	}
	v.State, v.Standing = v.oldState(b, rec), account.Standing(b, rec)
	if b != nil && b.Pool().Name() != at.Pool {
		v.Standing = account.Standing(nil, rec)
	}
	v.Limit = limits.ofTenant(v.Tenant(), pool)
	v.compare(b)
	return v
}

// Tenant returns the tenant in Redis, or else the tenant of the label.
func (v *Binding) Tenant() string {
	if v.Redis != nil && v.Redis.Tenant != "" {
		return v.Redis.Tenant
	}
	if v.Gardener != nil {
		return v.Gardener.Tenant
	}
	return ""
}

// oldState returns the standing in the words from before Standing existed. Dirty and shared needed no
// record. "held" meant every account that is kept back, and "labelled" an account whose tenant Redis does
// not know yet. An account whose labels name another pool is judged as if it were in this one.
func (v *Binding) oldState(b *engine.Binding, rec *account.Record) string {
	if b == nil {
		return string(account.Missing)
	}
	here := *b
	here.Shared = v.Shared
	if rec == nil && (b.Dirty || v.Shared) {
		rec = &account.Record{}
	}
	switch word := account.Standing(&here, rec); {
	case word == account.Internal, word == account.Cordoned, word == account.Deleting, word == account.Duplicate:
		return string(account.Held)
	case word == account.InUse && rec.State == account.Free:
		return StateLabelled
	default:
		return string(word)
	}
}

// compare records the differences between Redis and Gardener. A missing label is no difference if the claim
// is not confirmed: a worker has yet to write it.
func (v *Binding) compare(b *engine.Binding) {
	note := func(text string, args ...any) { v.Differences = append(v.Differences, fmt.Sprintf(text, args...)) }
	g, r := v.Gardener, v.Redis
	switch {
	case r == nil:
		return
	case g == nil:
		note("Gardener has no such binding, Redis has it %s with %s", r.State, ClustersText(v.Clusters.N))
		return
	case b.Pool().Name() != v.Pool:
		note("its labels put it into pool %s, Redis has it in %s with %s", b.Pool().Name(), v.Pool, ClustersText(v.Clusters.N))
		return
	case v.Shared:
		return
	case b.LabelledPool() != b.Pool():
		note("its labels put it into pool %s, where it goes when it is released", b.LabelledPool().Name())
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

// Marks returns the reasons in Gardener for which the account gets no new clusters, separated by commas; "" if there
// are none, or if Gardener does not have the account.
func (v *Binding) Marks() string {
	g := v.Gardener
	if g == nil {
		return ""
	}
	var words []string
	for _, mark := range []struct {
		is   bool
		word string
	}{{g.Dirty, "dirty"}, {g.Internal, "internal"}, {g.Cordoned, "cordoned"}, {g.Deleting, "deleting"}, {g.SameSecretAs != "", "duplicate of " + g.SameSecretAs}} {
		if mark.is {
			words = append(words, mark.word)
		}
	}
	return strings.Join(words, ",")
}

var bindingHeaderWide = []string{
	"BINDING", "POOL", "STATE", "TENANT", "LABEL", "CLUSTERS", "GENERATION", "CONFIRMED", "MARKS", "DIFFERENCE",
	"KIND", "LABEL GENERATION", "EPOCH", "RELEASED BY", "STANDING",
}

func (v *Binding) wideRow() []string {
	row := []string{v.Name, v.Pool, v.State, "", "", v.Clusters.OfLimit(v.Limit), "", "", v.Marks(), strings.Join(v.Differences, "; "), "", "", "", "", string(v.Standing)}
	if r := v.Redis; r != nil {
		row[3] = r.Tenant
		if r.State != account.Free && !v.Shared {
			row[6], row[7] = strconv.FormatInt(r.Generation, 10), strconv.FormatBool(r.Confirmed)
		}
	}
	if g := v.Gardener; g != nil {
		row[4] = g.Tenant
		copy(row[10:], []string{g.Kind, strconv.FormatInt(g.Generation, 10), g.Epoch, g.ReleasedBy})
	}
	return cli.Dashed(row)
}

// WriteBindings writes a row for each account and, below the rows, the differences between Redis and
// Gardener. The wide form has more columns, one of them for the differences.
func WriteBindings(w io.Writer, bindings []Binding, wide bool) {
	if wide {
		writeBindingsWide(w, bindings)
		return
	}
	rows := make([][]string, len(bindings))
	for i := range bindings {
		v := &bindings[i]
		rows[i] = cli.Dashed([]string{v.Name, v.Pool, string(v.Standing), v.Clusters.OfLimit(v.Limit), v.Tenant()})
	}
	cli.Fitted(w, []string{"BINDING", "POOL", "STANDING", "CLUSTERS", "TENANT"}, rows, "TENANT", "POOL", "BINDING")
	gap := "\n"
	for i := range bindings {
		for _, text := range bindings[i].Differences {
			fmt.Fprint(w, gap)
			gap = ""
			cli.Folded(w, bindings[i].Name+":", text)
		}
	}
}

func writeBindingsWide(w io.Writer, bindings []Binding) {
	rows := make([][]string, len(bindings))
	for i := range bindings {
		rows[i] = bindings[i].wideRow()
	}
	cli.Table(w, bindingHeaderWide, rows)
}

// ClustersText returns a number of clusters with its noun.
func ClustersText(n int) string {
	if n == 1 {
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", n)
}

// ClustersOf returns a number of clusters with its noun and with the limit, unless that is 0.
func ClustersOf(n, limit int) string {
	if limit == 0 {
		return ClustersText(n)
	}
	return fmt.Sprintf("%d of %s", n, ClustersText(limit))
}
