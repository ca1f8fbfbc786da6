package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errTurn = errors.New("the turn failed")

// bench runs a loop in virtual time and records when its turns begin.
type bench struct {
	began time.Time
	mu    sync.Mutex
	turns []time.Duration
	stop  context.CancelFunc
	ended chan struct{}
}

// start runs a loop whose turns return what do returns.
func start(t *testing.T, o Options, do func(turn int) error) *bench {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b := &bench{began: time.Now(), stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(b.ended)
		Run(ctx, o, func(context.Context) error {
			b.mu.Lock()
			b.turns = append(b.turns, time.Since(b.began))
			turn := len(b.turns)
			b.mu.Unlock()
			if do == nil {
				return nil
			}
			return do(turn)
		})
	}()
	return b
}

// until waits until d after the start, and returns when all turns so far have begun.
func (b *bench) until(d time.Duration) []time.Duration {
	time.Sleep(d - time.Since(b.began)) // virtual
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.turns)
}

func (b *bench) end() {
	b.stop()
	<-b.ended
}

func seconds(n ...int) []time.Duration {
	out := make([]time.Duration, len(n))
	for i, s := range n {
		out[i] = time.Duration(s) * time.Second
	}
	return out
}

func TestTurnsComeAfterTheInterval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		start Start
		want  []time.Duration
	}{
		{"after a pause", AfterPause, seconds(10, 20, 30)},
		{"at once", AtOnce, seconds(0, 10, 20, 30)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := start(t, Options{Every: 10 * time.Second, Start: c.start}, nil)
				defer b.end()
				if got := b.until(35 * time.Second); !slices.Equal(got, c.want) {
					t.Errorf("turns at %v, want %v", got, c.want)
				}
			})
		})
	}
}

// The interval begins after a turn: a long turn is not followed by another at once.
func TestALongTurnIsFollowedByAWholePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Options{Every: 10 * time.Second}, func(int) error { time.Sleep(15 * time.Second); return nil })
		defer b.end()
		if got, want := b.until(70*time.Second), seconds(10, 35, 60); !slices.Equal(got, want) {
			t.Errorf("turns at %v, want %v", got, want)
		}
	})
}

func TestSpreadAndJitter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		firsts := map[time.Duration]bool{}
		for range 20 {
			b := start(t, Options{Every: 10 * time.Second, Jitter: 0.1, Start: Spread}, nil)
			turns := b.until(200 * time.Second)
			b.end()
			if turns[0] > 10*time.Second {
				t.Errorf("the first turn came after %s", turns[0])
			}
			firsts[turns[0]] = true
			for i := range turns[1:] {
				if pause := turns[i+1] - turns[i]; pause < 10*time.Second || pause > 11*time.Second {
					t.Errorf("a pause of %s, not from 10s to 11s", pause)
				}
			}
		}
		if len(firsts) < 10 {
			t.Errorf("20 loops began at only %d moments", len(firsts))
		}
	})
}

func TestAWakeBeginsATurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		b := start(t, Options{Every: 10 * time.Second, Wake: wake}, nil)
		defer b.end()
		b.until(4 * time.Second)
		wake <- struct{}{}
		if got, want := b.until(15*time.Second), seconds(4, 14); !slices.Equal(got, want) {
			t.Errorf("turns at %v, want %v", got, want)
		}
	})
}

// Without an interval only a wake begins a turn. Wakes during a turn cause one more.
func TestOnlyWakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		b := start(t, Options{Wake: wake}, func(int) error { time.Sleep(3 * time.Second); return nil })
		defer b.end()
		for at := range 3 { // at 3600, 3601, 3602
			b.until(time.Hour + time.Duration(at)*time.Second)
			select {
			case wake <- struct{}{}:
			default:
			}
		}
		if got, want := b.until(2*time.Hour), seconds(3600, 3603); !slices.Equal(got, want) {
			t.Errorf("turns at %v, want %v", got, want)
		}
	})
}

// With OnWake, a wake does not change when turns begin.
func TestOnWakeDoesNotPutTheNextTurnOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake, woken := make(chan struct{}, 1), 0
		var after time.Duration
		b := start(t, Options{
			Every: 10 * time.Second, Wake: wake,
			OnWake: func(context.Context) error { woken++; return errTurn },
			Failed: func(_ error, d time.Duration) { after = d },
		}, nil)
		defer b.end()
		b.until(4 * time.Second)
		wake <- struct{}{}
		if got, want := b.until(25*time.Second), seconds(10, 20); !slices.Equal(got, want) || woken != 1 || after != 6*time.Second {
			t.Errorf("turns at %v, want %v; woken %d times, and told of %s", got, want, woken, after)
		}
	})
}

