package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Events that an open circuit holds up and that have left their place wait for one of heldTurns turns. An
// event that still has its place does not wait, since queued events need the place.
func TestTurnsAreForThoseWithoutAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := make(chan struct{}, 1)
		work := func(left bool) (*inWork, context.Context) {
			in := &inWork{left: left, turns: turns}
			return in, context.WithValue(t.Context(), placeKey{}, in)
		}
		first, firstCtx := work(true)
		awaitTurn(firstCtx, time.Minute)
		awaitTurn(firstCtx, time.Minute) // it has one
		kept, keptCtx := work(false)
		awaitTurn(keptCtx, time.Minute)
		awaitTurn(t.Context(), time.Minute) // a request that is served from the waiting room
		if !first.turn || kept.turn || len(turns) != 1 {
			t.Fatalf("first: %t, kept its place: %t, turns taken: %d", first.turn, kept.turn, len(turns))
		}
		second, secondCtx := work(true)
		secondCtx, stop := context.WithCancel(secondCtx)
		waits := make(chan struct{})
		go func() { awaitTurn(secondCtx, time.Minute); close(waits) }()
		synctest.Wait()
		select {
		case <-waits:
			t.Fatal("the second does not wait for the first")
		default:
		}
		stop()
		<-waits
		if second.turn {
			t.Error("it waits no more and has a turn")
		}
		third, thirdCtx := work(true)
		if begun := time.Now(); awaitTurn(thirdCtx, time.Minute) || third.turn || time.Since(begun) != time.Minute {
			t.Error("it does not give up after a minute")
		}
	})
}
