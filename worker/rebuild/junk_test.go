package rebuild

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/memory/memorytest"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// emptyInventory has neither pools nor bindings nor Shoots.
type emptyInventory struct{}

func (emptyInventory) Pools() []engine.Pool                                        { return nil }
func (emptyInventory) List(context.Context, func(engine.Binding) error) error      { return nil }
func (emptyInventory) EachShoot(context.Context, func(), func(engine.Shoot)) error { return nil }

// A rebuild skips and counts messages that it cannot read. A waiting request of a newer version is sealed by
// its subject.
func TestRebuildPassesOverJunk(t *testing.T) {
	t.Parallel()
	broker, subjects := memorytest.Streams(t)
	room, ledger := storage.NewWaitingRoomOn(broker, subjects), storage.NewLedgerOn(broker, subjects, "test")
	waiting := subjects.Waiting("aws", "ga", "rt-w", "w")
	for _, subject := range []string{waiting, subjects.Prefix() + ".waiting.x", subjects.Reply("rt-j", "j"), subjects.Reply("rt-k", "k")} {
		if _, err := broker.Publish(t.Context(), &nats.Msg{Subject: subject, Data: []byte("hello")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ledger.Publish(t.Context(), subjects.Reply("rt-1", "1"), events.Reply{RequestID: "1", RuntimeID: "rt-1", Status: events.StatusReleased}, 0); err != nil {
		t.Fatal(err)
	}
	r := &Rebuilder{Ledger: ledger, Waiting: room.Addresses, Subjects: subjects}
	var info observe.Rebuild
	if err := r.seal(t.Context(), &info); err != nil || info.Sealed != 1 || info.Foreign != 2 {
		t.Errorf("%+v, %v; want one sealed, two foreign", info, err)
	}
	stored, found, err := ledger.Last(t.Context(), subjects.Reply("rt-w", "w"))
	if err != nil || !found || stored.Reply.Status != events.StatusSealed {
		t.Errorf("%+v, %v, %v; want it sealed", stored, found, err)
	}
	_, read, err := Gather(t.Context(), ledger, emptyInventory{})
	if err != nil || read != (Read{Replies: 1, Foreign: 2}) {
		t.Errorf("%+v, %v; want one reply and two foreign messages", read, err)
	}
}
