// Package simulate says what events would lead to, on a copy of a landscape: it
// decides as a worker does, with the same rules and the same account protocol, and
// writes nothing anywhere. Labels are written at once, deadlines do not come, and
// an account that its last cluster leaves is marked dirty, as if no Shoot referred
// to it any more.
package simulate

import (
	"fmt"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// Version is that of the form of a State in files.
const Version = 1

// State is a landscape as it was read. In a file it is for this package only.
type State struct {
	Version  int         `json:"version"`
	TakenAt  time.Time   `json:"takenAt"`
	Pools    []PoolState `json:"pools"`
	Bindings []Binding   `json:"bindings"`
	Gone     []string    `json:"gone"` // runtimes that were deprovisioned before they had a pool
}

// PoolState is what Redis has of a pool.
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
	ResourceVersion string `json:"resourceVersion,omitempty"`
	HyperscalerType string `json:"hyperscalerType"`
	Tenant          string `json:"tenant,omitempty"`
	Dirty           bool   `json:"dirty,omitempty"`
	Internal        bool   `json:"internal,omitempty"`
	Shared          bool   `json:"shared,omitempty"`
	EUAccess        bool   `json:"euAccess,omitempty"`
	Cordoned        bool   `json:"cordoned,omitempty"`
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

// Accounts are records as a State has them.
func Accounts(records []account.NamedRecord) []Account {
	out := make([]Account, len(records))
	for i, r := range records {
		out[i] = Account{Binding: r.Binding, Record: Record(r.Record)}
	}
	return out
}

// Runtimes are records as a State has them.
func Runtimes(records []account.NamedRuntime) []Runtime {
	out := make([]Runtime, len(records))
	for i, r := range records {
		out[i] = Runtime{ID: r.ID, Place: Place(r.Runtime)}
	}
	return out
}

// Labels are the bindings as Gardener has them.
func (s *State) Labels() []engine.Binding {
	out := make([]engine.Binding, len(s.Bindings))
	for i, b := range s.Bindings {
		out[i] = engine.Binding(b)
	}
	return out
}

// epoch is that of every simulated pool.
const epoch = "simulation"

// Build makes the pools in memory. The error names what is no state.
func (s *State) Build() (map[string]*account.Pool, error) {
	if s.Version != Version {
		return nil, fmt.Errorf("it is of version %d, this program reads %d: save it anew", s.Version, Version)
	}
	pools := map[string]*account.Pool{}
	for _, p := range s.Pools {
		if p.Name == "" || pools[p.Name] != nil {
			return nil, fmt.Errorf("pool %q has no name, or is there twice", p.Name)
		}
		snapshot := account.Snapshot{Sequence: p.Sequence, Bindings: map[string]account.Record{}, Runtimes: map[string]account.Runtime{}}
		for _, a := range p.Accounts {
			snapshot.Bindings[a.Binding] = account.Record(a.Record)
		}
		for _, rt := range p.Runtimes {
			snapshot.Runtimes[rt.ID] = account.Runtime(rt.Place)
		}
		pool, err := built(snapshot, p.Paused)
		if err != nil {
			return nil, err
		}
		pools[p.Name] = pool
	}
	return pools, nil
}

func built(snapshot account.Snapshot, paused bool) (*account.Pool, error) {
	pool := account.NewPool()
	pool.BeginRebuild(epoch, time.Time{}, 0)
	pool.Install(epoch, snapshot)
	if paused {
		return pool, pool.Pause()
	}
	return pool, nil
}
