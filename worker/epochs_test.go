package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

func TestLearn(t *testing.T) {
	t.Parallel()
	type lesson struct {
		pool, epoch string
		err         error
	}
	for _, c := range []struct {
		name    string
		lessons []lesson
		aws     string // epoch of pool aws after the lessons
	}{
		{"nothing yet", nil, ""},
		{"a decision", []lesson{{"aws", "e1", nil}}, "e1"},
		{"of another pool", []lesson{{"aws", "e1", nil}, {"gcp", "g1", nil}}, "e1"},
		{"a later one", []lesson{{"aws", "e1", nil}, {"aws", "e2", nil}}, "e2"},
		{"without an epoch", []lesson{{"aws", "e1", nil}, {"aws", "", nil}}, "e1"},
		{"a lost connection says nothing", []lesson{{"aws", "e1", nil}, {"aws", "", errors.New("broken pipe")}}, "e1"},
		{"rebuilt since", []lesson{{"aws", "e1", nil}, {"aws", "", fmt.Errorf("assign: %w", account.ErrRebuilt)}}, ""},
		{"not built", []lesson{{"aws", "e1", nil}, {"aws", "", account.ErrNotBuilt}}, ""},
		{"and known again", []lesson{{"aws", "e1", nil}, {"aws", "", account.ErrRebuilt}, {"aws", "e2", nil}}, "e2"},
	} {
		var e epochs
		before := e.known()
		for _, l := range c.lessons {
			e.learn(l.pool, l.epoch, l.err)
		}
		if got := e.known()["aws"]; got != c.aws {
			t.Errorf("%s: known is %q, want %q", c.name, got, c.aws)
		}
		if len(before) > 0 {
			t.Errorf("%s: what was known before has changed to %v", c.name, before)
		}
	}
}

// directoryFake is a directory with one epoch. Tests change both during a call.
type directoryFake struct {
	Counters
	place    account.Place
	epoch    string          // "" is not built
	err      error           // of the directory
	onLocate func(calls int) // before it answers
	onStatus func()          // after it has answered
	calls    []string
}

func (d *directoryFake) Locate(context.Context, string, string) (account.Place, error) {
	d.calls = append(d.calls, "locate")
	if d.onLocate != nil {
		d.onLocate(len(d.calls))
	}
	return d.place, d.err
}

func (d *directoryFake) Status(context.Context, string) (account.Status, error) {
	d.calls = append(d.calls, "status")
	status := account.Status{Built: d.epoch != "", Epoch: d.epoch}
	if d.onStatus != nil {
		d.onStatus()
	}
	return status, nil
}

