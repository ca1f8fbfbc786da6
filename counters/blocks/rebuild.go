package blocks

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/compact"
	"github.com/hap-worker/hap-worker/engine/network"
)

// Built reports whether the ranges are built and, where the Store has a Fence, in force. Error: an
// *engine.Error of Redis.
func (r *Ranges) Built(ctx context.Context) (bool, error) {
	_, err := r.site.Run(ctx, builtScript)
	if errors.Is(err, account.ErrNotBuilt) {
		return false, nil
	}
	return err == nil, err
}

// BeginRebuild is counters.Store.BeginRebuild for the ranges: it claims their rebuild under a token
// that was never used before. Error: an *engine.Error of Redis.
func (r *Ranges) BeginRebuild(ctx context.Context, token string, now time.Time, lease time.Duration) (mine bool, err error) {
	return r.site.BeginRebuild(ctx, token, now, lease)
}

// RenewRebuild extends the lease and reports whether the rebuild is still the token's; if not, the
// caller must stop. Error: an *engine.Error of Redis.
func (r *Ranges) RenewRebuild(ctx context.Context, token string, now time.Time) (mine bool, err error) {
	return r.site.RenewRebuild(ctx, token, now)
}

// Install replaces the ranges by the state (rule 13e), and reports whether they are built under this token. It
// returns false if another rebuild has built them, or if the rebuild is no longer the token's. A repeat after
// success returns true. Errors as of counters.Store.Install.
func (r *Ranges) Install(ctx context.Context, token string, state network.State) (bool, error) {
	parts, err := stageRanges(state)
	if err != nil {
		return false, err
	}
	return r.site.Install(ctx, token, parts)
}

// Epoch returns the epoch of the ranges, in force or not; "" if they are not built. Error: an
// *engine.Error of Redis.
func (r *Ranges) Epoch(ctx context.Context) (string, error) { return r.site.Epoch(ctx) }

// Depose is Discard if the ranges still have this epoch (rule 15); the epoch "" stands for any. If they have
// another epoch or none, nothing changes and the result is false.
func (r *Ranges) Depose(ctx context.Context, epoch string) (bool, error) {
	return r.site.Depose(ctx, epoch)
}

// Discard removes the epoch of the ranges, as if Redis had lost them: nothing is allotted until they are
// rebuilt. It reports whether they were built. Error: an *engine.Error of Redis.
func (r *Ranges) Discard(ctx context.Context) (bool, error) { return r.site.Discard(ctx) }

// stageRanges encodes the state as the parts of an install, in the order of KEYS[2] to KEYS[7] (see space).
func stageRanges(state network.State) ([]counters.Part, error) {
	parents, err := packParents(state.Parents)
	if err != nil {
		return nil, err
	}
	space := network.Build(state)
	return []counters.Part{
		counters.NewSortedSet(slices.All(space.Free()), func(_ int, p netip.Prefix) (counters.Entry, error) {
			return counters.Entry{codeOf(p), codeOf(p)}, nil
		}),
		counters.NewHash(space.Held(), func(p netip.Prefix, count int) (counters.Entry, error) {
			return counters.Entry{codeOf(p), count}, nil
		}),
		counters.NewSortedSet(space.Held(), func(p netip.Prefix, _ int) (counters.Entry, error) {
			return counters.Entry{addressOf(p), codeOf(p)}, nil
		}),
		counters.NewHash(space.Clusters(), func(cluster string, records []*network.Record) (counters.Entry, error) {
			packed, err := packRecords(records...)
			return counters.Entry{cluster, packed}, err
		}),
		counters.NewHash(space.Foreign(), func(p netip.Prefix, _ bool) (counters.Entry, error) {
			return counters.Entry{codeOf(p), 1}, nil
		}),
		counters.NewHash(maps.All(map[string]string{"json": parents}), func(field, packed string) (counters.Entry, error) {
			return counters.Entry{field, packed}, nil
		}),
	}, nil
}

// State returns parents, records and foreign blocks. It reads page by page, so it may miss changes
// made meanwhile. Errors: account.ErrNotBuilt, or an *engine.Error of Redis.
func (r *Ranges) State(ctx context.Context) (network.State, error) {
	var state network.State
	if _, err := r.site.Run(ctx, builtScript); err != nil {
		return state, err
	}
	parents := ""
	for f, err := range r.site.Hash(ctx, 7) {
		if err != nil {
			return state, err
		}
		if f.Name == "json" {
			parents = f.Value
		}
	}
	var err error
	if state.Parents, err = readParents(parents); err != nil {
		return state, err
	}
	if state.Records, err = r.records(ctx); err != nil {
		return state, err
	}
	for f, err := range r.site.Hash(ctx, 6) {
		if err != nil {
			return state, err
		}
		p, err := prefixOfCode(f.Name)
		if err != nil {
			return state, err
		}
		state.Foreign = append(state.Foreign, p)
	}
	slices.SortFunc(state.Foreign, netip.Prefix.Compare)
	state.Foreign = slices.Compact(state.Foreign)
	return state, nil
}

// records returns all records, sorted by cluster. There may be a million, so texts and paths that many have in common
// are kept once.
func (r *Ranges) records(ctx context.Context) ([]network.Record, error) {
	clusters, n := map[string][]network.Record{}, 0
	var texts compact.Texts
	var paths compact.Alike[[]string]
	for f, err := range r.site.Hash(ctx, 5) {
		if err != nil {
			return nil, err
		}
		records, err := readRecords(f.Name, f.Value)
		if err != nil {
			return nil, err
		}
		for i := range records {
			records[i].Rule = texts.Once(records[i].Rule)
			for j := range records[i].Blocks {
				b := &records[i].Blocks[j]
				b.ID, b.Paths = texts.Once(b.ID), paths.Once(b.Paths, b.Paths...)
			}
		}
		n += len(records) - len(clusters[f.Name])
		clusters[f.Name] = records
	}
	all := make([]network.Record, 0, n)
	for _, cluster := range slices.Sorted(maps.Keys(clusters)) {
		all = append(all, clusters[cluster]...)
		delete(clusters, cluster)
	}
	return all, nil
}

// builtScript asks whether the ranges are built. If they are not, the parts that script.New adds return
// {'NOTBUILT'}.
//
//	KEYS -> see space
//
//	Returns {'OK'} if they are built
var builtScript = script.New("ranges built", nil, `return {'OK'}`)
