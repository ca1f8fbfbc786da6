package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// hook changes the next call of a name, or the next step.
type hook struct {
	commands string // run before the call
	fault    string // error of the call, "" for its own result
	of       string // only for this binding or request, "" for any
	always   bool   // for every call until "mend"
}

var faults = map[string]error{
	"unavailable": engine.ErrUnavailable,
	"hang":        engine.ErrUnavailable, // after 5 s by the clock of the story
	"refused":     engine.ErrRefused,
	"conflict":    engine.ErrConflict,
	"unknown":     engine.ErrUnknownResult, // and nothing was done
	"lost":        engine.ErrUnknownResult, // and it was done
	"broken":      errors.New("broken pipe"),
	"broken-done": errors.New("broken pipe"), // and it was done
	"full":        &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum bytes exceeded"},
	"panic":       errors.New("panic"),
}

// hit runs the hook for a call, if there is one, and returns the error that the call is to return. If done is
// true, the call is made nevertheless.
func (w *world) hit(call, of string) (err error, done bool) {
	w.mu.Lock()
	at := slices.IndexFunc(w.hooks[call], func(h hook) bool { return h.of == "" || h.of == of })
	if at < 0 {
		w.mu.Unlock()
		return nil, true
	}
	h := w.hooks[call][at]
	if !h.always {
		w.hooks[call] = slices.Delete(w.hooks[call], at, at+1)
	}
	w.mu.Unlock()
	if failed := w.doAll(h.commands); failed != nil {
		w.tell("%s: %v", call, failed)
	}
	if h.fault == "" {
		return nil, true
	}
	if h.fault == "panic" {
		panic(call + " panics")
	}
	if h.fault == "hang" {
		time.Sleep(5 * time.Second)
	}
	err = faults[h.fault]
	return fmt.Errorf("%s: %w", call, err), h.fault == "lost" || h.fault == "broken-done"
}

// call makes a call, unless a hook makes it fail.
func call[T any](w *world, name, of string, do func() (T, error)) (T, error) {
	err, done := w.hit(name, of)
	var out T
	if done {
		var failed error
		if out, failed = do(); failed != nil {
			return out, failed
		}
	}
	return out, err
}

func none(do func() error) func() (struct{}, error) {
	return func() (struct{}, error) { return struct{}{}, do() }
}

// redis are counters that fail where a story says so.
type redis struct {
	*memory.Counters
	w *world
}

func (r *redis) LocateAndAssign(ctx context.Context, pool string, q account.Request) (account.Decision, error) {
	return call(r.w, "assign", q.Runtime, func() (account.Decision, error) { return r.Counters.LocateAndAssign(ctx, pool, q) })
}

func (r *redis) Assign(ctx context.Context, pool string, q account.Request) (account.Decision, error) {
	return call(r.w, "assign", q.Runtime, func() (account.Decision, error) { return r.Counters.Assign(ctx, pool, q) })
}

func (r *redis) Locate(ctx context.Context, runtime, pool string) (account.Place, error) {
	return call(r.w, "locate", runtime, func() (account.Place, error) { return r.Counters.Locate(ctx, runtime, pool) })
}

func (r *redis) Place(ctx context.Context, runtime string) (account.Place, error) {
	return call(r.w, "place", runtime, func() (account.Place, error) { return r.Counters.Place(ctx, runtime) })
}

func (r *redis) Status(ctx context.Context, place string) (account.Status, error) {
	return call(r.w, "status", place, func() (account.Status, error) { return r.Counters.Status(ctx, place) })
}

func (r *redis) Confirm(ctx context.Context, pool string, c account.Claim) (bool, error) {
	return call(r.w, "confirm", c.Binding, func() (bool, error) { return r.Counters.Confirm(ctx, pool, c) })
}

func (r *redis) Revoke(ctx context.Context, pool string, c account.Claim) (bool, error) {
	return call(r.w, "revoke", c.Binding, func() (bool, error) {
		revoked, err := r.Counters.Revoke(ctx, pool, c)
		if revoked {
			r.w.tell("the claim of %s for %s is revoked", c.Binding, c.Runtime)
		}
		return revoked, err
	})
}

func (r *redis) Depart(ctx context.Context, runtime string) (account.Place, error) {
	return call(r.w, "depart", runtime, func() (account.Place, error) { return r.Counters.Depart(ctx, runtime) })
}

