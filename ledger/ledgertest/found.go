package ledgertest

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/queued"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// testFoundReplies finds replies by request, binding and tenant.
func testFoundReplies(b *bench) {
	b.reply(reply("rt-1", "r", events.StatusAssigned), 0)
	b.reply(reply("rt-2", "r", events.StatusRejected), 0)
	others := reply("rt-3", "q", events.StatusAssigned)
	others.GlobalAccountID, others.ShootName = "ga-2", "ga" // another tenant's reply that contains "ga"
	b.reply(others, 0)
	returned := events.Reply{RequestID: "r", Status: events.StatusReturned, Binding: &events.Binding{Name: "aws.7"}}
	_, err := b.ledger.Publish(b.ctx(), b.subjects.BindingReply("aws.7", "r"), returned, 0)
	b.must(err)
	b.raw(b.subjects.Reply("rt-4", "r"), "junk")
	b.reply(reply("rt-1", "s", events.StatusReleased), 0)

	ofRequest := func(id string) []string {
		return b.statuses(func(visit func(events.Stored) error) error { return b.ledger.OfRequest(b.ctx(), id, visit) })
	}
	b.same("of request r", ofRequest("r"), []string{"r assigned", "r rejected", "foreign 5", "r returned"})
	b.same("of no request", ofRequest("rt-1"), nil)
	b.same("of aws.7", b.statuses(func(visit func(events.Stored) error) error {
		return b.ledger.Under(b.ctx(), b.subjects.BindingReplies("aws.7"), visit)
	}), []string{"r returned"})
	enough := errors.New("enough")
	b.wants(b.ledger.OfRequest(b.ctx(), "r", func(events.Stored) error { return enough }), enough)

	claimed := reply("rt-5", "c", events.StatusAssigned)
	claimed.Binding = &events.Binding{Name: "aws-5", Claimed: true}
	b.reply(claimed, 0)
	b.same("claims", b.statuses(func(visit func(events.Stored) error) error {
		_, err := b.ledger.Claims(b.ctx(), time.Time{}, 100, visit)
		return err
	}), []string{"c assigned"})
	b.must(b.ledger.Remove(b.ctx(), b.subjects.Reply("rt-5", "c"), 100))

	for _, c := range []struct {
		what    string
		since   time.Time
		most    uint64
		want    []string
		read    int
		bounded bool
		older   bool
	}{
		{"all", time.Time{}, 100, []string{"r assigned", "r rejected", "s released"}, 6, false, false},
		{"all that there are", time.Time{}, 7, []string{"r assigned", "r rejected", "s released"}, 6, false, false},
		{"the newest", time.Time{}, 6, []string{"r rejected", "s released"}, 5, true, false},
		{"later ones", time.Now().Add(time.Hour), 1, nil, 0, false, true},
	} {
		b.same(c.what, b.statuses(func(visit func(events.Stored) error) error {
			extent, err := b.ledger.OfTenant(b.ctx(), "ga", c.since, c.most, visit)
			if extent.Read != c.read || extent.Bounded != c.bounded || extent.Older != c.older || extent.From.IsZero() != (c.read == 0) {
				b.t.Errorf("%s: the extent is %+v", c.what, extent)
			}
			return err
		}), c.want)
	}
}

// testFoundElsewhere finds waiting requests, unsettled events and dead letters.
func testFoundElsewhere(b *bench) {
	_, err := b.dead.Newest(b.ctx(), time.Time{}, 10, func(dead.Letter) error { return errors.New("there is none") })
	b.must(err)
	for _, request := range []string{"a", "b"} {
		b.enter("rt-"+request, request, time.Now().Add(time.Hour))
		b.event(request)
		b.must(b.dead.Put(b.ctx(), dead.Event{Type: events.TypeProvision, Sequence: uint64(request[0]), Data: []byte(request)}, engine.CodeInvalidEvent, "why"))
	}
	found := func(read func(visit func(storage.WaitingRequest) error) error) (ids []string) {
		b.must(read(func(w storage.WaitingRequest) error { ids = append(ids, w.Event.ID); return nil }))
		return ids
	}
	b.same("of ga", found(func(visit func(storage.WaitingRequest) error) error {
		return b.room.Matching(b.ctx(), events.WaitingAddress{GlobalAccountID: "ga"}, visit)
	}), []string{"a", "b"})
	b.same("of another one", found(func(visit func(storage.WaitingRequest) error) error {
		return b.room.Matching(b.ctx(), events.WaitingAddress{GlobalAccountID: "a"}, visit)
	}), nil)
	b.same("of request b", found(func(visit func(storage.WaitingRequest) error) error {
		return b.room.Matching(b.ctx(), events.WaitingAddress{RequestID: "b"}, visit)
	}), []string{"b"})

	var unsettled, letters []string
	extent, err := b.ledger.Queued(b.ctx(), ">", time.Time{}, 1, func(e events.Event, sequence uint64, at time.Time, fault error) error {
		if at.IsZero() || sequence == 0 {
			b.t.Errorf("%s was published at no time, or has no sequence", e.ID)
		}
		unsettled = append(unsettled, e.ID)
		return fault
	})
	b.must(err)
	b.same("queued", unsettled, []string{"b"})
	for _, c := range []struct {
		delivered uint64
		unknown   error
		want      string
	}{
		{0, nil, "no worker has taken it up yet; events before it: 1"}, {2, nil, "in work, a worker has taken it up and not finished it"},
		{2, errors.New("no consumer"), "no worker has finished it"},
	} {
		found, extent, err := queued.Find(b.ctx(), b.ledger, time.Time{}, map[string]uint64{">": 10}, func(e events.Event) bool { return e.ID == "b" }, func(context.Context) (*jetstream.ConsumerInfo, error) {
			return &jetstream.ConsumerInfo{Delivered: jetstream.SequenceInfo{Stream: c.delivered}, NumPending: 2}, c.unknown
		})
		b.must(err)
		if len(found) != 1 || found[0].ID != "b" || found[0].State() != c.want || found[0].Published.IsZero() || extent.Read != 2 || extent.Bounded {
			b.t.Errorf("of queued events %+v are found in %+v, want b: %s", found, extent, c.want)
		}
	}
	last, err := b.dead.Newest(b.ctx(), time.Time{}, 10, func(l dead.Letter) error {
		letters = append(letters, string(l.Data))
		return nil
	})
	b.must(err)
	b.same("letters", letters, []string{"a", "b"})
	if !extent.Bounded || last.Bounded || last.Read != 2 {
		b.t.Errorf("the extents are %+v and %+v", extent, last)
	}
}
