package rebuild

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// Record is where the epochs in force are kept, rule 15: package events.
type Record interface {
	// Epochs reads the record from the leader.
	Epochs(ctx context.Context) (events.EpochRecord, error)
	// SetEpochs writes the record if the last one has that sequence, and returns events.ErrWrongLastSequence if not.
	SetEpochs(ctx context.Context, epochs account.Epochs, follows uint64) (sequence uint64, err error)
	// Replicas returns how many servers keep the record.
	Replicas(ctx context.Context) (int, error)
}

// depositionTime is how long a leader of NATS that has lost its majority may still answer
// reads: it looks for its followers every 10 s, and stops after the second look.
const depositionTime = 20 * time.Second

// outlastTime is how long a rebuild waits for that, with some reserve.
const outlastTime = depositionTime + depositionTime/10

// The pause before a worker takes over places whose epochs another server of Redis has: long
// enough for a client to find the present master. Where a rebuild has to wait, it is longer by
// two of those: another worker's is not to be undone before it has been of use.
const (
	firstPause = 5 * time.Second
	mostPause  = 5 * time.Minute
)

// unbuilt lists the pools and buckets to rebuild.
type unbuilt struct {
	places  []string
	judged  []string           // they, and those that are built and in force
	deposed account.Epochs     // those that places have, and that are not in force, or are not to be any more
	record  events.EpochRecord // as it was read before the token is written
	unknown bool               // none of them is a bucket or the pool of a binding: requests alone asked for them
}

// judge says which of the places are to be rebuilt: those without an epoch, and those whose
// epoch is not in force. The record is read after Redis, so that an epoch which it does not
// name is not one that was installed in between.
func (r *Rebuilder) judge(ctx context.Context, places []string, epochs account.Epochs) (unbuilt, error) {
	t := unbuilt{judged: places, deposed: account.Epochs{}}
	if r.Record != nil {
		var err error
		if t.record, err = r.Record.Epochs(ctx); err != nil {
			return t, err
		}
	}
	elsewhere := false
	for _, place := range places {
		epoch, named := epochs[place], t.record.Epochs[place]
		switch {
		case epoch == "":
		case r.Record == nil, epoch == named:
			continue
		default:
			t.deposed[place] = epoch
			elsewhere = elsewhere || named != ""
		}
		t.places = append(t.places, place)
	}
	if len(t.places) == 0 || r.Record == nil {
		return t, nil
	}
	if elsewhere {
		if err := r.doubt(ctx, t.record.Sequence); err != nil {
			return t, err
		}
	}
	t.together(epochs)
	return t, nil
}

// together adds what stands to a rebuild of a part of the directory. A bucket alone would be built
// without the runtimes that the pools have counted and no request was answered with. What is
// missing comes first: where another worker builds that, it is left to it, and nothing is deposed.
func (t *unbuilt) together(epochs account.Epochs) {
	if !slices.ContainsFunc(t.places, account.IsBucket) {
		return
	}
	for _, place := range t.judged {
		if !slices.Contains(t.places, place) {
			t.deposed[place] = epochs[place]
			t.places = append(t.places, place)
		}
	}
}

// next is the record that names the token for places. Where the directory is among them, it names it
// for every pool that this worker does not know, too, by a cache that lags: what such a pool has
// counted is not in the directory, so it is built anew by the worker that has a request for it.
func (t *unbuilt) next(places []string, token string) account.Epochs {
	next := maps.Clone(t.record.Epochs)
	if next == nil {
		next = account.Epochs{}
	}
	if slices.ContainsFunc(places, account.IsBucket) {
		for place := range next {
			if place != account.RangesPlace && !slices.Contains(t.judged, place) {
				next[place] = token
			}
		}
	}
	for _, place := range places {
		next[place] = token
	}
	return next
}

// token returns one that was never used before.
func (r *Rebuilder) token() string {
	if r.Record != nil {
		return account.FencedEpoch(uuid.NewString())
	}
	return uuid.NewString()
}

// doubted is when a worker found that another server of Redis has the epochs in force.
type doubted struct {
	sequence uint64 // of the record
	since    time.Time
	pause    time.Duration
}

// doubt returns nil once the record has named the same epochs for long enough that no
// other worker seems to have the server that they are on. Until then the client looks for it. The
// pause doubles with each change of the record, so that of workers which reach different
// servers one side waits for the other.
func (r *Rebuilder) doubt(ctx context.Context, sequence uint64) error {
	now := r.Now()
	before := r.doubts
	if before.sequence == sequence {
		if now.Sub(before.since) >= before.pause {
			return nil
		}
		return fmt.Errorf("%w, or another server of Redis is the master", ErrElsewhere)
	}
	replicas, err := r.Record.Replicas(ctx)
	if err != nil {
		return err
	}
	r.doubts = doubted{sequence: sequence, since: now, pause: firstPause}
	if replicas > 1 {
		r.doubts.pause += 2 * outlastTime
	}
	if before.pause > 0 && now.Sub(before.since) < 2*before.pause+mostPause {
		r.doubts.pause = min(2*before.pause, mostPause)
	}
	if r.Reconnect != nil {
		r.Reconnect()
	}
	return fmt.Errorf("%w: looking for its master, and taking over in %s where it is this server", account.ErrNotInForce, r.doubts.pause)
}

// enforce has the record name the token for places, and returns when no decision of the
// epochs before can have an effect any more.
func (r *Rebuilder) enforce(ctx context.Context, t unbuilt, places []string, token string) error {
	if r.Record == nil {
		return nil
	}
	// A message that is no record may stand where one named every place.
	named := func(place string) bool { return t.record.Epochs[place] != "" || t.record.Unreadable != nil }
	// What is deposed is deposed together: where one bucket of the directory is, and the pools of
	// its server stand, it is built anew there without the runtimes that the pools have counted
	// and no request was answered with. The rebuild that has the other tokens goes on, or their lease
	// ends: it may be an earlier one of this worker.
	if len(places) < len(t.places) && slices.ContainsFunc(places, named) {
		return fmt.Errorf("%w: it has %d of %d places", ErrElsewhere, len(t.places)-len(places), len(t.places))
	}
	sequence, err := r.Record.SetEpochs(ctx, t.next(places, token), t.record.Sequence)
	if errors.Is(err, events.ErrWrongLastSequence) {
		return fmt.Errorf("%w: %w", ErrElsewhere, err)
	}
	if err != nil {
		now, unread := r.Record.Epochs(ctx)
		if unread != nil {
			return errors.Join(err, unread)
		}
		for _, place := range places {
			if now.Epochs[place] != token {
				return fmt.Errorf("%w: %w", ErrElsewhere, err) // it may come late, and then no server has that epoch
			}
		}
		sequence = now.Sequence
	}
	r.doubts.sequence = sequence // it was not others who changed the record
	if !slices.ContainsFunc(places, named) {
		return nil // no leader can show an epoch of them from before: nothing was decided under one
	}
	return r.outlast(ctx)
}

// outlast waits until no leader can show a record from before, or a stream without what
// came in before it.
func (r *Rebuilder) outlast(ctx context.Context) error {
	replicas, err := r.Record.Replicas(ctx)
	if err != nil || replicas < 2 {
		return err
	}
	timer := time.NewTimer(outlastTime)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
