// Package audit compares Redis with ledger, labels and Shoots, and repairs the drifts that are safe to
// repair. Auditor does so periodically.
package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/rebuild"
)

// Records reads Redis's records of pools and of the directory; package counters implements it.
type Records interface {
	Built(ctx context.Context, places ...string) (map[string]bool, error)
	Pools(ctx context.Context) ([]string, error)
	Status(ctx context.Context, place string) (account.Status, error)
	Bindings(ctx context.Context, pool string) iter.Seq2[account.NamedRecord, error]
	Runtimes(ctx context.Context, pool string) iter.Seq2[account.NamedRuntime, error]
	Places(ctx context.Context, bucket string) iter.Seq2[account.NamedPlace, error]
}

// Repairer corrects Redis; package counters implements it. A method that returns a bool changes Redis only if
// the drift still exists, and reports whether it changed Redis.
type Repairer interface {
	Recount(ctx context.Context, pool, binding string) (bool, error)
	Restore(ctx context.Context, pool, runtime string, was, rt account.Runtime, should account.Record) (bool, error)
	ReleaseUnchanged(ctx context.Context, pool, runtime string, was account.Runtime) (bool, error)
	DropAdopted(ctx context.Context, pool, runtime, binding string) (bool, error)
	Doubt(ctx context.Context, pool, binding string, generation int64) (bool, error)
	DrainIdle(ctx context.Context, pool, binding string, generation int64) (bool, error)
	Raise(ctx context.Context, pool string, sequence int64) (bool, error)
	Locate(ctx context.Context, runtime, pool string) (account.Place, error)
	Forget(ctx context.Context, pool, runtime string, sequence int64) (bool, error)
	TakeBack(ctx context.Context, pool, runtime, request, tenant string) error
	Observe(ctx context.Context, pool string, l account.Label) (account.Observation, error)
}

// Reader reads one binding from Gardener, not from the cache.
type Reader interface {
	// Get returns an engine.Error with CodeUnknownBinding if the binding does not exist.
	Get(ctx context.Context, name string) (engine.Binding, error)
}

// Ledger has the methods of the ledger that an audit calls; package storage implements it.
type Ledger interface {
	rebuild.Ledger
	// End returns the highest sequence that the ledger has ever assigned to a reply.
	End(ctx context.Context) (uint64, error)
	// OfRuntime visits every stored reply of a runtime.
	OfRuntime(ctx context.Context, runtimeID string, visit func(events.Stored) error) error
	// After visits the replies that were stored after a sequence.
	After(ctx context.Context, sequence uint64, visit func(events.Stored) error) error
}

// Audit compares Redis with the ledger, labels and Shoots.
type Audit struct {
	Records   Records
	Repairer  Repairer
	Ledger    Ledger
	Inventory rebuild.Inventory
	Reader    Reader
	Waiting   rebuild.Waiting
	// Pause is the time between the two passes of Verify. Defaults to 2 s.
	Pause time.Duration
	// Progress, if set, is called with a description of each step before the step begins.
	Progress func(string)
}

// Finding is the result of an audit.
type Finding struct {
	Drifts   []account.Drift
	NotBuilt []string // pools and buckets that are not built; if a bucket is among them, nothing was compared
	Replies  int      // readable replies in the ledger that name a runtime, without sealed ones
	Runtimes int      // runtimes that are assigned in built pools
	Bindings int      // bindings with a record in built pools
}

func (a *Audit) say(format string, args ...any) {
	if a.Progress != nil {
		a.Progress(fmt.Sprintf(format, args...))
	}
}

// Verify makes a second pass if the first one finds drift, and returns the drifts that both
// passes found. It leaves out the runtimes and bindings of events that were in motion during
// the second pass: events that were unsettled or waiting at its beginning or end, and events
// that were answered since it began.
func (a *Audit) Verify(ctx context.Context) (Finding, error) {
	first, before, err := a.look(ctx)
	if err != nil || len(first.Drifts) == 0 {
		return first, err
	}
	a.say("%d drifts at first sight; looking again", len(first.Drifts))
	pause := a.Pause
	if pause == 0 {
		pause = 2 * time.Second
	}
	select {
	case <-ctx.Done():
		return Finding{}, context.Cause(ctx)
	case <-time.After(pause):
	}
	end, err := a.Ledger.End(ctx)
	if err != nil {
		return Finding{}, err
	}
	moving := motion{runtimes: map[string]bool{}, bindings: map[string]bool{}}
	if err := moving.read(ctx, a.Ledger, a.Waiting); err != nil {
		return Finding{}, err
	}
	second, after, err := a.look(ctx)
	if err != nil {
		return Finding{}, err
	}
	seen := make(map[[4]string]account.Drift, len(first.Drifts))
	for _, d := range first.Drifts {
		seen[key(d)] = d
	}
	second.Drifts = slices.DeleteFunc(second.Drifts, func(d account.Drift) bool {
		was, known := seen[key(d)]
		return !known || !d.Is(was)
	})
	if len(second.Drifts) == 0 {
		return second, nil
	}
	// In this order: if an event is settled between these two reads, the ledger has its answer.
	if err := moving.read(ctx, a.Ledger, a.Waiting); err != nil {
		return Finding{}, err
	}
	if err := moving.answered(ctx, a.Ledger, end); err != nil {
		return Finding{}, err
	}
	moving.follow(before)
	moving.follow(after)
	for _, d := range second.Drifts {
		if moving.runtimes[d.Runtime] { // a wrong count of its binding may come from this runtime alone
			moving.add("", d.Lacking)
		}
	}
	second.Drifts = slices.DeleteFunc(second.Drifts, func(d account.Drift) bool {
		return moving.runtimes[d.Runtime] || moving.bindings[d.Binding]
	})
	return second, a.noteRefused(ctx, second.Drifts)
}

