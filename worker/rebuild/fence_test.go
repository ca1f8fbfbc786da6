package rebuild

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// servers are Redis, of which one may come to be the master beside another.
type servers struct{ *memory.Counters }

// kept is a record whose writes a test watches, and may break.
type kept struct {
	*events.Ledger
	broker   *memory.Broker
	replicas int
	write    func(write func() (uint64, error)) (uint64, error)
}

func (k *kept) SetEpochs(ctx context.Context, epochs account.Epochs, follows uint64) (uint64, error) {
	return k.write(func() (uint64, error) { return k.Ledger.SetEpochs(ctx, epochs, follows) })
}

func (k *kept) Replicas(context.Context) (int, error) { return k.replicas, nil }

// fenced returns what a test rebuilds with: redis has no epoch, the record is empty.
func fenced(t *testing.T) (newRebuilder func(redis Builder) *Rebuilder, record *kept) {
	t.Helper()
	broker, err := memory.NewBroker(events.Options{})
	if err != nil {
		t.Fatal(err)
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	ledger := events.NewLedgerOn(broker, subjects, "test")
	record = &kept{Ledger: ledger, broker: broker, replicas: 1, write: func(write func() (uint64, error)) (uint64, error) { return write() }}
	return func(redis Builder) *Rebuilder {
		r := &Rebuilder{
			Builder: redis, Inventory: emptyInventory{}, Ledger: ledger, Room: events.NewWaitingRoomOn(broker, subjects), Subjects: subjects, Record: record,
		}
		r.Wanted("aws")
		return r
	}, record
}

func epochOf(t *testing.T, redis Builder, record Record) (epoch, inForce string) {
	t.Helper()
	epochs, err := redis.Epochs(t.Context(), "aws")
	if err != nil {
		t.Fatal(err)
	}
	found, err := record.Epochs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return epochs["aws"], found.Epochs["aws"]
}

// TestEpochInForce: where another server may come to be the master, the record names what is
// installed, from before the events are sealed.
func TestEpochInForce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newRebuilder, record := fenced(t)
		redis := servers{memory.NewCounters()}
		r := newRebuilder(redis)
		var mu sync.Mutex // places are installed side by side
		var steps []observe.Step
		r.Observer.OnStep = func(_ context.Context, s observe.Step) {
			mu.Lock()
			defer mu.Unlock()
			steps = append(steps, s)
		}
		record.write = func(write func() (uint64, error)) (uint64, error) {
			if len(steps) != 1 || steps[0] != observe.StepToken {
				t.Errorf("the record is written after %v", steps)
			}
			return write()
		}
		if err := r.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		epoch, inForce := epochOf(t, redis, record)
		if !account.Fenced(epoch) || epoch != inForce {
			t.Errorf("built as %q, in force is %q", epoch, inForce)
		}
	})
}

// TestRecordIsReplaced: a message that is no record ends no rebuild. What it has displaced is
// unknown, so everything is built anew under a record that is written after it, once no leader
// of NATS can show the one from before.
func TestRecordIsReplaced(t *testing.T) {
	t.Parallel()
	for _, junk := range []string{"{", `"x"`, `{}`, `{"data": {"requestID": "in-force", "status": "released"}}`} {
		synctest.Test(t, func(t *testing.T) {
			newRebuilder, record := fenced(t)
			record.replicas = 3
			redis := servers{memory.NewCounters()}
			if err := newRebuilder(redis).Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			before, _ := epochOf(t, redis, record)
			if _, err := record.broker.Publish(t.Context(), &nats.Msg{Subject: "hap.v1.reply._epochs.in-force", Data: []byte(junk)}); err != nil {
				t.Fatal(err)
			}
			r := newRebuilder(redis)
			foreign, begin := 0, time.Now()
			r.Observer.OnRebuild = func(_ context.Context, i observe.Rebuild) { foreign += i.Foreign }
			if err := r.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			epoch, inForce := epochOf(t, redis, record)
			if epoch == before || epoch != inForce || foreign < 1 || time.Since(begin) < outlastTime {
				t.Errorf("%s: built as %q, in force is %q, before %q; %d foreign messages told, after %s", junk, epoch, inForce, before, foreign, time.Since(begin))
			}
		})
	}
}

