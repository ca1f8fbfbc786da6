package simulate

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/worker/memory"
)

// Version is the version of the file format of a State.
const Version = 1

// State is a snapshot of a landscape. Its file format is read by this package only.
type State struct {
	Version  int         `json:"version"`
	TakenAt  time.Time   `json:"takenAt"`
	Pools    []PoolState `json:"pools"`
	Bindings []Binding   `json:"bindings"`
	Gone     []string    `json:"gone"` // runtimes that were deprovisioned before they had a pool
	Networks *Networks   `json:"networks,omitempty"`
}

// Networks are the allotted network blocks. State.Networks is nil if Redis has no network ranges.
type Networks struct {
	Ranges  []Range        `json:"ranges"`
	Foreign []netip.Prefix `json:"foreign"` // of other allocators
}

// Range is a network.Record in a file: the blocks of one rule for a runtime.
type Range struct {
	Runtime  string   `json:"runtime"`
	Rule     string   `json:"rule"`
	Requests []string `json:"requests,omitempty"`
	Blocks   []Block  `json:"blocks"`
}

// Block is a network.Block in a file.
type Block struct {
	ID    string       `json:"id,omitempty"`
	CIDR  netip.Prefix `json:"cidr"`
	Paths []string     `json:"paths,omitempty"`
}

// PoolState is the state of a pool in Redis.
type PoolState struct {
	Name     string    `json:"name"`
	Sequence int64     `json:"sequence"`
	Paused   bool      `json:"paused,omitempty"`
	Accounts []Account `json:"accounts"`
	Runtimes []Runtime `json:"runtimes"`
}

// Binding is an engine.Binding in a file.
type Binding struct {
	Name            string `json:"name"`
	Namespace       string `json:"namespace,omitempty"`
	Kind            string `json:"kind,omitempty"`
	UID             string `json:"-"` // nothing that is simulated depends on it
	ResourceVersion string `json:"resourceVersion,omitempty"`
	HyperscalerType string `json:"hyperscalerType"`
	Tenant          string `json:"tenant,omitempty"`
	Dirty           bool   `json:"dirty,omitempty"`
	Internal        bool   `json:"internal,omitempty"`
	Shared          bool   `json:"shared,omitempty"`
	EUAccess        bool   `json:"euAccess,omitempty"`
	Cordoned        bool   `json:"cordoned,omitempty"`
	Deleting        bool   `json:"deleting,omitempty"`
	SameSecretAs    string `json:"sameSecretAs,omitempty"`
	ClaimedIn       string `json:"claimedIn,omitempty"`
	Generation      int64  `json:"generation,omitempty"`
	Epoch           string `json:"epoch,omitempty"`
	ReleasedBy      string `json:"releasedBy,omitempty"`
}

// Record is an account.Record in a file.
type Record struct {
	State      account.State `json:"state"`
	Tenant     string        `json:"tenant,omitempty"`
	Generation int64         `json:"generation,omitempty"`
	Confirmed  bool          `json:"confirmed,omitempty"`
	Count      int           `json:"count,omitempty"`
	Claimed    int64         `json:"claimed,omitempty"`
	Pristine   bool          `json:"pristine,omitempty"`
}

// Account is the record of a binding.
type Account struct {
	Binding string `json:"binding"`
	Record
}

// Place is an account.Runtime in a file.
type Place struct {
	State     account.RuntimeState `json:"state"`
	Binding   string               `json:"binding,omitempty"`
	Sequence  int64                `json:"sequence"`
	Request   string               `json:"request,omitempty"`
	Confirmed bool                 `json:"confirmed,omitempty"`
	Origin    account.Origin       `json:"origin,omitempty"`
	Tenant    string               `json:"tenant,omitempty"`
}

// Runtime is the record of a runtime.
type Runtime struct {
	ID string `json:"id"`
	Place
}

// Accounts converts records to their form in a State.
func Accounts(records []account.NamedRecord) []Account {
	out := make([]Account, len(records))
	for i, r := range records {
		out[i] = Account{Binding: r.Binding, Record: Record(r.Record)}
	}
	return out
}

