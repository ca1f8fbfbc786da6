package worker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
)

// RangeBuilder installs the network ranges that a rebuild has gathered: package counters.
type RangeBuilder interface {
	// Built reports whether Redis has them.
	Built(ctx context.Context) (bool, error)
	BeginRebuild(ctx context.Context, token string, now time.Time, lease time.Duration) (bool, error)
	RenewRebuild(ctx context.Context, token string, now time.Time) (bool, error)
	Install(ctx context.Context, token string, state network.State) (bool, error)
	// SetParents makes these the parents from the next Acquire on.
	SetParents(ctx context.Context, parents []network.Parent) error
}

// rebuildRanges is rule 13 for the network ranges. It comes after the pools, whose
// seal it does not rely on: an event may have been decided in between.
func (r *Rebuild) rebuildRanges(ctx context.Context) error {
	if r.Ranges == nil {
		return nil
	}
	built, err := r.Ranges.Built(ctx)
	if err != nil || built {
		return err
	}
	begin, token := r.Now(), uuid.NewString()
	if mine, err := r.Ranges.BeginRebuild(ctx, token, r.Now(), r.Lease); err != nil || !mine {
		return errors.Join(err, ErrRebuildElsewhere)
	}
	renew := func(ctx context.Context) { _, _ = r.Ranges.RenewRebuild(ctx, token, r.Now()) } // one that is lost is noticed by the install
	stop := r.whileWorking(ctx, renew)
	defer stop()
	if _, err := r.seal(ctx); err != nil {
		return err
	}
	state, err := r.gatherRanges(ctx)
	if err != nil {
		return err
	}
	installed, err := r.Ranges.Install(ctx, token, state)
	if err != nil {
		return fmt.Errorf("install the network ranges: %w", err)
	}
	if !installed {
		return ErrRebuildElsewhere
	}
	if config := r.Networks.Config(); config != nil {
		// It may have changed since it was gathered.
		if err := r.Ranges.SetParents(ctx, config.Parents); err != nil {
			return err
		}
	}
	r.Listener.rebuild(ctx, RebuildInfo{Ranges: len(state.Records), Duration: r.Now().Sub(begin)})
	return nil
}

// gatherRanges reads from the ledger which live runtime was answered with which
// blocks, and from what is written beside it what the ledger does not know. A rule is
// applied to a cluster once, so all answers of it say the same.
func (r *Rebuild) gatherRanges(ctx context.Context) (network.State, error) {
	notes, err := readNotes(ctx, r.Notes)
	if err != nil {
		return network.State{}, fmt.Errorf("read the ClusterConfigs: %w", err)
	}
	read, err := readAssignments(ctx, r.Archive)
	if err != nil {
		return network.State{}, err
	}
	if err := r.sealExtra(ctx, read); err != nil {
		return network.State{}, err
	}
	var state network.State
	if config := r.Networks.Config(); config != nil {
		state.Parents = config.Parents
	}
	g, err := gather(read, notes)
	if err != nil {
		return state, err
	}
	state.Records, state.Foreign = g.records, g.foreign
	return state, nil
}

// sealExtra refuses the extra replies that were begun before the loss: what they
// would tell is known to nobody else. One that was stored meanwhile is taken in.
func (r *Rebuild) sealExtra(ctx context.Context, read *assignments) error {
	for _, begun := range read.intent {
		event := events.Event{ID: begun.Reply.RequestID, RuntimeID: begun.Reply.RuntimeID}
		sealed, err := r.sealOne(ctx, begun.Subject, event)
		if err != nil {
			return fmt.Errorf("seal the extra reply %s: %w", event.ID, err)
		}
		if sealed {
			continue
		}
		stored, found, err := r.Archive.Last(ctx, begun.Subject)
		if err != nil {
			return err
		}
		if found {
			read.take(stored)
		}
	}
	return nil
}

// recordsOf are the rules that a runtime's answers say it has.
func recordsOf(runtime string, answers []events.Reply) ([]network.Record, error) {
	var records []network.Record
	for _, answer := range answers {
		applied, err := appliedOf(answer.Network)
		if err != nil {
			return nil, fmt.Errorf("the answer %s of runtime %s: %w", answer.RequestID, runtime, err)
		}
		for _, rule := range applied {
			at := slices.IndexFunc(records, func(r network.Record) bool { return r.Rule == rule.Rule })
			if at < 0 {
				at = len(records)
				records = append(records, network.Record{Cluster: runtime, Applied: rule})
			}
			records[at].Requests = append(records[at].Requests, answer.RequestID)
		}
	}
	return records, nil
}

// appliedOf is the network part of a reply as blocks wrote it.
func appliedOf(given []events.Network) ([]network.Applied, error) {
	var applied []network.Applied
	for _, g := range given {
		cidr, err := netip.ParsePrefix(g.CIDR)
		if err != nil {
			return nil, err
		}
		if n := len(applied); n == 0 || applied[n-1].Rule != g.Rule {
			applied = append(applied, network.Applied{Rule: g.Rule})
		}
		last := &applied[len(applied)-1]
		last.Blocks = append(last.Blocks, network.Block{ID: g.ID, CIDR: cidr, Paths: g.Paths})
	}
	return applied, nil
}
