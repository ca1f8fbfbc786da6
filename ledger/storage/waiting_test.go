package storage_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

func waits(runtime, request string, deadline time.Time) storage.WaitingRequest {
	return storage.WaitingRequest{
		Pool: "aws+eu", Reason: events.WaitingPoolEmpty, Deadline: deadline,
		Event: events.Event{
			Type: events.TypeProvision, ID: request, Source: "/test", RuntimeID: runtime,
			Provision: &events.Provision{RuntimeID: runtime, GlobalAccountID: "ga-1", Plan: "aws"},
		},
	}
}

func TestWaitingRoomKeepsEachRequestOnceUntilItLeaves(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	room := storage.NewWaitingRoom(js, subjects(t))
	deadline := time.Date(2026, 11, 21, 12, 0, 0, 500, time.UTC)
	for _, w := range []storage.WaitingRequest{
		waits("rt-1", "a", deadline), waits("rt-2", "b", deadline), waits("rt-1", "c", deadline),
		waits("rt-1", "a", deadline.Add(time.Hour)), // again: the first deadline stays
	} {
		if kept, err := room.Enter(within(t), w); err != nil || !kept.Equal(deadline) {
			t.Fatal(kept, err)
		}
	}
	all := func() (ids []string) {
		t.Helper()
		err := room.Each(within(t), func(w storage.WaitingRequest) error {
			ids = append(ids, w.Event.ID)
			if w.Pool != "aws+eu" || w.Reason != events.WaitingPoolEmpty || !w.Deadline.Equal(deadline) || w.Event.Provision.Plan != "aws" {
				t.Errorf("read back %+v", w)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	if got := all(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("waiting are %v, want a, b, c", got)
	}
	var ofRuntime []string
	if err := room.OfRuntime(within(t), "rt-1", func(w storage.WaitingRequest) error {
		ofRuntime = append(ofRuntime, w.Event.ID)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ofRuntime, []string{"a", "c"}) {
		t.Errorf("of rt-1 wait %v, want a, c", ofRuntime)
	}
	for range 2 { // leaving twice is fine
		if err := room.Leave(within(t), subjects(t).Waiting("aws+eu", "ga-1", "rt-2", "b")); err != nil {
			t.Fatal(err)
		}
	}
	if got := all(); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("after b left, waiting are %v, want a, c", got)
	}
	stop := errors.New("enough")
	if err := room.Each(within(t), func(storage.WaitingRequest) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the visitor's error is %v, want its own", err)
	}
}

func TestWaitingRoomIsReadToWhereItEnded(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	room := storage.NewWaitingRoom(js, subjects(t))
	enter := func(id string) {
		t.Helper()
		if _, err := room.Enter(within(t), waits("rt-1", id, time.Now())); err != nil {
			t.Fatal(err)
		}
	}
	enter("a")
	var visited []string
	err := room.OfRuntime(within(t), "rt-1", func(w storage.WaitingRequest) error {
		visited = append(visited, w.Event.ID)
		enter(w.Event.ID + "2")
		return nil
	})
	if err != nil || !slices.Equal(visited, []string{"a"}) {
		t.Errorf("visited %v, %v, want a alone, not what entered meanwhile", visited, err)
	}
}

// Every deprovision looks whether anything of its runtime waits.
func TestWaitingRoomIsAskedOnceWhereNothingWaits(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	room := storage.NewWaitingRoom(js, subjects(t))
	asked, err := js.Conn().SubscribeSync("$JS.API.STREAM.>")
	if err != nil {
		t.Fatal(err)
	}
	err = room.OfRuntime(within(t), "rt-1", func(w storage.WaitingRequest) error {
		t.Errorf("visited %s", w.Event.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().FlushWithContext(within(t)); err != nil {
		t.Fatal(err)
	}
	var requests []string
	for {
		msg, err := asked.NextMsg(0)
		if err != nil {
			break
		}
		requests = append(requests, msg.Subject)
	}
	if want := []string{"$JS.API.STREAM.MSG.GET.HAP_WAITING"}; !slices.Equal(requests, want) {
		t.Errorf("asked %v, want %v", requests, want)
	}
}