// TestEpochOfAnOlderVersion: an epoch that no record names, as an older version made for a server without
// replicas, is built anew: a second server may stand beside it under the same name.
func TestEpochOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	newRebuilder, record := fenced(t)
	redis := memory.NewCounters()
	older := newRebuilder(redis)
	older.Record = nil
	if err := older.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if epoch, inForce := epochOf(t, redis, record); account.Fenced(epoch) || epoch == "" || inForce != "" {
		t.Fatalf("built as %q, in force is %q", epoch, inForce)
	}
	if err := newRebuilder(redis).Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if epoch, inForce := epochOf(t, redis, record); !account.Fenced(epoch) || epoch != inForce {
		t.Errorf("then built as %q, in force is %q", epoch, inForce)
	}
}

// TestRecordOfReplicatedStreams: until a leader of NATS that was deposed can answer no more,
// nothing is read.
func TestRecordOfReplicatedStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newRebuilder, record := fenced(t)
		record.replicas = 3
		redis := servers{memory.NewCounters()}
		begun := time.Now()
		if err := newRebuilder(redis).Ensure(t.Context()); err != nil || !time.Now().Equal(begun) {
			t.Fatalf("without a record: %v after %s", err, time.Since(begun))
		}
		if err := redis.Lose(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := newRebuilder(redis)
		var sealed time.Duration
		begin := time.Now()
		r.Observer.OnStep = func(_ context.Context, s observe.Step) { // sealed once, before several install
			if s == observe.StepSealed {
				sealed = time.Since(begin)
			}
		}
		if err := r.Ensure(t.Context()); err != nil || sealed < depositionTime {
			t.Errorf("sealed after %s, %v", sealed, err)
		}
	})
}

// TestWriteOfTheRecord: what another worker wrote first stands; a write without an answer
// is read back.
func TestWriteOfTheRecord(t *testing.T) {
	t.Parallel()
	timeout := errors.New("timeout")
	for name, c := range map[string]struct {
		write func(record *kept, write func() (uint64, error)) (uint64, error)
		want  error
	}{
		"another's came first": {func(record *kept, write func() (uint64, error)) (uint64, error) {
			if _, err := record.Ledger.SetEpochs(context.Background(), account.Epochs{"aws": account.FencedEpoch("other")}, 0); err != nil {
				return 0, err
			}
			return write()
		}, ErrElsewhere},
		"its answer is lost": {func(_ *kept, write func() (uint64, error)) (uint64, error) {
			_, err := write()
			return 0, errors.Join(timeout, err)
		}, nil},
		"it is lost": {func(*kept, func() (uint64, error)) (uint64, error) { return 0, timeout }, ErrElsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newRebuilder, record := fenced(t)
			redis := servers{memory.NewCounters()}
			record.write = func(write func() (uint64, error)) (uint64, error) { return c.write(record, write) }
			r := newRebuilder(redis)
			if err := r.attempt(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if epoch, inForce := epochOf(t, redis, record); (epoch != "") != (c.want == nil) || epoch != "" && epoch != inForce {
				t.Errorf("built as %q, in force is %q", epoch, inForce)
			}
		})
	}
}

