package retention

import (
	"context"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// apart collects final replies that neither assign nor release a runtime's account and have no number of a decision:
// replies to releases and resolves, and rejections without a sequence. No rebuild needs them, so each is deleted
// separately, even while its runtime exists. apart takes the first ones after a position, up to limit.
type apart struct {
	limit int
	after uint64 // position of the last one that an earlier pass examined
	all   []storage.Fact
	more  bool // some were left out
}

func (a *apart) add(f storage.Fact) {
	state := f.Answer().State
	switch {
	case f.Foreign != nil || !f.Status.Final() || f.Status == events.StatusAssigned || f.Sequence != 0 || f.Position <= a.after:
	case state != "" && state != account.RuntimeRefused: // its runtime is gone: a candidate
	case len(a.all) == a.limit:
		a.more = true
	default:
		a.all = append(a.all, f)
	}
}

// removeApart deletes the replies that nothing needs (see heldFor), unless an event as old is not settled.
func (r *Purger) removeApart(ctx context.Context, replies []storage.Fact, info *observe.Retention) error {
	if len(replies) == 0 {
		return nil
	}
	backlog, err := r.Ledger.Backlog(ctx)
	if err != nil {
		return err
	}
	for _, f := range replies {
		because := observe.KeptBacklog
		if backlog.Oldest.IsZero() || backlog.Oldest.After(f.Time) {
			if because, err = r.heldFor(ctx, f); err != nil {
				return err
			}
		}
		if because != "" {
			info.Kept[because]++
			continue
		}
		if err := r.Ledger.Remove(ctx, f.Subject, f.Position); err != nil {
			return err
		}
		info.Removed++
	}
	return nil
}

// heldFor returns why a reply is still needed, or "". A rejection is needed if a request of its runtime
// waits, if Redis has the runtime assigned or waiting, or if that is unknown since Redis is not built: the audit takes
// an assignment back only if the ledger has the rejection.
func (r *Purger) heldFor(ctx context.Context, f storage.Fact) (because observe.KeptBecause, err error) {
	if f.RuntimeID == "" || f.Status != events.StatusRejected {
		return "", nil
	}
	err = r.Room.Addresses(ctx, f.RuntimeID, func(events.WaitingAddress, *events.Foreign) error {
		because = observe.KeptWaiting
		return nil
	})
	if err != nil || because != "" {
		return because, err
	}
	place, err := r.Records.Place(ctx, f.RuntimeID)
	if err != nil || place.Pool == "" {
		return r.unlessLost("", "", err)
	}
	rt, err := r.Records.RuntimeIn(ctx, place.Pool, f.RuntimeID)
	if err == nil && (rt.State == account.RuntimeAssigned || rt.State == account.RuntimeWaiting) {
		return observe.KeptDiffers, nil
	}
	return r.unlessLost(place.Pool, "", err)
}
