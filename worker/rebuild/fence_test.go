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
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/memory/memorytest"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// servers is a server of Redis. Tests with two of them have two masters.
type servers struct{ *memory.Counters }

// kept is a record whose writes call write, so that a test can make them fail.
type kept struct {
	*storage.Ledger
	broker   *memory.Broker
	replicas int
	write    func(write func() (uint64, error)) (uint64, error)
}

func (k *kept) SetEpochs(ctx context.Context, epochs account.Epochs, follows uint64) (uint64, error) {
	return k.write(func() (uint64, error) { return k.Ledger.SetEpochs(ctx, epochs, follows) })
}

func (k *kept) Replicas(context.Context) (int, error) { return k.replicas, nil }

// fenced returns a constructor of Rebuilders that share one empty record.
func fenced(t *testing.T) (newRebuilder func(redis Builder) *Rebuilder, record *kept) {
	t.Helper()
	broker, subjects := memorytest.Streams(t)
	ledger := storage.NewLedgerOn(broker, subjects, "test")
	record = &kept{Ledger: ledger, broker: broker, replicas: 1, write: func(write func() (uint64, error)) (uint64, error) { return write() }}
	return func(redis Builder) *Rebuilder {
		r := &Rebuilder{
			Builder: redis, Inventory: emptyInventory{}, Ledger: ledger, Waiting: storage.NewWaitingRoomOn(broker, subjects).Addresses, Subjects: subjects, Record: record,
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

// TestEpochInForce: the record names the new epoch before the events are sealed.
func TestEpochInForce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newRebuilder, record := fenced(t)
		redis := servers{memory.NewCounters()}
		r := newRebuilder(redis)
		var mu sync.Mutex // places are installed concurrently
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

// TestRecordIsReplaced: a message that is no record does not end a rebuild. The record that it has replaced is
// unknown, so everything is rebuilt under a new record, after outlastTime.
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

// TestEpochOfAnOlderVersion: a place whose epoch is in no record is rebuilt. An older version wrote no record
// for a server without replicas, which may be one of two with the same name.
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

// TestRecordOfReplicatedStreams: a rebuild seals and reads nothing until a deposed leader of NATS can no
// longer answer.
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
		r.Observer.OnStep = func(_ context.Context, s observe.Step) { // StepSealed comes once, so no race
			if s == observe.StepSealed {
				sealed = time.Since(begin)
			}
		}
		if err := r.Ensure(t.Context()); err != nil || sealed < depositionTime {
			t.Errorf("sealed after %s, %v", sealed, err)
		}
	})
}

// TestWriteOfTheRecord: a record that another worker wrote first stands. After a write without an answer, the
// record is read back.
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
		"it is lost": {func(*kept, func() (uint64, error)) (uint64, error) { return 0, timeout }, timeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newRebuilder, record := fenced(t)
			redis := servers{memory.NewCounters()}
			record.write = func(write func() (uint64, error)) (uint64, error) { return c.write(record, write) }
			r := newRebuilder(redis)
			err := r.attempt(t.Context())
			if !errors.Is(err, c.want) || errors.Is(err, ErrElsewhere) != errors.Is(c.want, ErrElsewhere) { // which is not logged
				t.Errorf("%v, want %v", err, c.want)
			}
			if epoch, inForce := epochOf(t, redis, record); (epoch != "") != (c.want == nil) || epoch != "" && epoch != inForce {
				t.Errorf("built as %q, in force is %q", epoch, inForce)
			}
		})
	}
}

// TestAnotherServerHasTheEpochs: a worker whose server's epochs are not in force reconnects, and takes over
// only after the record has not changed for a while.
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
		// Two workers take over from each other, and wait longer each time.
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

// TestDeposedTogether: while a dead worker's token is in one place, no other rebuild deposes the other places.
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

// TestTwoSidesWithReplicatedStreams: two workers with a master each take over from each other, but so slowly
// that one of them can decide in between.
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
					r.Wanted("aws")    // as a request does
					_ = r.attempt(ctx) // retried, as by Ensure
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

// TestRecordIsLost: without the record no epoch is in force, and everything is rebuilt at once.
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
