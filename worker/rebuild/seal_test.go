package rebuild

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/memory/memorytest"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// slowLedger answers each call after a round trip, and fails to store one reply.
type slowLedger struct {
	*storage.Ledger

	fails string // the request whose seal is not stored
}

const roundTrip = 10 * time.Millisecond

var errLost = errors.New("the answer is lost")

func (l slowLedger) Publish(ctx context.Context, subject string, r events.Reply, expected uint64) (uint64, error) {
	time.Sleep(roundTrip) // virtual
	if r.RequestID == l.fails {
		return 0, errLost
	}
	return l.Ledger.Publish(ctx, subject, r, expected)
}

// sealAll seals 1,000 events, of which the first ten have a final reply.
func sealAll(t *testing.T, fails string) (info observe.Rebuild, took time.Duration, sealed int, err error) {
	t.Helper()
	broker, subjects := memorytest.Streams(t)
	if err := broker.Setup(); err != nil {
		t.Fatal(err)
	}
	ledger := storage.NewLedgerOn(broker, subjects, "test")
	for n := range 1000 {
		id := fmt.Sprintf("r-%d", n)
		e := events.Event{Type: events.TypeDeprovision, ID: id, Source: "test", RuntimeID: id, Deprovision: &events.Deprovision{RuntimeID: id, GlobalAccountID: "ga"}}
		data, err := events.EncodeEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := broker.Publish(t.Context(), &nats.Msg{Subject: subjects.Deprovision("ga"), Data: data}); err != nil {
			t.Fatal(err)
		}
		if n < 10 {
			if _, err := ledger.Publish(t.Context(), subjects.Reply(id, id), events.Reply{RequestID: id, RuntimeID: id, Status: events.StatusReleased}, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	begin := time.Now()
	r := &Rebuilder{Ledger: slowLedger{ledger, fails}, Waiting: storage.NewWaitingRoomOn(broker, subjects).Addresses, Subjects: subjects}
	err = r.seal(t.Context(), &info)
	took = time.Since(begin)
	if each := ledger.Each(t.Context(), func(s events.Stored) error {
		if s.Reply.Status == events.StatusSealed {
			sealed++
		}
		return nil
	}); each != nil {
		t.Fatal(each)
	}
	return info, took, sealed, err
}

// Seals are published concurrently, and all are stored when seal returns.
func TestSealsAreUnderWayTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		info, took, sealed, err := sealAll(t, "")
		if err != nil || info.Sealed != 990 || sealed != 990 {
			t.Errorf("%d sealed, %d told, %v; want 990, the others have their answer", sealed, info.Sealed, err)
		}
		if most := 30 * roundTrip; took > most {
			t.Errorf("1,000 seals took %s, want at most %s", took, most)
		}
	})
}

// If one seal fails, seal returns its error, and the rebuild starts over.
func TestASealThatFailsEndsSealing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, fails := range []string{"r-10", "r-500", "r-999"} {
			if _, _, _, err := sealAll(t, fails); !errors.Is(err, errLost) {
				t.Errorf("without the seal of %s sealing ends with %v", fails, err)
			}
		}
	})
}
