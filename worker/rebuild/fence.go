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
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// Record stores the epochs in force (rule 15): package storage.
type Record interface {
	// Epochs reads the record from the stream's leader.
	Epochs(ctx context.Context) (storage.EpochRecord, error)
	// SetEpochs writes the record if the sequence of the stored record is follows, and returns the
	// new sequence. Otherwise the error is storage.ErrWrongLastSequence.
	SetEpochs(ctx context.Context, epochs account.Epochs, follows uint64) (sequence uint64, err error)
	// Replicas returns the number of servers that store the record.
	Replicas(ctx context.Context) (int, error)
}

// depositionTime is how long a leader of NATS that has lost its quorum may still answer reads: it checks its
// followers every 10 s, and steps down after the second check.
const depositionTime = 20 * time.Second

// outlastTime is how long a rebuild waits so that no such leader answers any more.
const outlastTime = depositionTime + depositionTime/10

// The pause before a worker takes over places whose epochs in force are on another server of Redis. firstPause is
// long enough for a client to find the present master. If rebuilds have to wait for outlastTime, the pause is
// longer by twice that, so that another worker's rebuild can be used before it is deposed.
const (
	firstPause = 5 * time.Second
	mostPause  = 5 * time.Minute
)

// unbuilt lists the places to rebuild: pools and buckets, or the network ranges.
type unbuilt struct {
	places  []string
	judged  []string            // all places that were checked, also those that are built and in force
	deposed account.Epochs      // epochs that places have in Redis and are to lose
	record  storage.EpochRecord // read before the token is written
	unknown bool                // only requests asked for these places: none is a bucket or the pool of a binding
}

// judge selects the places to rebuild: those without an epoch and, with a Record, those whose epoch is not in force
// and, if a bucket is among all these, all others too (see together). It returns an error while the epochs in force
// may be on another server of Redis (see doubt). The record is read after Redis: otherwise an epoch that was installed
// in between would seem not to be in force.
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

// together adds all other known places to a rebuild that includes a bucket of the directory. The pools may
// count runtimes that no reply names yet, and a bucket that is rebuilt alone would not have them. The missing
// places stay first: if another worker is rebuilding them, begin stops at the first place and deposes no
// other.
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

// next returns the record with the token as epoch of places. If a bucket is among them, the token is also the
// epoch of every pool in the record that this worker does not know, perhaps because its cache lags. The new
// directory may not have all runtimes of such a pool, so the pool must not stay in force: a worker that has a
// request for the pool rebuilds it. If the record names more such pools than most, next leaves all of them out and adds
// account.ForgottenPlace: publishers can name any region, and the record has to fit into a message.
func (t *unbuilt) next(places []string, token string, most int) account.Epochs {
	next := maps.Clone(t.record.Epochs)
	if next == nil {
		next = account.Epochs{}
	}
	switch unknown := t.unknownPools(); {
	case len(unknown) > max(most, 0):
		for _, pool := range unknown {
			delete(next, pool)
		}
		next[account.ForgottenPlace] = token
	case slices.ContainsFunc(places, account.IsBucket):
		for _, pool := range unknown {
			next[pool] = token
		}
	}
	for _, place := range places {
		next[place] = token
	}
	return next
}

// unknownPools returns the pools in the record that this worker does not know; none if only the network ranges were
// judged.
func (t *unbuilt) unknownPools() (unknown []string) {
	judged := map[string]bool{account.RangesPlace: true, account.ForgottenPlace: true}
	for _, place := range t.judged {
		judged[place] = true
	}
	if slices.Contains(t.judged, account.RangesPlace) {
		return nil
	}
	for place := range t.record.Epochs {
		if !judged[place] {
			unknown = append(unknown, place)
		}
	}
	return unknown
}

// token returns a new unique token, which becomes the epoch.
func (r *Rebuilder) token() string {
	if r.Record != nil {
		return account.FencedEpoch(uuid.NewString())
	}
	return uuid.NewString()
}

// doubted records since when the epochs in force seem to be on another server of Redis.
type doubted struct {
	sequence uint64 // of the record at that time
	since    time.Time
	pause    time.Duration
}

// doubt returns nil if the worker may take over (rule 15): the record has stood still for the pause. Until
// then it returns an error. When the record has changed, it makes the client look for the server with the
// epochs in force. The pause doubles, up to mostPause, if others change the record again soon. So if workers
// reach different servers, one side waits for the other.
func (r *Rebuilder) doubt(ctx context.Context, sequence uint64) error {
	now := r.Now()
	before := r.doubts
	if before.sequence == sequence {
		if now.Sub(before.since) >= before.pause {
			return nil
		}
		return fmt.Errorf("%w, or this Redis server is not the master", ErrElsewhere)
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
	return fmt.Errorf("%w: looking for the Redis server that has it; if none is found, this worker rebuilds on the present one in %s", account.ErrNotInForce, r.doubts.pause)
}

// enforce writes the record with the token for places. It returns when decisions under earlier epochs can no
// longer have an effect.
func (r *Rebuilder) enforce(ctx context.Context, t unbuilt, places []string, token string) error {
	if r.Record == nil {
		return nil
	}
	// An unreadable message may have replaced a record that named every place.
	named := func(place string) bool { return t.record.Epochs[place] != "" || t.record.Unreadable != nil }
	// Depose all places together or none (see together). The attempt that has the other tokens, perhaps
	// an earlier attempt of this worker, finishes, or its lease ends.
	if len(places) < len(t.places) && slices.ContainsFunc(places, named) {
		return fmt.Errorf("%w: it has %d of %d places", ErrElsewhere, len(t.places)-len(places), len(t.places))
	}
	sequence, err := r.Record.SetEpochs(ctx, t.next(places, token, r.MostUnknown), t.record.Sequence)
	if errors.Is(err, storage.ErrWrongLastSequence) {
		return fmt.Errorf("%w: %w", ErrElsewhere, err)
	}
	if err != nil {
		now, unread := r.Record.Epochs(ctx)
		if unread != nil {
			return errors.Join(err, unread)
		}
		// If the record is stored later after all, it names an epoch that no server has.
		if slices.ContainsFunc(places, func(place string) bool { return now.Epochs[place] != token }) {
			if now.Sequence != t.record.Sequence {
				return fmt.Errorf("%w: %w", ErrElsewhere, err)
			}
			return fmt.Errorf("storing the epochs in force: %w", err)
		}
		sequence = now.Sequence
	}
	r.doubts.sequence = sequence // this worker itself has changed the record: that is no reason for a new pause
	if !slices.ContainsFunc(places, named) && t.record.Epochs[account.ForgottenPlace] == "" {
		return nil // no earlier epoch was in force, so an old leader cannot show one
	}
	return r.outlast(ctx)
}

// outlast waits for outlastTime: after that, no deposed leader of NATS answers with an older record or an older state
// of a stream. With one replica it does not wait.
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