// Runtimes converts records to their form in a State.
func Runtimes(records []account.NamedRuntime) []Runtime {
	out := make([]Runtime, len(records))
	for i, r := range records {
		out[i] = Runtime{ID: r.ID, Place: Place(r.Runtime)}
	}
	return out
}

// Blocks converts network ranges to their form in a State.
func Blocks(of network.State) *Networks {
	n := &Networks{Ranges: make([]Range, len(of.Records)), Foreign: append([]netip.Prefix{}, of.Foreign...)}
	for i, r := range of.Records {
		n.Ranges[i] = Range{Runtime: r.Cluster, Rule: r.Rule, Requests: r.Requests}
		for _, b := range r.Blocks {
			n.Ranges[i].Blocks = append(n.Ranges[i].Blocks, Block(b))
		}
	}
	return n
}

// token is the token of every rebuild of a simulation, so that all pools have the same epoch.
const token = "simulation"

// check returns an error if the state has a pool without a name or with the name of another.
func (s *State) check() error {
	named := map[string]bool{}
	for i, p := range s.Pools {
		switch {
		case p.Name == "":
			return fmt.Errorf("the file has no name for pools[%d]", i)
		case named[p.Name]:
			return fmt.Errorf("the file has two pools with the name %q", p.Name)
		}
		named[p.Name] = true
	}
	return nil
}

// bindings returns the bindings in the form that Gardener returns.
func (s *State) bindings() []engine.Binding {
	out := make([]engine.Binding, len(s.Bindings))
	for i, b := range s.Bindings {
		out[i] = engine.Binding(b)
	}
	return out
}

// install builds the pools, and the directory of their runtimes.
func (s *State) install(ctx context.Context, into *memory.Counters) error {
	directories := map[string]account.Directory{}
	for n := range account.Buckets {
		directories[account.BucketName(n)] = account.Directory{Places: map[string]account.Place{}}
	}
	for _, runtime := range s.Gone {
		directories[account.BucketOf(runtime)].Places[runtime] = account.Place{Gone: true}
	}
	for _, p := range s.Pools {
		runtimes := map[string]account.Runtime{}
		snapshot := account.Snapshot{Sequence: p.Sequence, Bindings: map[string]account.Record{}, Runtimes: maps.All(runtimes)}
		for _, a := range p.Accounts {
			snapshot.Bindings[a.Binding] = account.Record(a.Record)
		}
		for _, rt := range p.Runtimes {
			runtimes[rt.ID] = account.Runtime(rt.Place)
			directories[account.BucketOf(rt.ID)].Places[rt.ID] = account.Place{Pool: p.Name}
		}
		if err := installPool(ctx, into, p.Name, snapshot); err != nil {
			return err
		}
		if p.Paused {
			if err := into.Pause(ctx, p.Name); err != nil {
				return err
			}
		}
	}
	for name, directory := range directories {
		if _, err := into.BeginRebuild(ctx, name, token, time.Time{}, 0); err != nil {
			return err
		}
		if _, err := into.InstallBucket(ctx, name, token, directory); err != nil {
			return err
		}
	}
	return nil
}

// installPool builds a pool from a snapshot. If the pool is built already, it changes nothing.
func installPool(ctx context.Context, into *memory.Counters, pool string, snapshot account.Snapshot) error {
	if _, err := into.BeginRebuild(ctx, pool, token, time.Time{}, 0); err != nil {
		return err
	}
	_, err := into.Install(ctx, pool, token, snapshot)
	return err
}

// ranges builds the network ranges with the blocks of the state and the parents of a configuration.
func (s *State) ranges(ctx context.Context, config *network.Config) (*memory.Ranges, error) {
	state := network.State{Parents: config.Parents}
	if s.Networks != nil {
		state.Foreign = s.Networks.Foreign
		for _, r := range s.Networks.Ranges {
			record := network.Record{Cluster: r.Runtime, Requests: r.Requests, Applied: network.Applied{Rule: r.Rule}}
			for _, b := range r.Blocks {
				record.Blocks = append(record.Blocks, network.Block(b))
			}
			state.Records = append(state.Records, record)
		}
	}
	ranges := memory.NewRanges()
	if _, err := ranges.BeginRebuild(ctx, token, time.Time{}, 0); err != nil {
		return nil, err
	}
	_, err := ranges.Install(ctx, token, state)
	return ranges, err
}
