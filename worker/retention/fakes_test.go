package retention

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/ranges"
)

// keptLedger is a ledger in memory, with a backlog that the test sets.
type keptLedger struct {
	stored   []events.Stored
	last     uint64
	backlog  storage.Backlog
	read     int         // facts
	onForget func()      // called first in Forget
	asked    int         // calls of Backlog
	onAsk    func(n int) // called in the nth call of Backlog
}

func (l *keptLedger) put(at time.Time, r events.Reply) {
	l.last++
	l.stored = append(l.stored, events.Stored{Reply: r, Sequence: l.last, Time: at, Subject: "reply." + r.RuntimeID + "." + r.RequestID})
}

func (l *keptLedger) FactsAfter(_ context.Context, _ uint64, visit func(storage.Fact) error) error {
	for _, s := range l.stored {
		if s.Reply.Status == events.StatusSealed {
			continue
		}
		l.read++
		f := storage.FactOf(s.Reply)
		f.Subject, f.Position, f.Time = s.Subject, s.Sequence, s.Time
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

func (l *keptLedger) OfRuntime(_ context.Context, runtime string, visit func(events.Stored) error) error {
	for _, s := range l.stored {
		if s.Reply.RuntimeID == runtime {
			if err := visit(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *keptLedger) Forget(_ context.Context, runtime string, upTo uint64) error {
	if l.onForget != nil {
		l.onForget()
	}
	l.stored = slices.DeleteFunc(l.stored, func(s events.Stored) bool {
		return s.Reply.RuntimeID == runtime && s.Sequence <= upTo
	})
	return nil
}

func (l *keptLedger) Remove(_ context.Context, subject string, upTo uint64) error {
	l.stored = slices.DeleteFunc(l.stored, func(s events.Stored) bool { return s.Subject == subject && s.Sequence <= upTo })
	return nil
}

func (l *keptLedger) Backlog(context.Context) (storage.Backlog, error) {
	l.asked++
	if l.onAsk != nil {
		l.onAsk(l.asked)
	}
	return l.backlog, nil
}

func (l *keptLedger) statuses(runtime string) (out []events.Status) {
	for _, s := range l.stored {
		if s.Reply.RuntimeID == runtime {
			out = append(out, s.Reply.Status)
		}
	}
	return out
}

// tombs are records of which Forget may fail.
type tombs struct {
	accounttest.Model
	down error // returned by Forget
}

func (m *tombs) Forget(ctx context.Context, pool, runtime string, sequence int64) (bool, error) {
	if m.down != nil {
		return false, m.down
	}
	return m.Model.Forget(ctx, pool, runtime, sequence)
}

type shootsFake []engine.Shoot

func (s shootsFake) EachShoot(_ context.Context, restart func(), f func(engine.Shoot)) error {
	f(engine.Shoot{Name: "of an earlier beginning"})
	restart()
	for _, shoot := range s {
		f(shoot)
	}
	return nil
}

func (shootsFake) Cached(string) (engine.Binding, bool) { return engine.Binding{}, false }

// markedFake has Shoots and one account, which is dirty.
type markedFake struct {
	shootsFake
	binding string
}

func (m markedFake) Cached(name string) (engine.Binding, bool) {
	return engine.Binding{Name: name, Dirty: true}, name == m.binding
}

type blocksFake map[string]bool

func (b blocksFake) Applied(_ context.Context, cluster string) ([]network.Applied, error) {
	if b[cluster] {
		return make([]network.Applied, 1), nil
	}
	return nil, nil
}

type waitsFake struct {
	Room
	runtime string
}

func (w waitsFake) Addresses(_ context.Context, runtime string, visit func(events.WaitingAddress, *events.Foreign) error) error {
	if w.runtime != runtime {
		return nil
	}
	return visit(events.WaitingAddress{RuntimeID: runtime}, nil)
}

type notedFake struct {
	ranges.Notes
	notes network.Notes
}

func (n notedFake) All(context.Context) (network.Notes, error) { return n.notes, nil }

var errDown = errors.New("down")

// retained is a landscape whose runtimes have gone, in a synctest bubble.
type retained struct {
	t      *testing.T
	ledger *keptLedger
	tombs  *tombs
	wanted rebuilds
	passes []observe.Retention
	r      *Purger
	now    time.Time
}

const kept = 7 * 24 * time.Hour

func newRetained(t *testing.T) *retained {
	x := &retained{t: t, ledger: &keptLedger{}, tombs: &tombs{Model: accounttest.NewBuilt("aws", "gcp")}, now: time.Now()}
	x.ledger.backlog = storage.Backlog{First: 101, Last: 100}
	x.r = &Purger{
		Ledger: x.ledger, Records: x.tombs, Gardener: shootsFake{}, Room: waitsFake{}, Rebuild: &x.wanted,
		Blocks: blocksFake{}, Notes: notedFake{}, Keep: kept,
		Observer: observe.Observer{OnRetention: func(_ context.Context, i observe.Retention) { x.passes = append(x.passes, i) }},
	}
	return x
}

// leave releases a runtime, with a reply that is ago old.
func (x *retained) leave(runtime string, ago time.Duration) {
	x.t.Helper()
	left, err := x.tombs.ReleaseRuntime(x.t.Context(), account.Place{Pool: "aws"}, runtime, "")
	if err != nil {
		x.t.Fatal(err)
	}
	x.ledger.put(x.now.Add(-ago), events.Reply{
		RequestID: "d-" + runtime, RuntimeID: runtime, Status: events.StatusReleased,
		Binding: &events.Binding{Name: left.Binding}, Decision: &events.Decision{Sequence: left.Sequence, Pool: "aws"},
	})
}

// vacate has the last runtime leave the account, and permits to mark it dirty.
func (x *retained) vacate() {
	x.t.Helper()
	x.leave("anchor", 0)
	if permit, err := x.tombs.BeginDirtying(x.t.Context(), "aws", "aws-1", 1); err != nil || !permit.Given {
		x.t.Fatal(err, permit)
	}
}

// lived provisions a runtime in aws and releases it, with a reply that is ago old.
func (x *retained) lived(runtime string, ago time.Duration) {
	x.t.Helper()
	ctx := x.t.Context()
	if _, err := x.tombs.Locate(ctx, runtime, "aws"); err != nil {
		x.t.Fatal(err)
	}
	d := x.assign(runtime, "aws")
	x.ledger.put(x.now.Add(-ago-time.Hour), events.Reply{
		RequestID: "p-" + runtime, RuntimeID: runtime, Status: events.StatusAssigned, GlobalAccountID: "ga",
		Binding: &events.Binding{Name: d.Binding}, Decision: &events.Decision{Sequence: d.Sequence, Pool: "aws"},
	})
	x.leave(runtime, ago)
}

// assign puts a runtime on the account, which the runtime "anchor" keeps in use.
func (x *retained) assign(runtime, pool string) account.Decision {
	x.t.Helper()
	d, err := x.tombs.Assign(x.t.Context(), pool, account.Request{
		Runtime: runtime, Request: "p-" + runtime, Tenant: "ga", All: true, Seen: []account.Seen{{Binding: pool + "-1"}},
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return d
}

// forgotten returns everything that is still stored of a runtime.
func (x *retained) forgotten(runtime string) (left []string) {
	for _, status := range x.ledger.statuses(runtime) {
		left = append(left, "reply "+string(status))
	}
	if place, _ := x.tombs.Place(x.t.Context(), runtime); place != (account.Place{}) {
		left = append(left, "place")
	}
	for _, pool := range []string{"aws", "gcp"} {
		if rt, _ := x.tombs.RuntimeIn(x.t.Context(), pool, runtime); rt.State != "" {
			left = append(left, pool+" "+string(rt.State))
		}
	}
	return left
}

// rebuilds records the pools for which a rebuild was requested.
type rebuilds []string

func (r *rebuilds) Wanted(pool string) { *r = append(*r, pool) }
