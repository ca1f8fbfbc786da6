package storage_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

func TestLedgerFacts(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	store(t, ledger, assigned("1"), 0)
	store(t, ledger, rejected("2", engine.CodePoolExhausted), 0)
	store(t, ledger, waiting("3"), 0)
	store(t, ledger, events.Reply{RequestID: "4", RuntimeID: "rt-4", Status: events.StatusSealed}, 0)
	returned := events.Reply{RequestID: "5", Status: events.StatusReturned, Binding: &events.Binding{Name: "aws-7"}}
	if _, err := ledger.Publish(within(t), subjects(t).BindingReply("aws-7", "5"), returned, 0); err != nil {
		t.Fatal(err)
	}
	want := []storage.Fact{
		{RuntimeID: "rt-1", RequestID: "1", GlobalAccountID: "ga-1", Status: events.StatusAssigned, Pool: "aws", Binding: "aws-7", Sequence: 4711, Claimed: true, Generation: 3},
		{RuntimeID: "rt-2", RequestID: "2", Status: events.StatusRejected, Code: engine.CodePoolExhausted},
		{RuntimeID: "rt-3", RequestID: "3", Status: events.StatusWaiting},
	}
	stored := map[string]events.Stored{}
	if err := ledger.Each(within(t), func(s events.Stored) error {
		stored[s.Reply.RequestID] = s
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	placed := func(f storage.Fact) storage.Fact {
		s := stored[f.RequestID]
		f.Subject, f.Position, f.Time = s.Subject, s.Sequence, s.Time
		return f
	}
	for i := range want {
		want[i] = placed(want[i])
	}
	got, err := facts(t, ledger)
	if err != nil || !slices.Equal(got, want) || want[0].Time.IsZero() {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	var unsealed []storage.Fact
	err = ledger.FactsAfter(within(t), 0, func(f storage.Fact) error {
		unsealed = append(unsealed, f)
		return nil
	})
	want = append(want, placed(storage.Fact{RequestID: "5", Status: events.StatusReturned, Binding: "aws-7"}))
	if err != nil || !slices.Equal(unsealed, want) {
		t.Errorf("unsealed: %+v, %v; want %+v", unsealed, err, want)
	}
}

// A message that is no reply is reported, and the messages beside it are read.
func TestLedgerFactsForeign(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{`, `{"type":"other","data":{"runtimeID":"rt-1","status":"assigned"}}`,
		`{"type":"hap.reply.v1","specversion":"1.0","id":"q/lost","source":"/s","data":{"requestID":"q","runtimeID":"rt-1","status":"lost"}}`,
		`{"type":"hap.reply.v1","data":{"runtimeID":"no id","status":"assigned"}}`,
		`{"type":"hap.reply.v1","data":{"decision":{"sequence":"1"}}}`,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, js := setup(t)
			if _, err := js.Publish(within(t), replySubject(t, "1"), []byte(text)); err != nil {
				t.Fatal(err)
			}
			ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
			store(t, ledger, rejected("2", "PoolExhausted"), 0)
			found, err := facts(t, ledger)
			if err != nil || len(found) != 2 || found[0].Foreign == nil || found[1].RequestID != "2" ||
				!strings.Contains(found[0].Foreign.Error(), "sequence 1 of HAP_REPLIES") {
				t.Errorf("%+v, %v", found, err)
			}
		})
	}
}

func facts(t *testing.T, ledger *storage.Ledger) ([]storage.Fact, error) {
	t.Helper()
	var found []storage.Fact
	err := ledger.Facts(within(t), func(f storage.Fact) error {
		found = append(found, f)
		return nil
	})
	return found, err
}

// TestLedgerSince: OfTenant reads no reply from before since, and misses no newer one.
func TestLedgerSince(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	since := func(at time.Time) (found []string) {
		t.Helper()
		if _, err := ledger.OfTenant(within(t), "ga-1", at, streams.Everything, func(s events.Stored) error {
			found = append(found, s.Reply.RequestID)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := since(time.Time{}); found != nil {
		t.Errorf("an empty ledger has %v", found)
	}
	for _, id := range []string{"1", "2", "3"} {
		store(t, ledger, assigned(id), 0)
	}
	all, err := facts(t, ledger)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, c := range []struct {
		at   time.Time
		want []string
	}{
		{time.Time{}, []string{"1", "2", "3"}}, {all[1].Time, []string{"2", "3"}},
		{all[1].Time.Add(1), []string{"3"}}, {all[2].Time.Add(1), nil},
	} {
		if found := since(c.at); !slices.Equal(found, c.want) {
			t.Errorf("since %s: %v, want %v", c.at, found, c.want)
		}
	}
}