func (r *redis) ReleaseRuntime(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error) {
	return call(r.w, "release-runtime", runtime, func() (account.Departure, error) { return r.Counters.ReleaseRuntime(ctx, place, runtime, tenant) })
}

func (r *redis) ReleaseUnknown(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error) {
	return call(r.w, "release-runtime", runtime, func() (account.Departure, error) { return r.Counters.ReleaseUnknown(ctx, place, runtime, tenant) })
}

func (r *redis) Refuse(ctx context.Context, place account.Place, runtime, request, tenant string) (account.Decision, error) {
	return call(r.w, "refuse", runtime, func() (account.Decision, error) { return r.Counters.Refuse(ctx, place, runtime, request, tenant) })
}

func (r *redis) Leave(ctx context.Context, place account.Place, runtime, request, tenant string) (sequence int64, left bool, err error) {
	_, err = call(r.w, "leave", runtime, none(func() error {
		sequence, left, err = r.Counters.Leave(ctx, place, runtime, request, tenant)
		return err
	}))
	return sequence, left, err
}

func (r *redis) MovePlace(ctx context.Context, runtime string, from, to account.Place) (bool, error) {
	return call(r.w, "move-place", runtime, func() (bool, error) { return r.Counters.MovePlace(ctx, runtime, from, to) })
}

func (r *redis) TakeBack(ctx context.Context, pool, runtime, request, tenant string) error {
	_, err := call(r.w, "take-back", runtime, none(func() error { return r.Counters.TakeBack(ctx, pool, runtime, request, tenant) }))
	return err
}

func (r *redis) BeginDirtying(ctx context.Context, pool, binding string, generation int64) (account.Permit, error) {
	return call(r.w, "begin-dirtying", binding, func() (account.Permit, error) { return r.Counters.BeginDirtying(ctx, pool, binding, generation) })
}

func (r *redis) InUse(ctx context.Context, pool, binding string) (int, error) {
	return call(r.w, "in-use", binding, func() (int, error) { return r.Counters.InUse(ctx, pool, binding) })
}

func (r *redis) MarkFreed(ctx context.Context, pool, binding string, generation int64) (bool, error) {
	return call(r.w, "mark-freed", binding, func() (bool, error) { return r.Counters.MarkFreed(ctx, pool, binding, generation) })
}

func (r *redis) Queue(ctx context.Context, pool string) ([]account.Waiter, error) {
	return call(r.w, "queue", pool, func() ([]account.Waiter, error) { return r.Counters.Queue(ctx, pool) })
}

func (r *redis) Heads(ctx context.Context, pool string, most int) (account.Heads, error) {
	return call(r.w, "heads", pool, func() (account.Heads, error) { return r.Counters.Heads(ctx, pool, most) })
}

func (r *redis) Observe(ctx context.Context, pool string, l account.Label) (account.Observation, error) {
	return call(r.w, "observe", l.Binding, func() (account.Observation, error) { return r.Counters.Observe(ctx, pool, l) })
}

func (r *redis) Epochs(ctx context.Context, places ...string) (account.Epochs, error) {
	return call(r.w, "built", "", func() (account.Epochs, error) { return r.Counters.Epochs(ctx, places...) })
}

func (r *redis) Install(ctx context.Context, pool, token string, s account.Snapshot) (bool, error) {
	return call(r.w, "install", pool, func() (bool, error) { return r.Counters.Install(ctx, pool, token, s) })
}

// allotments are network ranges that fail where a story says so.
type allotments struct {
	*memory.Ranges
	w *world
}

func (a *allotments) Return(ctx context.Context, cluster, request string) (network.Returned, error) {
	return call(a.w, "return-blocks", cluster, func() (network.Returned, error) { return a.Ranges.Return(ctx, cluster, request) })
}

// garden is a Gardener that fails where a story says so, and reports each change of a label.
type garden struct {
	*memory.Gardener
	w *world
}

func (g *garden) Get(ctx context.Context, name string) (engine.Binding, error) {
	return call(g.w, "get", name, func() (engine.Binding, error) { return g.Gardener.Get(ctx, name) })
}

func (g *garden) write(name, binding string, do func() (engine.Binding, error)) (engine.Binding, error) {
	b, err := call(g.w, name, binding, func() (engine.Binding, error) {
		b, err := do()
		if err == nil {
			g.w.tell("label: %s", labels(b))
		}
		return b, err
	})
	if err != nil {
		g.w.once("%s of %s: %v", name, binding, err)
	}
	return b, err
}

