package bulkhead

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var (
	errDown  = errors.New("down")
	errHangs = errors.New("hangs")
	errTold  = errors.New("an answer")
	labels   = Part{Labels, "aws"}
)

// watched are bulkheads that record the calls of Options.Changed.
type watched struct {
	*Bulkheads
	changes []string
}

func watch() *watched {
	w := &watched{}
	w.Bulkheads = New(Options{
		Failed: func(_ Part, err error) bool { return errors.Is(err, errDown) }, Hangs: errHangs,
		Changed: func(of Part, open bool, last error) {
			w.changes = append(w.changes, fmt.Sprintf("%s %t %v", of, open, last))
		},
	})
	return w
}

func (w *watched) Call(of Part, call func() error) error {
	_, err := Ask(w.Bulkheads, of, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

func (w *watched) CallBounded(ctx context.Context, of Part, call func() error) error {
	_, err := AskBounded(ctx, w.Bulkheads, of, func(context.Context) (struct{}, error) { return struct{}{}, call() })
	return err
}

// opens makes as many calls of a part fail as open its circuit.
func (w *watched) opens(of Part) {
	for range inARow {
		_ = w.Call(of, ends(errDown))
	}
}

func ends(err error) func() error { return func() error { return err } }

// heldAfter reports whether err is an *Error whose Last is last, and does not unwrap to last.
func heldAfter(err, last error) bool {
	held, is := errors.AsType[*Error](err)
	return is && held.Last == last && !errors.Is(err, last) //nolint:errorlint // that very one
}

// TestOpensAndCloses: ten failures in a row open the circuit. Then one call a second is made, and its success
// closes the circuit. Other parts are not affected.
func TestOpensAndCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch()
		opens := time.Now()
		for n := range inARow {
			if err := w.Call(labels, ends(errDown)); Held(err) {
				t.Fatalf("call %d is not made", n)
			}
		}
		if err := w.Check(labels); !heldAfter(err, errDown) {
			t.Errorf("an open circuit is checked: %v", err)
		}
		if err := errors.Join(w.Check(Part{Labels, "gcp"}), w.Check(Part{Bindings, "aws"})); err != nil {
			t.Errorf("other parts: %v", err)
		}
		made := func() bool {
			asked := false
			err := w.Call(labels, func() error { asked = true; return errDown })
			if asked != errors.Is(err, errDown) || asked == heldAfter(err, errDown) {
				t.Errorf("asked %t, error %v", asked, err)
			}
			return asked
		}
		for second := range 3 {
			if second > 0 && !made() {
				t.Errorf("not asked after a second")
			}
			for range 5 {
				if made() {
					t.Error("asked within a second")
				}
			}
			time.Sleep(pause + time.Millisecond)
		}
		if err := w.Call(Part{Labels, "gcp"}, ends(nil)); err != nil {
			t.Errorf("another pool: %v", err)
		}
		if open := w.Open(); len(open) != 1 || open[0].Part != labels || !errors.Is(open[0].Last, errDown) || !open[0].Since.Equal(opens) {
			t.Errorf("open: %v, want one since %s", open, opens)
		}
		if err := w.Call(labels, ends(errTold)); !errors.Is(err, errTold) {
			t.Errorf("the attempt: %v", err)
		}
		if err := w.Call(labels, ends(nil)); err != nil || len(w.Open()) != 0 {
			t.Errorf("after an answer: %v, open %v", err, w.Open())
		}
		if want := []string{"labels of pool aws true down", "labels of pool aws false down"}; fmt.Sprint(w.changes) != fmt.Sprint(want) {
			t.Errorf("changes: %q, want %q", w.changes, want)
		}
	})
}