func key(d account.Drift) [4]string { return [4]string{string(d.Kind), d.Pool, d.Binding, d.Runtime} }

// look makes one pass, and returns the finding and the runtimes that Redis has on the bindings of its drifts. It reads
// Redis last: so Redis may have changes that the ledger did not have when it was read, but not the reverse.
// If a bucket of the directory is not built, it compares nothing and finds no drifts.
func (a *Audit) look(ctx context.Context) (Finding, []account.Lodger, error) {
	var f Finding
	a.say("reading ledger, labels and Shoots")
	gathered, read, err := rebuild.Gather(ctx, a.Ledger, a.Inventory)
	if err != nil {
		return f, nil, err
	}
	f.Replies = read.Replies
	err = a.Waiting(ctx, "", func(a events.WaitingAddress, _ *events.Foreign) error {
		gathered.Waits(a.RuntimeID)
		return nil
	})
	if err != nil {
		return f, nil, fmt.Errorf("read what waits: %w", err)
	}
	a.say("reading Redis")
	found := gathered.Found()
	if f.NotBuilt, err = a.readRedis(ctx, gathered.Pools(), found); err != nil {
		return f, nil, err
	}
	f.Bindings, f.Runtimes = found.Counts()
	if slices.ContainsFunc(f.NotBuilt, account.IsBucket) {
		return f, nil, nil // what the bucket would hold is unknown
	}
	f.Drifts = found.Compare()
	return f, found.On(f.Drifts), nil
}

// readRedis adds all pools and the directory to found. It returns those that are not built.
func (a *Audit) readRedis(ctx context.Context, labelled []string, found *account.Found) (notBuilt []string, err error) {
	all, err := a.places(ctx, labelled)
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		if account.IsBucket(name) {
			err = a.bucket(ctx, name, found)
		} else {
			err = a.pool(ctx, name, found)
		}
		switch {
		case errors.Is(err, account.ErrNotBuilt):
			notBuilt = append(notBuilt, name)
		case err != nil:
			return nil, err
		}
	}
	return notBuilt, nil
}

// places returns the names of all buckets, of all pools in Redis, and of the labelled pools.
func (a *Audit) places(ctx context.Context, labelled []string) ([]string, error) {
	names, err := a.Records.Pools(ctx)
	if err != nil {
		return nil, err
	}
	for _, pool := range labelled {
		if !slices.Contains(names, pool) {
			names = append(names, pool)
		}
	}
	for n := range account.Buckets {
		names = append(names, account.BucketName(n))
	}
	return names, nil
}

func (a *Audit) bucket(ctx context.Context, bucket string, found *account.Found) error {
	for p, err := range a.Records.Places(ctx, bucket) {
		if err != nil {
			return err
		}
		found.AddPlace(p.Runtime, p.Place)
	}
	return nil
}

func (a *Audit) pool(ctx context.Context, pool string, found *account.Found) error {
	for b, err := range a.Records.Bindings(ctx, pool) {
		if err != nil {
			return err
		}
		found.AddRecord(pool, b.Binding, b.Record)
	}
	for rt, err := range a.Records.Runtimes(ctx, pool) {
		if err != nil {
			return err
		}
		found.AddRuntime(pool, rt.ID, rt.Runtime)
	}
	status, err := a.Records.Status(ctx, pool)
	switch {
	case err != nil:
		return err
	case !status.Built:
		return account.ErrNotBuilt
	default:
		found.Built(pool, status.Sequence)
		return nil
	}
}

// motion collects the runtimes and bindings of events that are in progress: the audit and
// the workers may see them in different states.
type motion struct{ runtimes, bindings map[string]bool }

// read adds the runtimes and bindings of events that are not settled or that wait.
func (m *motion) read(ctx context.Context, archive rebuild.Ledger, waiting rebuild.Waiting) error {
	err := archive.Unsettled(ctx, func(e events.Event, _ uint64, _ error) error {
		m.add(e.RuntimeID, e.Binding)
		return nil
	})
	if err == nil {
		err = waiting(ctx, "", func(a events.WaitingAddress, _ *events.Foreign) error {
			m.add(a.RuntimeID, "")
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("read events and requests that are not answered: %w", err)
	}
	return nil
}

// add adds a runtime and a binding; it skips "".
func (m *motion) add(runtime, binding string) {
	if runtime != "" {
		m.runtimes[runtime] = true
	}
	if binding != "" {
		m.bindings[binding] = true
	}
}

// answered adds the runtimes and bindings of the readable replies after a sequence of the ledger.
func (m *motion) answered(ctx context.Context, ledger Ledger, after uint64) error {
	err := ledger.After(ctx, after, func(s events.Stored) error {
		if fact := storage.FactOf(s.Reply); s.Foreign == nil {
			m.add(fact.RuntimeID, fact.Binding)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read what was answered meanwhile: %w", err)
	}
	return nil
}

// follow adds the bindings that the runtimes in motion have in a pass over Redis.
func (m *motion) follow(on []account.Lodger) {
	for _, l := range on {
		if m.runtimes[l.Runtime] {
			m.bindings[l.Binding] = true
		}
	}
}
