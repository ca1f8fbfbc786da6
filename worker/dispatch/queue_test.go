package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	_ "github.com/hap-worker/hap-worker/engine/rapidtest" // fixes the seed
)

func unbounded(share int) Options { return Options{Events: 1 << 20, Bytes: 1 << 40, Share: share} }

func TestQuietTenantOvertakesFlood(t *testing.T) {
	t.Parallel()
	q := New[string](unbounded(1000))
	for i := range 20_000 {
		q.Push(Flow{Arrival, "flood"}, fmt.Sprint("flood ", i), 1, time.Time{})
	}
	q.Push(Flow{Arrival, "quiet"}, "quiet", 1, time.Time{})
	for n := range 3 {
		if got, of, _ := q.Pop(); of.Tenant == "quiet" {
			return
		} else if n == 2 {
			t.Fatalf("%q is popped as number 3, before the quiet tenant's event", got)
		}
	}
}

func TestReleaseOvertakesAll(t *testing.T) {
	t.Parallel()
	q := New[int](unbounded(1000))
	for i := range 1000 {
		q.Push(Flow{Arrival, fmt.Sprint(i)}, 0, 1, time.Time{})
		q.Push(Flow{Departure, fmt.Sprint(i)}, 0, 1, time.Time{})
		q.Push(Flow{Again, fmt.Sprint(i)}, 0, 1, time.Time{})
	}
	q.Push(Flow{Class: Release}, 1, 1, time.Time{})
	for range 4 {
		if got, _, _ := q.Pop(); got == 1 {
			return
		}
	}
	t.Fatal("a release waits for more than three events")
}

func TestFlowHasNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New[int](unbounded(2))
		of := Flow{Arrival, "one"}
		for i := range 3 {
			q.Push(of, i, 1, time.Time{})
		}
		q.Pop()
		q.Pop()
		popped := make(chan int, 1)
		go func() {
			v, _, _ := q.Pop()
			popped <- v
		}()
		synctest.Wait()
		if len(popped) > 0 {
			t.Fatal("three events of a flow are handled, its share is two")
		}
		q.Done(of)
		if got := <-popped; got != 2 {
			t.Fatalf("popped %d, want 2", got)
		}
	})
}

func TestClosedQueueReturnsWhatItHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New[int](unbounded(1))
		ended := make(chan bool, 1)
		go func() {
			_, _, ok := q.Pop()
			ended <- ok
		}()
		synctest.Wait()
		q.Close()
		if <-ended {
			t.Fatal("Pop of a closed queue returned an event")
		}
		if got := q.Push(Flow{}, 7, 1, time.Time{}); !slices.Equal(got, []int{7}) {
			t.Fatal("a closed queue kept an event")
		}
	})
}

// For any sequence of Push, Pop and Done: no event is lost or duplicated; each flow keeps its order; the
// bounds hold; no flow exceeds its share; only a flow of at least average length loses an event.
func TestQueueKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Events: rapid.IntRange(1, 20).Draw(t, "events"), Bytes: rapid.IntRange(1, 60).Draw(t, "bytes"), Share: rapid.IntRange(1, 4).Draw(t, "share"),
		}
		q := New[int](o)
		held, handled := map[Flow][]int{}, map[Flow]int{}
		size := map[int]int{}
		count, bytes, next := 0, 0, 0
		flow := func() Flow {
			return Flow{Class(rapid.IntRange(0, int(classes)-1).Draw(t, "class")), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant")}
		}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"push", "push", "pop", "done"}).Draw(t, "step") {
			case "push":
				of := flow()
				next++
				size[next] = rapid.IntRange(1, 9).Draw(t, "size")
				held[of] = append(held[of], next)
				count, bytes = count+1, bytes+size[next]
				over := func() bool { return count > o.Events || bytes > o.Bytes && count > 1 }
				for _, excess := range q.Push(of, next, size[next], time.Time{}) {
					if !over() {
						t.Fatalf("%d goes back with %d events of %d bytes", excess, count, bytes)
					}
					loses(t, held, excess, func(n int) int {
						if count > o.Events {
							return 1
						}
						return size[n]
					})
					count, bytes = count-1, bytes-size[excess]
				}
				if over() {
					t.Fatalf("it keeps %d events of %d bytes", count, bytes)
				}
			case "pop":
				if !someoneDue(held, handled, o.Share) {
					continue
				}
				got, of, ok := q.Pop()
				if !ok || len(held[of]) == 0 || held[of][0] != got {
					t.Fatalf("popped %d of %v, held %v", got, of, held[of])
				}
				held[of] = held[of][1:]
				handled[of]++
				count, bytes = count-1, bytes-size[got]
				if handled[of] > o.Share {
					t.Fatalf("%d of %v are handled", handled[of], of)
				}
			case "done":
				if of := flow(); handled[of] > 0 {
					handled[of]--
					q.Done(of)
				}
			}
		}
		var rest []int
		for _, items := range held {
			rest = append(rest, items...)
		}
		slices.Sort(rest)
		if got := q.Close(); !slices.Equal(got, rest) {
			t.Fatalf("left are %v, want %v", got, rest)
		}
	})
}

