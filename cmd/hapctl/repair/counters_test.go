package repair

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/audit"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/memory/memorytest"
	"github.com/hap-worker/hap-worker/worker/rebuild"
)

// crooked is a Redis whose account a has a tenant and a cluster that neither label nor ledger knows. Its
// count can be repaired; doubt is the error of a doubt, and reading that of each reading after a repair.
type crooked struct {
	*memory.Counters
	doubt, reading error
	repaired       bool
}

func (c *crooked) Bindings(ctx context.Context, pool string) iter.Seq2[account.NamedRecord, error] {
	return func(yield func(account.NamedRecord, error) bool) {
		for b, err := range c.Counters.Bindings(ctx, pool) {
			if !yield(b, err) {
				return
			}
		}
		if pool == "aws" {
			var err error
			if c.repaired {
				err = c.reading
			}
			yield(account.NamedRecord{Binding: "a", Record: account.Record{State: account.InUse, Tenant: "ga", Count: 1}}, err)
		}
	}
}

func (c *crooked) Recount(context.Context, string, string) (bool, error) {
	c.repaired = true
	return true, nil
}

func (c *crooked) Doubt(context.Context, string, string, int64) (bool, error) {
	return c.doubt == nil, c.doubt
}

func (c *crooked) audit(t *testing.T) *audit.Audit {
	t.Helper()
	broker, subjects := memorytest.Streams(t)
	ledger := storage.NewLedgerOn(broker, subjects, "/hapctl")
	landscape := memory.NewGardener("garden-kyma", "CredentialsBinding", engine.Binding{Name: "a", HyperscalerType: "aws"})
	room := storage.NewWaitingRoomOn(broker, subjects)
	rebuilder := &rebuild.Rebuilder{Builder: c.Counters, Inventory: landscape, Ledger: ledger, Waiting: room.Addresses, Subjects: subjects}
	if err := rebuilder.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &audit.Audit{Records: c, Repairer: c, Ledger: ledger, Inventory: landscape, Reader: landscape, Waiting: room.Addresses}
}

// TestFailureAfterRepairs: if one repair or the second reading fails, the output still says what was changed.
func TestFailureAfterRepairs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		redis          crooked
		changed, count string
		drifts         string
	}{
		{"a repair fails", crooked{doubt: errors.New("connection reset")}, "count-wrong", "for 1 drifts", "label-missing"},
		{"the second reading fails", crooked{reading: errors.New("connection reset")}, "label-missing,count-wrong", "for 2 drifts", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c.redis.Counters = memory.NewCounters()
				var out, talk bytes.Buffer
				s := cli.New(strings.NewReader(""), &out, &talk)
				s.Format = cli.FormatJSON
				err := runVerify(t.Context(), s, c.redis.audit(t), newProgress(s), true, false, true)
				if err == nil || !strings.Contains(err.Error(), "connection reset") || cli.ExitCode(err) != cli.ExitFailure {
					t.Errorf("it ends with %v, exit code %d", err, cli.ExitCode(err))
				}
				if !strings.Contains(talk.String(), "Redis was changed "+c.count) {
					t.Errorf("it says\n%s", talk.String())
				}
				var v verification
				if err := json.Unmarshal(out.Bytes(), &v); err != nil {
					t.Fatalf("%v: the output is %q", err, out.String())
				}
				if kinds(v.Changed) != c.changed || kinds(v.Drifts) != c.drifts {
					t.Errorf("changed %q, drifts %q; want %q and %q", kinds(v.Changed), kinds(v.Drifts), c.changed, c.drifts)
				}
			})
		})
	}
}

// TestVerifyOutOfTime: a verification whose --timeout passes ends with the exit code of time-outs.
func TestVerifyOutOfTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := crooked{Counters: memory.NewCounters()}
		a := redis.audit(t)
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		s := cli.New(strings.NewReader(""), io.Discard, io.Discard)
		if err := runVerify(ctx, s, a, newProgress(s), false, false, false); cli.ExitCode(err) != cli.ExitTimeout {
			t.Errorf("it ends with %v, exit code %d", err, cli.ExitCode(err))
		}
	})
}

// TestRepairSaysWhat: before hapctl asks, it shows the drifts that it would repair, and how.
func TestRepairSaysWhat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := crooked{Counters: memory.NewCounters()}
		var talk bytes.Buffer
		s := cli.New(strings.NewReader(""), io.Discard, &talk)
		if err := runVerify(t.Context(), s, redis.audit(t), newProgress(s), true, false, false); cli.ExitCode(err) != cli.ExitUsage {
			t.Fatal(err)
		}
		rows, _, asked := strings.Cut(talk.String(), "hapctl: repair 2 of 2 drifts in Redis (mend 1 drift, doubt 1 drift)")
		if !asked || !strings.Contains(rows, "label-missing  aws   a ") || !strings.Contains(rows, "count-wrong    aws   a ") {
			t.Errorf("it says\n%s", &talk)
		}
	})
}

// TestRebuildWithoutWorkers: without the consumer of the workers, none runs, and nothing is waited for.
func TestRebuildWithoutWorkers(t *testing.T) {
	t.Parallel()
	server := ledgertest.Server(t)
	if _, err := storage.Setup(t.Context(), server.JetStream(), storage.Options{Manage: true}); err != nil {
		t.Fatal(err)
	}
	p := &sources{js: server.JetStream()}
	if err := p.js.DeleteConsumer(t.Context(), events.StreamEvents, events.ConsumerWorker); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Fatal(err)
	}
	var err error
	if p.subjects, err = events.NewSubjects(""); err != nil {
		t.Fatal(err)
	}
	var talk bytes.Buffer
	s := cli.New(strings.NewReader(""), io.Discard, &talk)
	if workersMayRun(t.Context(), s, p) || talk.Len() > 0 {
		t.Errorf("without a consumer it says\n%s", &talk)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if !workersMayRun(over, s, p) || !strings.Contains(talk.String(), "it is not known whether workers run") || !strings.Contains(talk.String(), "within 1m0s") {
		t.Errorf("if it cannot be asked, it says\n%s", &talk)
	}
}

func kinds(drifts []driftView) string {
	return strings.Join(cli.NamesOf(drifts, func(d driftView) string { return string(d.Kind) }), ",")
}
