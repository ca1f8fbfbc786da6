package coalesce_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hap-worker/hap-worker/engine/coalesce"
)

// source counts its reads. Each read lasts until the test releases it.
type source struct {
	letGo    chan error
	readings int
}

func (s *source) read(context.Context) (int, error) {
	s.readings++
	n := s.readings
	return n, <-s.letGo
}

// TestReadingBeginsAfterTheQuestion: a hundred callers ask during a read. They share the next read, so that
// none gets a result from before its call.
func TestReadingBeginsAfterTheQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{letGo: make(chan error)}
		r := &coalesce.Reading[int]{Read: s.read}
		var all sync.WaitGroup
		ask := func(want int) {
			all.Go(func() {
				if got, err := r.Get(t.Context()); got != want || err != nil {
					t.Errorf("got reading %d, %v; want %d", got, err, want)
				}
			})
		}
		ask(1)
		synctest.Wait()
		for range 100 {
			ask(2)
		}
		synctest.Wait()
		s.letGo <- nil
		s.letGo <- nil
		all.Wait()
		ask(3)
		s.letGo <- nil
		all.Wait()
		if s.readings != 3 {
			t.Errorf("%d readings for three times of asking", s.readings)
		}
	})
}

// TestErrorIsOfOneReading: the callers that share a failed read get its error; the next caller reads again.
func TestErrorIsOfOneReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		s := &source{letGo: make(chan error, 2)}
		s.letGo <- broken
		s.letGo <- nil
		r := &coalesce.Reading[int]{Read: s.read}
		if _, err := r.Get(t.Context()); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
		if got, err := r.Get(t.Context()); got != 2 || err != nil {
			t.Errorf("got reading %d, %v; want the second", got, err)
		}
	})
}

// TestCallerLeaves: a caller whose context ends returns at once with the cause. The read continues for the
// other caller, with the first one's context values.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		letGo, seen := make(chan struct{}), make(chan any, 1)
		r := &coalesce.Reading[int]{Read: func(ctx context.Context) (int, error) {
			<-letGo
			seen <- ctx.Value(key{})
			return 1, ctx.Err()
		}}
		why := errors.New("enough")
		ctx, leave := context.WithCancelCause(context.WithValue(t.Context(), key{}, "first"))
		left := make(chan error)
		go func() {
			_, err := r.Get(ctx)
			left <- err
		}()
		synctest.Wait()
		leave(why)
		if err := <-left; !errors.Is(err, why) {
			t.Errorf("got %v, want %v", err, why)
		}
		close(letGo)
		if value := <-seen; value != "first" {
			t.Errorf("the reading was begun with %v", value)
		}
	})
}

// TestPanicIsTheCallers: the caller can recover from a panic in Read, and the next call reads again.
func TestPanicIsTheCallers(t *testing.T) {
	t.Parallel()
	readings := 0
	r := &coalesce.Reading[int]{Read: func(context.Context) (int, error) {
		if readings++; readings == 1 {
			panic("junk")
		}
		return readings, nil
	}}
	func() {
		defer func() {
			if fell, _ := recover().(string); !strings.HasPrefix(fell, "junk") {
				t.Errorf("the caller recovered from %q", fell)
			}
		}()
		_, _ = r.Get(t.Context())
	}()
	if got, err := r.Get(t.Context()); got != 2 || err != nil {
		t.Errorf("got reading %d, %v; want the second", got, err)
	}
}
