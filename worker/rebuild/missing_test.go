package rebuild

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// TestUnknownPools: requests for many unknown pools cause few rebuilds and delay no other rebuild. A
// requested pool is forgotten by the first attempt after it was built.
func TestUnknownPools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newRebuilder, record := fenced(t)
		record.replicas = 3
		redis := servers{memory.NewCounters()}
		r := newRebuilder(redis)
		var rebuilds atomic.Int64
		r.Observer.OnStep = func(_ context.Context, s observe.Step) {
			if s == observe.StepSealed {
				rebuilds.Add(1)
			}
		}
		if err := r.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		defer func() { cancel(); <-done }()
		before := rebuilds.Load()
		var pools []string
		for n := range 30 {
			pools = append(pools, fmt.Sprintf("aws_region-%d", n))
			r.Wanted(pools[n])
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		epochs, err := redis.Epochs(t.Context(), pools...)
		if took := rebuilds.Load() - before; err != nil || took > 5 {
			t.Errorf("30 pools took %d rebuilds, %v", took, err)
		}
		for _, pool := range pools {
			if epochs[pool] == "" {
				t.Errorf("%s is not built", pool)
			}
		}
		if err := r.Ensure(t.Context()); err != nil { // an attempt that finds all built
			t.Fatal(err)
		}
		if len(r.asked) > 0 {
			t.Errorf("%d pools are remembered", len(r.asked))
		}

		// A loss is repaired at once, although a rebuild for unknown pools would have to wait.
		r.paced = time.Now().Add(mostPace)
		if err := redis.Lose(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.Wanted("aws_one-more")
		time.Sleep(depositionTime + depositionTime/5)
		if epochs, err = redis.Epochs(t.Context(), "aws_one-more"); err != nil || epochs["aws_one-more"] == "" {
			t.Errorf("what was lost is not rebuilt: %v, %v", epochs, err)
		}
	})
}

// TestForgottenPools: however many pools requests invent, the record names few of them. One that it has forgotten is
// not in force until a request asks for it again, and is rebuilt like one that it names: after outlastTime.
func TestForgottenPools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newRebuilder, record := fenced(t)
		record.replicas = 3
		redis := servers{memory.NewCounters()}
		r := newRebuilder(redis)
		r.MostUnknown = 3
		if err := r.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		epochs := func() account.Epochs {
			found, err := record.Epochs(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return found.Epochs
		}
		before := epochs()
		began := time.Now()
		for n := range 10 {
			r.Wanted(fmt.Sprintf("aws_region-%d", n))
			if err := r.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			if invented := len(epochs()) - len(before); invented > 1+3+1 { // the new one, those kept, and account.ForgottenPlace
				t.Fatalf("the record names %d invented pools", invented)
			}
		}
		if bucket := account.BucketName(0); epochs()[bucket] != before[bucket] {
			t.Error("the directory was rebuilt")
		}
		if took := time.Since(began); took < outlastTime {
			t.Errorf("built after %s: a pool that the record does not name may be one that it has forgotten", took)
		}
		const first = "aws_region-0"
		inForce := func() bool {
			has, err := redis.Epochs(t.Context(), first)
			if err != nil {
				t.Fatal(err)
			}
			return has[first] != "" && has[first] == epochs()[first]
		}
		if inForce() {
			t.Error("a forgotten pool is in force")
		}
		r.Wanted(first)
		if err := r.Ensure(t.Context()); err != nil || !inForce() {
			t.Errorf("a forgotten pool that is asked for again: %v, in force: %t", err, inForce())
		}
	})
}

// TestMostAsked: a rebuild has a limited number of pools that only requests ask for.
func TestMostAsked(t *testing.T) {
	t.Parallel()
	newRebuilder, record := fenced(t)
	r := newRebuilder(servers{memory.NewCounters()})
	for n := range 2 * mostAsked {
		r.Wanted(fmt.Sprintf("aws_region-%d", n))
	}
	if err := r.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, err := record.Epochs(t.Context())
	if err != nil || found.Epochs["aws_region-0"] == "" || len(found.Epochs) > mostAsked+account.Buckets+10 {
		t.Errorf("%d places, %v", len(found.Epochs), err)
	}
}

// TestPaceOfAClockThatWasPutBack: after the clock was set back, rebuilds are not delayed.
func TestPaceOfAClockThatWasPutBack(t *testing.T) {
	t.Parallel()
	newRebuilder, record := fenced(t)
	redis := servers{memory.NewCounters()}
	r := newRebuilder(redis)
	if err := r.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.paced = time.Now().Add(time.Hour)
	if err := redis.Lose(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Wanted("aws")
	if err := r.attempt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if epoch, inForce := epochOf(t, redis, record); epoch == "" || epoch != inForce {
		t.Errorf("built as %q, in force is %q", epoch, inForce)
	}
}

// noRanges has no network ranges.
type noRanges struct{ RangeBuilder }

func (noRanges) Epoch(context.Context) (string, error) { return "", nil }

// TestRangesWhilePoolsWait: while a rebuild of pools has to wait, the observer is told that the ranges cannot be
// rebuilt, and another landscape ends Ensure.
func TestRangesWhilePoolsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newRebuilder, _ := fenced(t)
		r := newRebuilder(servers{memory.NewCounters()})
		if err := r.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.Wanted("aws_one-more")
		r.paced, r.Ranges = time.Now().Add(mostPace), noRanges{}
		r.Belongs = func(context.Context) error { return &engine.ForeignError{} }
		told := 0
		r.Observer.OnRebuild = func(context.Context, observe.Rebuild) { told++ }
		ctx, cancel := context.WithTimeout(t.Context(), mostPace/2)
		defer cancel()
		if _, foreign := errors.AsType[*engine.ForeignError](r.Ensure(ctx)); !foreign || ctx.Err() != nil || told != 1 {
			t.Errorf("told %d times, ended by %v", told, context.Cause(ctx))
		}
	})
}
