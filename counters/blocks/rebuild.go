package counters

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
)

// Built reports whether Redis has the ranges. An *engine.Error of Redis.
func (r *Ranges) Built(ctx context.Context) (bool, error) {
	_, err := r.run(ctx, builtScript)
	if errors.Is(err, account.ErrNotBuilt) {
		return false, nil
	}
	return err == nil, err
}

// BeginRebuild is Store.BeginRebuild for the ranges: it claims their rebuild under a
// token that was never used before. An *engine.Error of Redis.
func (r *Ranges) BeginRebuild(ctx context.Context, token string, now time.Time, lease time.Duration) (mine bool, err error) {
	return r.claimRebuild(ctx, token, now, max(0, lease.Milliseconds()))
}

// RenewRebuild extends the lease and reports whether the rebuild is still the
// token's; if not, the caller gives up. An *engine.Error of Redis.
func (r *Ranges) RenewRebuild(ctx context.Context, token string, now time.Time) (mine bool, err error) {
	return r.claimRebuild(ctx, token, now, -1)
}

func (r *Ranges) claimRebuild(ctx context.Context, token string, now time.Time, lease int64) (bool, error) {
	if err := checkToken(token); err != nil {
		return false, err
	}
	got, err := r.store.run(ctx, beginScript, networkPlace, []string{r.store.networkHead()}, token, now.UnixMilli(), lease)
	if err != nil {
		return false, err
	}
	return got.flag(), got.err
}

// Install makes the state that of the ranges (rule 13e) and reports whether they are
// built from it; not if they were built meanwhile or the rebuild is another's by
// now. Repeated after success it reports true. What the state has to be given
// besides records and foreign blocks are the parents. It is staged in bounded steps
// and put in place by one script. An *engine.Error of Redis.
func (r *Ranges) Install(ctx context.Context, token string, state network.State) (bool, error) {
	if err := checkToken(token); err != nil {
		return false, err
	}
	parts, err := stageRanges(state)
	if err != nil {
		return false, err
	}
	s, staging := r.store, r.store.networkStaging(token)
	// A run that died under this token may have left parts of an older state.
	if err := s.client.Unlink(ctx, staging...).Err(); err != nil {
		return false, &engine.Error{Code: engine.CodeInternal, Op: "install ranges in Redis", Err: err}
	}
	args := []any{token, 0, len(parts)}
	for i, part := range parts {
		if err := s.stageUnder(ctx, networkPlace, s.networkHead(), token, staging[i], part); err != nil {
			return false, err
		}
		args = append(args, part.entries())
	}
	keys := append(s.networkKeys(), staging...)
	got, err := s.run(ctx, installScript, networkPlace, keys, args...)
	if err != nil {
		return false, err
	}
	outcome := got.number()
	if outcome == 2 {
		return false, errors.New("install of ranges: what was staged is no longer there, begin the rebuild again")
	}
	return outcome == 1, got.err
}

// stageRanges lays the state out in the order of networkRecords.
func stageRanges(state network.State) ([]staged, error) {
	space := network.Build(state)
	free, held, index := staged{command: "ZADD"}, staged{command: "HSET"}, staged{command: "ZADD"}
	clusters, foreign, parents := staged{command: "HSET"}, staged{command: "HSET"}, staged{command: "HSET"}
	for _, p := range space.Free() {
		free.add(codeOf(p), codeOf(p))
	}
	for p, count := range space.Held() {
		held.add(codeOf(p), count)
		index.add(addressOf(p), codeOf(p))
	}
	built := space.Snapshot()
	byCluster := map[string][]network.Record{}
	for _, record := range built.Records {
		byCluster[record.Cluster] = append(byCluster[record.Cluster], record)
	}
	for cluster, records := range byCluster {
		packed, err := packRecords(records)
		if err != nil {
			return nil, err
		}
		clusters.add(cluster, packed)
	}
	for _, p := range built.Foreign {
		foreign.add(codeOf(p), 1)
	}
	packed, err := packParents(built.Parents)
	parents.add("json", packed)
	return []staged{free, held, index, clusters, foreign, parents}, err
}

// State reads all that the ranges are made of, page by page: what changes meanwhile
// may be seen or not. account.ErrNotBuilt, or an *engine.Error of Redis.
func (r *Ranges) State(ctx context.Context) (network.State, error) {
	var state network.State
	if _, err := r.run(ctx, builtScript); err != nil {
		return state, err
	}
	keys, client := r.store.networkKeys(), r.store.client
	packed, err := client.HGet(ctx, keys[6], "json").Result()
	if err != nil {
		return state, readError("parents", err)
	}
	if state.Parents, err = readParents(packed); err != nil {
		return state, err
	}
	clusters, err := r.all(ctx, keys[4])
	if err != nil {
		return state, err
	}
	for _, cluster := range slices.Sorted(maps.Keys(clusters)) {
		records, err := readRecords(cluster, clusters[cluster])
		if err != nil {
			return state, err
		}
		state.Records = append(state.Records, records...)
	}
	foreign, err := r.all(ctx, keys[5])
	if err != nil {
		return state, err
	}
	for code := range foreign {
		p, err := prefixOfCode(code)
		if err != nil {
			return state, err
		}
		state.Foreign = append(state.Foreign, p)
	}
	slices.SortFunc(state.Foreign, netip.Prefix.Compare)
	return state, nil
}

// builtScript asks whether the ranges are built.
//
//	KEYS -> see space
//
//	Returns {'OK'}
var builtScript = newScript("ranges built", nil, `return {'OK'}`)

// all reads a hash page by page.
func (r *Ranges) all(ctx context.Context, key string) (map[string]string, error) {
	all := map[string]string{}
	fields := r.store.client.HScan(ctx, key, 0, "", page).Iterator()
	for fields.Next(ctx) {
		name := fields.Val()
		if !fields.Next(ctx) {
			break
		}
		all[name] = fields.Val()
	}
	if err := fields.Err(); err != nil {
		return nil, readError("ranges", err)
	}
	return all, nil
}