// TestAttemptsCount: the attempts of a call that retries open the circuit, which ends the call. At an open
// circuit the call makes one attempt.
func TestAttemptsCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch()
		attempts := 0
		stubborn := func(ctx context.Context) (struct{}, error) {
			for {
				attempts++
				if err := engine.AttemptFailed(ctx, errDown); err != nil {
					return struct{}{}, err
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
		_, err := AskBounded(t.Context(), w.Bulkheads, labels, stubborn)
		if !heldAfter(err, errDown) || attempts != inARow {
			t.Errorf("%v after %d attempts, want %d", err, attempts, inARow)
		}
		time.Sleep(pause + time.Millisecond)
		attempts = 0
		if _, err := AskBounded(t.Context(), w.Bulkheads, labels, stubborn); !Held(err) || attempts != 1 {
			t.Errorf("%v after %d attempts at an open circuit, want 1", err, attempts)
		}
		time.Sleep(pause + time.Millisecond)
		if err := w.Call(labels, ends(nil)); err != nil {
			t.Error(err)
		}
		if open := w.Open(); len(open) > 0 {
			t.Errorf("open: %v", open)
		}
	})
}

// TestHalfOfTheCalls: a circuit also opens if half of the calls fail, but not if a third fails.
func TestHalfOfTheCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		every int // call fails
		open  bool
	}{{2, true}, {3, false}} {
		synctest.Test(t, func(t *testing.T) {
			w := watch()
			for n := range 10 * enough {
				err := error(nil)
				if n%c.every == 0 {
					err = errDown
				}
				_ = w.Call(labels, ends(err))
			}
			if open := len(w.Open()) == 1; open != c.open {
				t.Errorf("each %d fails: open %t", c.every, open)
			}
		})
	}
}

// TestGivenUpCallsDoNotCount: a call that its caller has cancelled does not count.
func TestGivenUpCallsDoNotCount(t *testing.T) {
	t.Parallel()
	w := watch()
	for range 100 {
		_ = w.Call(labels, ends(context.Canceled))
	}
	if open := w.Open(); len(open) != 0 {
		t.Errorf("open: %v", open)
	}
}

// TestPanicIsAFailure: a call that panics releases its slot.
func TestPanicIsAFailure(t *testing.T) {
	t.Parallel()
	w := watch()
	for range 2 * slots {
		func() {
			defer func() { _ = recover() }()
			_ = w.CallBounded(t.Context(), labels, func() error { panic("at the disco") })
		}()
	}
	if err := w.CallBounded(t.Context(), labels, ends(nil)); err != nil {
		t.Error(err)
	}
}

// TestHangingPartHoldsNothingUp: if all slots are taken by hanging calls, waiting calls fail after patience,
// and later calls at once.
func TestHangingPartHoldsNothingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch()
		ctx, cancel := context.WithCancel(t.Context())
		hanging := func() error { <-ctx.Done(); return errDown }
		var calls sync.WaitGroup
		for range slots {
			calls.Go(func() { _ = w.CallBounded(ctx, labels, hanging) })
		}
		synctest.Wait()
		if err := w.Check(labels); err != nil {
			t.Errorf("before its patience ends: %v", err)
		}
		time.AfterFunc(patience+time.Millisecond, func() {
			if err := w.Check(labels); !heldAfter(err, errHangs) {
				t.Errorf("hanging: %v", err)
			}
		})
		begin := time.Now()
		for range 3 {
			calls.Go(func() {
				if err := w.CallBounded(ctx, labels, ends(nil)); !heldAfter(err, errHangs) {
					t.Errorf("beside hanging calls: %v", err)
				}
				if waited := time.Since(begin); waited > patience+10*time.Millisecond {
					t.Errorf("waited %s", waited)
				}
			})
		}
		time.Sleep(patience + time.Second)
		synctest.Wait()
		at := time.Now()
		if err := w.CallBounded(ctx, labels, ends(nil)); !Held(err) || time.Since(at) > 0 {
			t.Errorf("a second later: %v after %s", err, time.Since(at))
		}
		gone, leave := context.WithCancelCause(t.Context())
		leave(errTold)
		if err := w.CallBounded(gone, Part{Shoots, ""}, ends(nil)); err != nil {
			t.Errorf("with a free slot: %v", err)
		}
		cancel()
		calls.Wait()
		time.Sleep(2 * pause)
		if err := w.CallBounded(t.Context(), labels, ends(nil)); err != nil {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestSlowPartServesAll: a slow part serves all waiting calls, at most slots of them at a time.
func TestSlowPartServesAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch()
		var running, most, held atomic.Int64
		var calls sync.WaitGroup
		for range 20 * slots {
			calls.Go(func() {
				err := w.CallBounded(t.Context(), labels, func() error {
					now := running.Add(1)
					for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
					}
					time.Sleep(200 * time.Millisecond)
					running.Add(-1)
					return nil
				})
				if err != nil {
					held.Add(1)
				}
			})
		}
		calls.Wait()
		if most.Load() != slots || held.Load() != 0 {
			t.Errorf("%d calls at a time, %d not made", most.Load(), held.Load())
		}
	})
}

