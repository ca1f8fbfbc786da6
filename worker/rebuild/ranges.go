package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/ranges"
)

// RangeBuilder stores the network ranges that a rebuild builds. Package blocks implements it.
type RangeBuilder interface {
	// Epoch returns the epoch of the ranges, in force or not; "" if they are not built.
	Epoch(ctx context.Context) (string, error)
	// Depose removes the epoch of the ranges if it still is epoch ("" stands for any), and reports whether it did.
	Depose(ctx context.Context, epoch string) (bool, error)
	BeginRebuild(ctx context.Context, token string, now time.Time, lease time.Duration) (bool, error)
	RenewRebuild(ctx context.Context, token string, now time.Time) (bool, error)
	Install(ctx context.Context, token string, state network.State) (bool, error)
}

// rebuildRanges rebuilds the network ranges (rule 13) if they are not built or not in force. Like the rebuild
// of the pools it seals first: an answer that was decided with the lost ranges can then no longer be stored.
// The seals of the pools' rebuild are too old for that.
func (r *Rebuilder) rebuildRanges(ctx context.Context) (err error) {
	if r.Ranges == nil {
		return nil
	}
	epoch, err := r.Ranges.Epoch(ctx)
	if err != nil {
		return err
	}
	missing, err := r.judge(ctx, []string{account.RangesPlace}, account.Epochs{account.RangesPlace: epoch})
	if err != nil || len(missing.places) == 0 {
		return err
	}
	if err := r.Belongs(ctx); err != nil {
		return err
	}
	if _, err := r.readNotes(ctx); err != nil {
		return err // before anything is sealed: gatherRanges would fail too
	}
	begin, token := r.Now(), r.token()
	if epoch != "" {
		if _, err := r.Ranges.Depose(ctx, epoch); err != nil {
			return err
		}
	}
	now, err := r.Clock(ctx)
	if err != nil {
		return err
	}
	defer func() { // ends the lease, like giveUp
		if err != nil {
			_, _ = r.Ranges.RenewRebuild(ctx, token, now().Add(-r.Lease))
		}
	}()
	if mine, err := r.Ranges.BeginRebuild(ctx, token, now(), r.Lease); err != nil || !mine {
		return errors.Join(err, ErrElsewhere)
	}
	renew := func(ctx context.Context) { _, _ = r.Ranges.RenewRebuild(ctx, token, now()) } // Install refuses a lost token
	stop := r.whileWorking(ctx, renew)
	defer stop()
	if err := r.enforce(ctx, missing, missing.places, token); err != nil {
		return err
	}
	var info observe.Rebuild
	if err := r.seal(ctx, &info); err != nil {
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
		return ErrElsewhere
	}
	info.Ranges, info.Duration = len(state.Records), r.Now().Sub(begin)
	r.Observer.Rebuild(ctx, info)
	return nil
}

func (r *Rebuilder) readNotes(ctx context.Context) (*network.Notes, error) {
	notes, err := ranges.ReadNotes(ctx, r.Notes)
	if err != nil {
		return nil, fmt.Errorf("read the ClusterConfigs: %w", err)
	}
	return notes, nil
}

// gatherRanges gathers the blocks of live runtimes from the ledger and, from the ClusterConfigs, the blocks
// that the ledger does not know. It reads the ClusterConfigs first (see ranges.Gather).
func (r *Rebuilder) gatherRanges(ctx context.Context) (network.State, error) {
	notes, err := r.readNotes(ctx)
	if err != nil {
		return network.State{}, err
	}
	read, err := ranges.ReadAnswers(ctx, r.Ledger)
	if err != nil {
		return network.State{}, err
	}
	if err := r.sealExtra(ctx, read); err != nil {
		return network.State{}, err
	}
	var state network.State
	if config := r.Networks(); config != nil {
		state.Parents = config.Parents
	}
	g, err := ranges.Gather(read, notes)
	if err != nil {
		return state, err
	}
	state.Records, state.Foreign = slices.Collect(g.Records()), g.Foreign
	return state, nil
}

// sealExtra seals the extra replies that are announced and not stored, so that they can no longer be stored:
// only the lost ranges had their blocks. If one was stored meanwhile, sealExtra adds it to read.
func (r *Rebuilder) sealExtra(ctx context.Context, read *ranges.Answers) error {
	for _, begun := range read.Begun {
		event := events.Event{ID: begun.Reply.RequestID, RuntimeID: begun.Reply.RuntimeID}
		sealed, err := r.sealOne(ctx, begun.Subject, event)
		if err != nil {
			return fmt.Errorf("seal the extra reply %s: %w", event.ID, err)
		}
		if sealed {
			continue
		}
		stored, found, err := r.Ledger.Last(ctx, begun.Subject)
		if errors.Is(err, events.ErrUnknownReply) {
			continue // a newer version's reply: its blocks stay unknown
		}
		if err != nil {
			return err
		}
		if found {
			read.Take(stored)
		}
	}
	return nil
}
