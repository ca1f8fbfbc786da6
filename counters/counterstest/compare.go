package counterstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
)

// Compare drives the model and a Store side by side through random calls: any
// caller in any order, with stale suggestions, claims that are long over, calls
// that go-redis sends twice, and loss of everything with rebuilds that fail.
// After each call both must have said the same and remember the same, and no
// invariant may be broken. client must have a separate database, which is
// emptied.
func Compare(t *testing.T, client *redis.Client) { rapid.Check(t, Histories(client, NewTally())) }

// Histories returns the property that Compare checks. It counts into tally what
// the histories consist of.
func Histories(client *redis.Client, tally *Tally) func(*rapid.T) {
	store := NewMachine(client, "")
	return func(t *rapid.T) {
		p := &pair{
			ctx: context.Background(), model: accounttest.NewModel(), store: store, tally: tally,
			now: time.Unix(1_000_000, 0), shared: rarely.Draw(t, "shared"), marks: map[string]account.Place{},
		}
		if err := client.FlushDB(p.ctx).Err(); err != nil {
			t.Fatal(err)
		}
		p.rebuild(t)
		t.Repeat(map[string]func(*rapid.T){"": p.check, "next": p.next})
		p.checkReaders(t)
		tally.ended(p.done)
	}
}

const pool = "aws+eu"

// pair is the model and the store, and what was decided so far.
type pair struct {
	ctx    context.Context
	model  accounttest.Model
	store  *Machine
	tally  *Tally
	now    time.Time
	tokens int
	epoch  string // the latest one of the pool
	shared bool

	rebuilding string // token of the rebuild in progress, "" if none is known
	claims     []account.Claim
	marks      map[string]account.Place // the last tentative place of a runtime
	done       int                      // operations
}

// operation is one kind of step in a history.
type operation struct {
	name   string
	weight int
	do     func(*pair, *rapid.T)
}

var operations = []operation{
	{"assign", 8, (*pair).assign},
	{"confirm", 5, (*pair).confirm},
	{"conflict", 2, (*pair).conflict},
	{"deprovision", 3, (*pair).deprovision},
	{"dirty", 2, (*pair).dirty},
	{"release", 2, (*pair).release},
	{"label changed", 2, (*pair).observe},
	{"deadline", 1, (*pair).deadline},
	{"take back", 1, (*pair).takeBack},
	{"leave", 1, (*pair).leave},
	{"forget", 3, (*pair).forget},
	{"pause or resume", 1, (*pair).pause},
	{"repair", 1, (*pair).repair},
	{"directory", 1, (*pair).directory},
	{"rebuild with faults", 1, (*pair).fail},
}

// weighted draws an operation in proportion to its weight.
var weighted = func() *rapid.Generator[operation] {
	var all []operation
	for _, op := range operations {
		all = append(all, slices.Repeat([]operation{op}, op.weight)...)
	}
	return pick(all...)
}()

// next does one operation.
func (p *pair) next(t *rapid.T) {
	op := weighted.Draw(t, "operation")
	op.do(p, t)
	p.done++
	p.tally.operations[op.name]++
}

// both makes the same call on model and store, compares the results, and returns the model's. Now and
// then it repeats the call on the store, as after a lost reply.
func both[T any](p *pair, t *rapid.T, call func(m accounttest.Machine) (T, error), say func(T) string) T {
	want, wantErr := call(p.model)
	got, err := call(p.store)
	if (err == nil) != (wantErr == nil) || !errors.Is(said(err), said(wantErr)) {
		t.Fatalf("the store is not the model: it says %v, the model %v", err, wantErr)
	}
	if err == nil && say(got) != say(want) {
		t.Fatalf("the store is not the model: it says\n%s\nthe model\n%s", say(got), say(want))
	}
	switch {
	case errors.Is(err, account.ErrNotBuilt):
		p.tally.came(notBuilt)
	case errors.Is(err, account.ErrRebuilt):
		p.tally.came(rebuiltSince)
	}
	if rarely.Draw(t, "reply lost") {
		p.tally.came(sentTwice)
		if _, err := call(p.store); err != nil && wantErr == nil {
			t.Fatalf("the store refuses what it is sent twice: %v", err)
		}
	}
	return want
}

// said returns the account error that err wraps, nil for any other.
func said(err error) error {
	for _, known := range []error{account.ErrNotBuilt, account.ErrRebuilt} {
		if errors.Is(err, known) {
			return known
		}
	}
	return nil
}

// rarely is true once in eight times.
var rarely = pick(false, false, false, false, false, false, false, true)

// pick draws each of up to 64 items about equally often. rapid's own generators prefer the first items.
// That finds the ends of ranges, but most of a history would be the same two operations on the same
// runtime.
func pick[T any](items ...T) *rapid.Generator[T] {
	return rapid.Custom(func(t *rapid.T) T {
		n := 0
		for range 6 {
			n *= 2
			if rapid.Bool().Draw(t, "bit") {
				n++
			}
		}
		return items[n*len(items)/64]
	})
}

func plain[T any](v T) string { return fmt.Sprint(v) }

// check compares the records of model and store, and the store's indexes with its records. It also
// checks the invariants.
func (p *pair) check(t *rapid.T) {
	status, bindings, runtimes := p.model.Pool(pool).Status(), p.model.Pool(pool).Bindings(), p.model.Pool(pool).Runtimes()
	if broken := accounttest.CheckListed(bindings, runtimes); broken != "" {
		t.Fatal(broken)
	}
	l, err := p.store.look(p.ctx, pool)
	if err != nil {
		t.Fatal(err)
	}
	if l.server == elsewhere {
		l.status.Built = false // the epoch is of another run of the server
	}
	if !status.Built || !l.status.Built {
		if status.Built != l.status.Built {
			t.Fatalf("the store is not the model: built %t and %t", l.status.Built, status.Built)
		}
		return
	}
	if l.status != status || !slices.Equal(l.bindings, bindings) || !slices.Equal(l.runtimes, runtimes) {
		if broken := accounttest.CheckListed(l.bindings, l.runtimes); broken != "" {
			t.Error(broken)
		}
		t.Fatalf("the store is not the model: it remembers\n%s\nthe model\n%s",
			accounttest.Remembered(l.status, l.bindings, l.runtimes), accounttest.Remembered(status, bindings, runtimes))
	}
	if want, _ := p.model.Queue(p.ctx, pool); !slices.Equal(l.queue(), want) {
		t.Fatalf("the store is not the model: its queue is %v, the model's %v", l.queue(), want)
	}
	if err := l.checkIndexes(); err != nil {
		t.Fatal(err)
	}
}

// checkReaders compares the results of the methods that read. check does not call them, to save a dozen
// round trips.
func (p *pair) checkReaders(t *rapid.T) {
	both(p, t, func(m accounttest.Machine) (string, error) { return accounttest.Records(p.ctx, m, pool) }, plain)
	both(p, t, func(m accounttest.Machine) ([]account.Waiter, error) { return m.Queue(p.ctx, pool) }, plain)
	for _, most := range []int{1, 2, 100} {
		both(p, t, func(m accounttest.Machine) (account.Heads, error) { return m.Heads(p.ctx, pool, most) }, plain)
	}
}