// TestSharedAnswersAreNoSpeed: a part whose concurrent callers share one slow answer does not hang, however
// many there are.
func TestSharedAnswersAreNoSpeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch()
		lists := func(callers int) {
			var calls sync.WaitGroup
			for range callers {
				calls.Go(func() {
					err := w.CallBounded(t.Context(), Part{Shoots, ""}, func() error { time.Sleep(2 * patience); return nil })
					if err != nil {
						t.Errorf("of %d callers: %v", callers, err)
					}
				})
			}
			calls.Wait()
		}
		lists(slots)
		lists(slots + 1)
	})
}

// TestCheckAfterACallThatWasGivenUp: if the call that tries a part again is given up, the next one may try it.
func TestCheckAfterACallThatWasGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch()
		w.opens(labels)
		time.Sleep(pause + time.Millisecond)
		if err := w.Call(labels, ends(context.Canceled)); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := w.Check(labels); err != nil {
			t.Errorf("after a call that was given up: %v", err)
		}
	})
}

// TestPartsAreBounded: the number of parts stays bounded, however many pools are named.
func TestPartsAreBounded(t *testing.T) {
	t.Parallel()
	w := watch()
	for n := range 2 * mostParts {
		if err := w.Call(Part{Records, fmt.Sprint(n)}, ends(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.parts) != mostParts {
		t.Errorf("%d parts", len(w.parts))
	}
}

// TestIdlePartsMakeRoom: pools that were named once do not keep the circuits from those that are in use.
func TestIdlePartsMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch()
		w.opens(Part{Records, "open"})
		for n := range mostParts {
			_ = w.Call(Part{Records, fmt.Sprint(n)}, ends(nil))
		}
		late := Part{Records, "late"}
		if w.opens(late); w.Check(late) != nil {
			t.Error("it has a circuit, though all others are in use")
		}
		time.Sleep(2 * window)
		w.opens(Part{Records, "open"}) // once more
		if w.opens(late); w.Check(late) == nil {
			t.Error("it has no circuit, though all others are idle")
		}
		if len(w.parts) != 2 {
			t.Errorf("%d parts, not the one that failed before and the late one", len(w.parts))
		}
	})
}

// TestCircuitsThatAreNotTried: only a call can close a circuit. One that no call has tried for a minute is not told as
// open, but holds calls up as before: all but one.
func TestCircuitsThatAreNotTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch()
		w.opens(labels)
		time.Sleep(quiet / 2)
		if open := w.Open(); len(open) != 1 {
			t.Errorf("after half a minute %v is open", open)
		}
		if err := w.Call(labels, ends(errDown)); !errors.Is(err, errDown) {
			t.Error(err)
		}
		time.Sleep(quiet - time.Second)
		if open := w.Open(); len(open) != 1 {
			t.Errorf("within a minute of the last failure %v is open", open)
		}
		time.Sleep(time.Second)
		if open := w.Open(); len(open) != 0 {
			t.Errorf("after a minute %v is open", open)
		}
		if err := w.Call(labels, ends(errDown)); !errors.Is(err, errDown) {
			t.Error(err)
		}
		if err := w.Call(labels, ends(nil)); !heldAfter(err, errDown) || len(w.Open()) != 1 {
			t.Error(err, w.Open())
		}
	})
}