// locate returns an epoch that was known before the directory was read, so that a pool that was rebuilt since
// then refuses it.
func TestLocate(t *testing.T) {
	t.Parallel()
	aws := account.Place{Pool: "aws"}
	for _, c := range []struct {
		name   string
		known  map[string]string
		dir    directoryFake
		under  func(w *Worker, d *directoryFake) // sets up what happens during the calls
		epoch  string                            // want
		calls  []string
		wanted rebuilds
		err    error
	}{
		{
			name: "the pool is known", known: map[string]string{"aws": "e1"}, dir: directoryFake{place: aws, epoch: "e1"},
			epoch: "e1", calls: []string{"locate"},
		},
		{
			name: "the pool is not known: the directory is asked again after its epoch was", dir: directoryFake{place: aws, epoch: "e1"},
			epoch: "e1", calls: []string{"locate", "status", "locate"},
		},
		{
			name: "the runtime is in another pool", known: map[string]string{"aws": "e1", "gcp": "g1"},
			dir: directoryFake{place: account.Place{Pool: "gcp"}, epoch: "g1"}, epoch: "g1", calls: []string{"locate"},
		},
		{
			name: "rebuilt while the directory was asked, and learnt by another event", known: map[string]string{"aws": "e1"},
			dir:   directoryFake{place: aws, epoch: "e2"},
			under: func(w *Worker, d *directoryFake) { d.onLocate = func(int) { w.epochs.learn("aws", "e2", nil) } },
			epoch: "e1", calls: []string{"locate"},
		},
		{
			name: "rebuilt between the epoch and the directory", dir: directoryFake{place: aws, epoch: "e1"},
			under: func(_ *Worker, d *directoryFake) { d.onStatus = func() { d.epoch = "e2" } },
			epoch: "e1", calls: []string{"locate", "status", "locate"},
		},
		{
			name: "lost again before it is known", dir: directoryFake{place: aws, epoch: "e1"},
			under: func(w *Worker, d *directoryFake) {
				d.onLocate = func(calls int) {
					if calls == 3 { // too late: the epoch known before this call counts
						w.epochs.learn("aws", "", account.ErrNotBuilt)
					}
				}
			},
			epoch: "e1", calls: []string{"locate", "status", "locate"},
		},
		{name: "the runtime is gone", dir: directoryFake{place: account.Place{Gone: true, Sequence: 3}}, calls: []string{"locate"}},
		{
			name: "the directory is not built", dir: directoryFake{err: account.ErrNotBuilt},
			calls: []string{"locate"}, wanted: rebuilds{"aws"}, err: account.ErrNotBuilt,
		},
		{
			name: "the runtime's pool is not built", dir: directoryFake{place: account.Place{Pool: "gcp"}},
			calls: []string{"locate", "status"}, wanted: rebuilds{"gcp"}, err: account.ErrNotBuilt,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var wanted rebuilds
			w := New(Options{Counters: &c.dir, Rebuild: &wanted})
			for pool, epoch := range c.known {
				w.epochs.learn(pool, epoch, nil)
			}
			if c.under != nil {
				c.under(w, &c.dir)
			}
			place, epoch, err := w.locate(t.Context(), "rt-1", "aws")
			if !errors.Is(err, c.err) || epoch != c.epoch || place != c.dir.place {
				t.Errorf("located %+v in epoch %q, %v; want epoch %q, %v", place, epoch, err, c.epoch, c.err)
			}
			if !slices.Equal(c.dir.calls, c.calls) || !slices.Equal(wanted, c.wanted) {
				t.Errorf("asked %v and for a rebuild of %v, want %v and %v", c.dir.calls, wanted, c.calls, c.wanted)
			}
		})
	}
}

// locate ends when ctx does, and returns its cause.
func TestLocateEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	spent := errors.New("the budget is spent")
	d := &directoryFake{place: account.Place{Pool: "aws"}, epoch: "e1", onStatus: func() { cancel(spent) }}
	if _, _, err := New(Options{Counters: d}).locate(ctx, "rt-1", "aws"); !errors.Is(err, spent) {
		t.Errorf("it ends with %v, want %v", err, spent)
	}
}

// unforced is a pool whose epoch is not in force.
type unforced struct{ Counters }

func (unforced) Refuse(context.Context, account.Place, string, string, string) (account.Decision, error) {
	return account.Decision{}, account.ErrNotBuilt
}

// A request that waits for network blocks calls no script of its pool before its deadline. For a pool without
// bindings, its refusal is then the only call that can request a rebuild.
func TestRefusalAsksForARebuild(t *testing.T) {
	t.Parallel()
	var wanted rebuilds
	w := New(Options{Counters: unforced{}, Rebuild: &wanted})
	waits := answer{event: events.Event{Provision: &events.Provision{}}, place: account.Place{Pool: "gcp"}, decision: account.Decision{Outcome: account.Waiting}}
	a := &attempt{}
	a.markEntered(time.Unix(1, 0))
	_, err := w.replyTo(t.Context(), a, waits)
	if !errors.Is(err, account.ErrNotBuilt) || !slices.Equal(wanted, rebuilds{"gcp"}) {
		t.Errorf("asked for %v, error %v", wanted, err)
	}
}