// TestAnotherServerHasTheEpochs: a worker that reaches a server whose epochs are not in force
// looks for the master, and takes over only when the record has stood still for a while.
func TestAnotherServerHasTheEpochs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newRebuilder, record := fenced(t)
		old, present := servers{memory.NewCounters()}, servers{memory.NewCounters()}
		here, there := newRebuilder(old), newRebuilder(present)
		reconnected := 0
		here.Reconnect = func() { reconnected++ }
		began := time.Now()
		if err := errors.Join(here.Ensure(t.Context()), there.Ensure(t.Context())); err != nil {
			t.Fatal(err)
		}
		if epoch, inForce := epochOf(t, present, record); epoch != inForce || !time.Now().Equal(began) {
			t.Fatalf("the present master was built as %q after %s, in force is %q", epoch, time.Since(began), inForce)
		}
		was, inForce := epochOf(t, old, record)
		if was == "" || was == inForce {
			t.Fatalf("the old master has %q, in force is %q", was, inForce)
		}
		// One side and the other take over from each other, and wait longer each time.
		took := make([]time.Duration, 3)
		for i, r := range []*Rebuilder{here, there, here} {
			begin := time.Now()
			if err := r.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			took[i] = time.Since(begin)
		}
		if reconnected != 2 || took[0] < firstPause || took[1] < firstPause || took[2] < 2*firstPause {
			t.Errorf("taken over after %v, looked for the master %d times", took, reconnected)
		}
		if now, inForce := epochOf(t, old, record); now != inForce || now == was {
			t.Errorf("the old master has %q, had %q, in force is %q", now, was, inForce)
		}
	})
}

// TestDeposedTogether: while a worker that died still has the token of a place, no other
// rebuild deposes the rest of them on the other master.
func TestDeposedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newRebuilder, record := fenced(t)
		old, present := servers{memory.NewCounters()}, servers{memory.NewCounters()}
		if err := newRebuilder(old).Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		before, err := record.Epochs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lease := 10 * time.Second
		if ours, err := present.BeginRebuild(t.Context(), "aws", "fenced-of-one-that-died", time.Now(), lease); !ours || err != nil {
			t.Fatal(ours, err)
		}
		there := newRebuilder(present)
		there.Lease = lease
		there.init()
		if err := there.attempt(t.Context()); !errors.Is(err, ErrElsewhere) {
			t.Errorf("a part of the places: %v", err)
		}
		if now, err := record.Epochs(t.Context()); err != nil || !maps.Equal(now.Epochs, before.Epochs) {
			t.Errorf("a part of the places is deposed, %v", err)
		}
		began := time.Now()
		if err := there.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		now, err := record.Epochs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for place, epoch := range now.Epochs {
			if epoch == before.Epochs[place] {
				t.Errorf("%s was not taken over", place)
			}
		}
		if took := time.Since(began); took > 2*lease {
			t.Errorf("taken over after %s, a lease is %s", took, lease)
		}
	})
}

// TestTwoSidesWithReplicatedStreams: two workers that reach a master each take over from each
// other, but not so soon that neither gets to decide.
func TestTwoSidesWithReplicatedStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newRebuilder, record := fenced(t)
		record.replicas = 3
		sides := []servers{{memory.NewCounters()}, {memory.NewCounters()}}
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		defer ended.Wait()
		defer cancel()
		for _, redis := range sides {
			r := newRebuilder(redis)
			ended.Go(func() {
				for ctx.Err() == nil {
					r.Wanted("aws")    // a request does, where the directory was built without its pool
					_ = r.attempt(ctx) // it is made again, as Ensure does
					time.Sleep(time.Second)
				}
			})
		}
		var without, longest time.Duration
		for range 10 * time.Minute / time.Second {
			time.Sleep(time.Second)
			without += time.Second
			for _, redis := range sides {
				if epoch, inForce := epochOf(t, redis, record); epoch == inForce {
					without = 0
				}
			}
			longest = max(longest, without)
		}
		if longest > outlastTime+5*time.Second {
			t.Errorf("nobody could decide for %s, a rebuild takes %s", longest, outlastTime)
		}
	})
}

// TestRecordIsLost: what was in force is not, and is rebuilt at once.
func TestRecordIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newRebuilder, record := fenced(t)
		redis := servers{memory.NewCounters()}
		r := newRebuilder(redis)
		if err := r.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		was, _ := epochOf(t, redis, record)
		found, err := record.Epochs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := record.Remove(t.Context(), "hap.v1.reply._epochs.in-force", found.Sequence); err != nil {
			t.Fatal(err)
		}
		if err := r.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now, inForce := epochOf(t, redis, record); now != inForce || now == was {
			t.Errorf("built as %q, had %q, in force is %q", now, was, inForce)
		}
	})
}
