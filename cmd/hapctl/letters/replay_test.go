package letters

import (
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/request"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/memory/memorytest"
)

// newReplayer returns a replayer with letters of provisions of rt-1 under these request ids, numbered from 1.
func newReplayer(t *testing.T, ids ...string) *replayer {
	t.Helper()
	broker, subjects := memorytest.Streams(t)
	r := &replayer{
		Requester: &request.Requester{Ledger: storage.NewLedgerOn(broker, subjects, "test"), Subjects: subjects, Timeout: time.Minute},
		dead:      dead.NewLettersOn(broker, subjects), keep: time.Hour, taken: map[string]uint64{},
	}
	for i, id := range ids {
		e, _, _ := events.NewEvent(events.TypeProvision)
		e.ID, e.Source = id, "test"
		*e.Provision = events.Provision{RuntimeID: "rt-1", GlobalAccountID: "ga-1", Plan: "aws"}
		msg, err := events.Publication(subjects, e)
		if err == nil {
			err = r.dead.Put(t.Context(), dead.Event{Subject: msg.Subject, Header: msg.Header, Data: msg.Data, Sequence: uint64(i + 1)}, engine.CodeNoMatchingRule, "no rule")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// A letter that is older than the retention is replayed only if that is wanted.
func TestOldLetter(t *testing.T) {
	t.Parallel()
	r := newReplayer(t, "p-1")
	r.keep = -time.Hour
	if _, _, err := r.event(t.Context(), "1"); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), "add --older") {
		t.Errorf("it ends with %v", err)
	}
	r.older = true
	if _, e, err := r.event(t.Context(), "1"); err != nil || e.ID != "p-1-r1" {
		t.Errorf("it is replayed as %s, %v", e.ID, err)
	}
}

// Each letter of a command has its id, also while the replay of another letter of the same request has no reply.
func TestLettersOfOneRequest(t *testing.T) {
	t.Parallel()
	r := newReplayer(t, "p-1", "p-1")
	for _, c := range [][2]string{{"1", "p-1-r1"}, {"2", "p-1-r2"}, {"1", "p-1-r1"}} {
		if _, e, err := r.event(t.Context(), c[0]); err != nil || e.ID != c[1] || e.ReplayOf != "p-1" {
			t.Errorf("letter %s is replayed as %s, %v; want %s", c[0], e.ID, err, c[1])
		}
	}
}