func (g *garden) Claim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return g.write("claim", seen.Name, func() (engine.Binding, error) { return g.Gardener.Claim(ctx, seen, mark) })
}

func (g *garden) MarkDirty(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return g.write("mark-dirty", seen.Name, func() (engine.Binding, error) { return g.Gardener.MarkDirty(ctx, seen, mark) })
}

func (g *garden) Unclaim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	g.w.frees(seen.Name)
	return g.write("unclaim", seen.Name, func() (engine.Binding, error) { return g.Gardener.Unclaim(ctx, seen, mark) })
}

func (g *garden) Free(ctx context.Context, seen engine.Binding, request string) (engine.Binding, error) {
	g.w.frees(seen.Name)
	return g.write("free", seen.Name, func() (engine.Binding, error) { return g.Gardener.Free(ctx, seen, request) })
}

func (g *garden) Refers(ctx context.Context, binding string) (bool, error) {
	return call(g.w, "refers", binding, func() (bool, error) { return g.Gardener.Refers(ctx, binding) })
}

func (g *garden) Referrer(ctx context.Context, binding string) (kind, name string, err error) {
	_, err = call(g.w, "referrer", binding, none(func() error {
		kind, name, err = g.Gardener.Referrer(ctx, binding)
		return err
	}))
	return kind, name, err
}

func (g *garden) EachShoot(ctx context.Context, restart func(), f func(engine.Shoot)) error {
	_, err := call(g.w, "shoots", "", none(func() error { return g.Gardener.EachShoot(ctx, restart, f) }))
	return err
}

// book is a ledger that fails where a story says so, and reports each stored reply.
type book struct {
	*storage.Ledger
	w *world
}

func (b *book) Publish(ctx context.Context, subject string, r events.Reply, expect uint64) (uint64, error) {
	return call(b.w, "publish", r.RequestID, func() (uint64, error) {
		n, err := b.Ledger.Publish(ctx, subject, r, expect)
		if err == nil && r.For == "" { // else it is the first of two, for every deprovision
			b.w.tell("%s", replied(r))
		}
		return n, err
	})
}

func (b *book) Last(ctx context.Context, subject string) (events.Stored, bool, error) {
	var found bool
	stored, err := call(b.w, "last", "", func() (stored events.Stored, err error) {
		stored, found, err = b.Ledger.Last(ctx, subject)
		return stored, err
	})
	return stored, found, err
}

func (b *book) Copy(ctx context.Context, inbox string, r events.Reply) error {
	_, err := call(b.w, "copy", r.RequestID, none(func() error {
		b.w.tell("%s hears: %s", inbox, replied(r))
		return b.Ledger.Copy(ctx, inbox, r)
	}))
	return err
}

// lobby is a waiting room that fails where a story says so.
type lobby struct {
	*storage.WaitingRoom
	w *world
}

func (l *lobby) Enter(ctx context.Context, r storage.WaitingRequest) (time.Time, error) {
	return call(l.w, "enter", r.Event.ID, func() (time.Time, error) { return l.WaitingRoom.Enter(ctx, r) })
}

// After first lets all other goroutines finish their work at the present time, so that an event which wakes
// waiting requests publishes its own answer first.
func (l *lobby) After(ctx context.Context, sequence uint64, visit func(storage.WaitingRequest) error) (uint64, error) {
	time.Sleep(time.Nanosecond) // of the bubble
	return l.WaitingRoom.After(ctx, sequence, visit)
}

func (l *lobby) Leave(ctx context.Context, subject string) error {
	_, err := call(l.w, "leave", "", none(func() error { return l.WaitingRoom.Leave(ctx, subject) }))
	return err
}

// morgue reports each dead letter.
type morgue struct {
	*dead.Letters
	w *world
}

func (m *morgue) Put(ctx context.Context, l dead.Event, code engine.Code, reason string) error {
	_, err := call(m.w, "bury", "", none(func() error {
		m.w.tell("dead letter on %s: %s: %s", l.Subject, code, reason)
		return m.Letters.Put(ctx, l, code, reason)
	}))
	return err
}

// step meets the hooks that wait for a step.
func (w *world) step(_ context.Context, s observe.Step) { _, _ = w.hit("at "+string(s), "") }