func someoneDue(held map[Flow][]int, handled map[Flow]int, share int) bool {
	for of, items := range held {
		if len(items) > 0 && handled[of] < share {
			return true
		}
	}
	return false
}

// loses removes the excess event from the model. It has to be the newest of its flow; length is that of one
// event, in the unit of the bound that is exceeded.
func loses(t *rapid.T, held map[Flow][]int, excess int, length func(int) int) {
	t.Helper()
	all, flows := 0, 0
	of := func(items []int) (sum int) {
		for _, n := range items {
			sum += length(n)
		}
		return sum
	}
	for _, items := range held {
		if all += of(items); len(items) > 0 {
			flows++
		}
	}
	for name, items := range held {
		if len(items) == 0 || items[len(items)-1] != excess {
			continue
		}
		if of(items)*flows < all {
			t.Fatalf("%v has %d of %d in %d flows, and loses an event", name, of(items), all, flows)
		}
		held[name] = items[:len(items)-1]
		return
	}
	t.Fatalf("%d is the newest of no flow", excess)
}

// The delay of an event is bounded by the weights and the number of flows.
func TestNoFlowStarves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := New[int](unbounded(1 << 20))
		others := rapid.IntRange(1, 30).Draw(t, "flows")
		for n := range others {
			of := Flow{Class(rapid.IntRange(0, int(classes)-1).Draw(t, "class")), fmt.Sprint(n)}
			for range 400 {
				q.Push(of, 0, 1, time.Time{})
			}
		}
		mine := Class(rapid.IntRange(0, int(classes)-1).Draw(t, "mine"))
		for range rapid.IntRange(0, 50).Draw(t, "before") {
			q.Pop()
		}
		q.Push(Flow{mine, "mine"}, 1, 1, time.Time{})
		total := 0
		for _, w := range weights {
			total += w
		}
		bound := (others+1)*total/weights[mine] + total
		for range bound {
			if got, _, _ := q.Pop(); got == 1 {
				return
			}
		}
		t.Fatalf("class %s waits for more than %d events of %d flows", mine, bound, others)
	})
}

// TestPushWaitsForRoom: a burst that the handlers process soon enough stays in the queue, in order.
func TestPushWaitsForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New[int](Options{Events: 10, Bytes: 1000, Share: 1, Wait: 100 * time.Millisecond})
		of := Flow{Arrival, "flood"}
		const events = 200
		go func() {
			for i := range events {
				for _, back := range q.Push(of, i, 100, time.Now()) {
					t.Errorf("%d goes back", back)
				}
			}
		}()
		for i := range events {
			time.Sleep(50 * time.Millisecond)
			if got, _, _ := q.Pop(); got != i {
				t.Errorf("popped %d, want %d", got, i)
			}
			q.Done(of)
		}
	})
}

// TestStuckQueueHoldsNothingUp: while no event leaves a full queue, only the first Push waits. After an event
// has left, Push waits again. Close ends the wait.
func TestStuckQueueHoldsNothingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const wait = 100 * time.Millisecond
		q := New[int](Options{Events: 2, Bytes: 1000, Share: 10, Wait: wait})
		of := Flow{Arrival, "flood"}
		push := func(want time.Duration) {
			t.Helper()
			begin := time.Now()
			if back := q.Push(of, 0, 1, begin); len(back) != 1 || time.Since(begin) != want {
				t.Errorf("%d events go back after %s, want one after %s", len(back), time.Since(begin), want)
			}
		}
		for range 2 {
			q.Push(of, 0, 1, time.Now())
		}
		push(wait)
		push(0)
		q.Pop()
		q.Push(of, 0, 1, time.Now())
		push(wait)
		q.Pop()
		q.Push(of, 0, 1, time.Now())
		time.AfterFunc(wait/2, func() { q.Close() })
		push(wait / 2)
	})
}
