package shadow

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/shadows"
	"github.com/hap-worker/hap-worker/worker/memory"
)

// oneReply is a ledger with one reply, which is no decision to compare.
type oneReply struct {
	stored  events.Stored
	removed int
}

func (l *oneReply) Each(_ context.Context, f func(events.Stored) error) error { return f(l.stored) }

func (l *oneReply) Remove(context.Context, string, uint64) error {
	l.removed++
	return nil
}

type noRebuild struct{}

func (noRebuild) Ensure(context.Context) error { return nil }

// noBook fails the test if a comparison is stored.
type noBook struct{ t *testing.T }

func (b noBook) Add(_ context.Context, c shadows.Comparison) (bool, error) {
	b.t.Errorf("compared %s %s", c.Reply.RequestID, c.Result)
	return true, nil
}

// A rejection that names a global account may answer a resolve or a deprovision. Only provisions are decisions that
// the broker makes too.
func TestOnlyProvisionsAreCompared(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, there := range []bool{false, true} {
		garden := memory.NewGardener("garden-kyma", "CredentialsBinding", engine.Binding{Name: "a", HyperscalerType: "aws", Tenant: "ga"})
		if there {
			garden.PutShoot(engine.Shoot{Name: "rt", Binding: "a"})
		}
		ledger := &oneReply{stored: events.Stored{Time: now.Add(-time.Hour), Reply: events.Reply{
			RequestID: "resolve", RuntimeID: "rt", GlobalAccountID: "ga", Status: events.StatusRejected, Error: &events.ReplyError{Code: engine.CodeNoImplementation},
		}}}
		f := Follow{Ledger: ledger, Book: noBook{t}, Reality: garden, Patience: 10 * time.Minute, now: func() time.Time { return now }}
		if settled, err := f.look(t.Context()); err != nil || !settled || ledger.removed != 1 {
			t.Errorf("with a Shoot %t: settled %t, removed %d times, %v", there, settled, ledger.removed, err)
		}
	}
}

// Patience goes by the stream's clock, whatever the machine's clock says.
func TestPatienceIsTheStreams(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		age     time.Duration // of the reply by the stream's clock
		removed bool
	}{{"young", time.Minute, false}, {"old", time.Hour, true}} {
		synctest.Test(t, func(t *testing.T) {
			stream := time.Now().Add(-24 * time.Hour) // the machine's clock is a day ahead
			ledger := &oneReply{stored: events.Stored{Time: stream.Add(-c.age), Reply: events.Reply{RuntimeID: "rt", Status: events.StatusRejected, Error: &events.ReplyError{Code: engine.CodeSuperseded}}}}
			ctx, stop := context.WithCancel(t.Context())
			f := Follow{
				Ledger: ledger, Reality: memory.NewGardener("garden-kyma", "CredentialsBinding"), Records: memory.NewCounters(), Rebuild: noRebuild{},
				Interval: time.Second, Patience: 10 * time.Minute,
				OnFailed: func(_ context.Context, err error) { t.Error(err) }, OnFollowed: func() {},
			}
			time.AfterFunc(1500*time.Millisecond, stop)
			f.Run(ctx, func() time.Time { return stream })
			if (ledger.removed > 0) != c.removed {
				t.Errorf("%s: removed %d times", c.name, ledger.removed)
			}
		})
	}
}
