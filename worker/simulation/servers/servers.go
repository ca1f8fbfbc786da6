// Package servers has what stands for Redis in a simulation, and the ledger as rebuilds read it.
package servers

import (
	"context"
	"maps"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
)

// Master is a Redis server that accepts writes.
type Master struct {
	Name     string
	Counters *memory.Counters
	Ranges   *memory.Ranges
}

// NewMaster returns an empty server.
func NewMaster(name string) *Master {
	return &Master{Name: name, Counters: memory.NewCounters(), Ranges: memory.NewRanges()}
}

// Copy returns another server with the present data of the master.
func (m *Master) Copy(name string) *Master {
	return &Master{Name: name, Counters: m.Counters.Copy(), Ranges: m.Ranges.Copy()}
}

// Restart simulates another server process on the same data: no place counts as built any more (rule 1).
func (m *Master) Restart() {
	m.Counters.Restart()
	m.Ranges.Restart()
}

// AlwaysBuilt is the epoch of the silent buckets (plans.Silent), which the simulation does not rebuild.
var AlwaysBuilt = account.FencedEpoch("silent")

// Record is the record of the epochs in force, as a rebuild reads and writes it.
type Record struct {
	*storage.Ledger

	last storage.EpochRecord // the last read, cached; never modified
}

// Epochs reads the record, and adds the silent buckets.
func (r *Record) Epochs(ctx context.Context) (storage.EpochRecord, error) {
	found, err := r.Ledger.Epochs(ctx)
	if err == nil && r.last.Epochs != nil && r.last.Sequence == found.Sequence {
		return r.last, nil
	}
	epochs := make(account.Epochs, account.Buckets+len(found.Epochs))
	maps.Copy(epochs, found.Epochs)
	for n := range account.Buckets {
		if place := account.BucketName(n); plans.Silent(place) {
			epochs[place] = AlwaysBuilt
		}
	}
	found.Epochs = epochs
	if err == nil {
		r.last = found
	}
	return found, err
}

// SetEpochs writes the record without the silent buckets.
func (r *Record) SetEpochs(ctx context.Context, epochs account.Epochs, follows uint64) (uint64, error) {
	maps.DeleteFunc(epochs, func(place, _ string) bool { return plans.Silent(place) })
	return r.Ledger.SetEpochs(ctx, epochs, follows)
}

// Newest is the ledger with the replies renumbered in stream order, so that the newest counts as the highest.
type Newest struct{ *storage.Ledger }

// Facts visits the renumbered replies.
func (n Newest) Facts(ctx context.Context, visit func(storage.Fact) error) error {
	sequence := int64(0)
	return n.Ledger.Facts(ctx, func(f storage.Fact) error {
		sequence++
		if f.Sequence > 0 {
			f.Sequence = sequence
		}
		return visit(f)
	})
}