// A failed turn is retried with growing pauses, which a wake does not shorten. A success resets the pauses.
func TestFailedTurnsAreRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		var mu sync.Mutex
		var pauses []time.Duration
		b := start(t, Options{
			Every: time.Hour, Start: AtOnce, Wake: wake,
			Backoff: Backoff{First: time.Second, Most: 4 * time.Second},
			Failed:  func(_ error, after time.Duration) { mu.Lock(); defer mu.Unlock(); pauses = append(pauses, after) },
		}, func(turn int) error {
			if turn <= 20 || turn == 22 {
				wake <- struct{}{}
				return errTurn
			}
			return nil
		})
		defer b.end()
		turns := b.until(30 * time.Minute)
		mu.Lock()
		if len(turns) != 21 || len(pauses) != 20 {
			t.Fatalf("%d turns and %d failures in half an hour, want 21 and 20", len(turns), len(pauses))
		}
		for i, after := range pauses {
			if pause := turns[i+1] - turns[i]; pause != after || pause > 6*time.Second {
				t.Errorf("pause %d is %s, and was told as %s", i, pause, after)
			}
		}
		if pauses[0] > 1500*time.Millisecond || pauses[19] < 2*time.Second {
			t.Errorf("the pauses do not grow: %v", pauses)
		}
		mu.Unlock()
		b.until(2 * time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if last := pauses[len(pauses)-1]; len(pauses) != 21 || last > 1500*time.Millisecond {
			t.Errorf("%d failures, after the last one a pause of %s; want 21, and one as in the beginning", len(pauses), last)
		}
	})
}

func TestWithoutBackoffAFailureWaitsForTheInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failures := 0
		b := start(t, Options{Every: 10 * time.Second, Failed: func(err error, after time.Duration) {
			if failures++; !errors.Is(err, errTurn) || after != 10*time.Second {
				t.Errorf("%v, after %s", err, after)
			}
		}}, func(int) error { return errTurn })
		defer b.end()
		if got, want := b.until(35*time.Second), seconds(10, 20, 30); !slices.Equal(got, want) || failures != 3 {
			t.Errorf("turns at %v, want %v; %d failures", got, want, failures)
		}
	})
}

// A changed interval takes effect within a minute, also for the current pause.
func TestAChangedIntervalEndsThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var every atomic.Int64 // 0: no interval
		b := start(t, Options{Changing: func() time.Duration { return time.Duration(every.Load()) }}, nil)
		defer b.end()
		if turns := b.until(10*time.Minute - time.Second); len(turns) > 0 {
			t.Fatalf("turns at %v without an interval", turns)
		}
		every.Store(int64(time.Hour))
		b.until(70*time.Minute - time.Second)
		every.Store(int64(24 * time.Hour))
		b.until(90*time.Minute - time.Second)
		every.Store(int64(5 * time.Minute))
		if got, want := b.until(96*time.Minute), seconds(60*60, 90*60, 95*60); !slices.Equal(got, want) {
			t.Errorf("turns at %v, want %v", got, want)
		}
	})
}

// After Stop the current turn finishes, and no other begins.
func TestStopEndsBetweenTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stop, finished := make(chan struct{}), false
		b := start(t, Options{Every: time.Second, Start: AtOnce, Stop: stop}, func(int) error {
			time.Sleep(time.Minute)
			finished = true
			return nil
		})
		b.until(time.Second)
		close(stop)
		<-b.ended
		if len(b.turns) != 1 || !finished {
			t.Errorf("turns at %v, finished: %t", b.turns, finished)
		}
	})
}

// The end of ctx reaches the current turn. Its error is not reported.
func TestTheEndIsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		Run(ctx, Options{
			Every: time.Second, Start: AtOnce, Backoff: Backoff{First: time.Second, Most: time.Second},
			Failed: func(err error, _ time.Duration) { t.Errorf("told of %v", err) },
		}, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	})
}

func TestRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts, told := 0, 0
		b := Backoff{First: time.Second, Most: 2 * time.Second}
		failed := func(error, time.Duration) { told++ }
		err := Retry(t.Context(), b, func() error {
			if attempts++; attempts < 5 {
				return errTurn
			}
			return nil
		}, failed)
		if err != nil || attempts != 5 || told != 4 {
			t.Errorf("%v after %d attempts, told of %d", err, attempts, told)
		}
		attempts = 0
		err = Retry(t.Context(), b, func() error { attempts++; return Permanent(errTurn) }, failed)
		if !errors.Is(err, errTurn) || attempts != 1 {
			t.Errorf("a permanent error: %v after %d attempts", err, attempts)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := Retry(ctx, b, func() error { return errTurn }, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the end of ctx: %v", err)
		}
	})
}

// A panic counts as a failed turn: the loop goes on.
func TestATurnThatPanicsHasFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var failures []error
		o := Options{Every: 10 * time.Second, Failed: func(err error, _ time.Duration) { failures = append(failures, err) }}
		b := start(t, o, func(turn int) error {
			if turn == 1 {
				panic("boom")
			}
			return nil
		})
		if got, want := b.until(25*time.Second), seconds(10, 20); !slices.Equal(got, want) {
			t.Errorf("turns at %v, want %v", got, want)
		}
		b.end()
		if len(failures) != 1 || !strings.HasPrefix(failures[0].Error(), "panic: boom") {
			t.Errorf("failures are %v, want the panic", failures)
		}
	})
}
