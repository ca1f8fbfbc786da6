package fence_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/crash"
	"github.com/hap-worker/hap-worker/worker/fence"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// record is a record that takes a second to read.
type record struct {
	mu    sync.Mutex
	reads int
	now   account.Epochs
	err   error
}

func (r *record) Epochs(context.Context) (storage.EpochRecord, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	now, err := r.now, r.err // the state when the read begins
	r.mu.Unlock()
	<-time.After(time.Second)
	r.mu.Lock()
	return storage.EpochRecord{Epochs: now, Sequence: 1}, err
}

func (r *record) set(now account.Epochs, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now, r.err = now, err
}

var (
	one   = account.FencedEpoch("1")
	other = account.FencedEpoch("2")
)

// TestInForce: each place of a decision has to have the epoch that the record names. Epochs of older versions
// are not compared.
func TestInForce(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	for name, c := range map[string]struct {
		epochs, record account.Epochs
		fails, want    error
		reads          int
	}{
		"in force":          {epochs: account.Epochs{"aws": one}, record: account.Epochs{"aws": one, "gcp": other}, reads: 1},
		"another":           {epochs: account.Epochs{"aws": one}, record: account.Epochs{"aws": other}, want: account.ErrNotInForce, reads: 1},
		"one of two":        {epochs: account.Epochs{"aws": one, "rt:1": one}, record: account.Epochs{"aws": one, "rt:1": other}, want: account.ErrNotInForce, reads: 1},
		"no record":         {epochs: account.Epochs{"aws": one}, want: account.ErrNotBuilt, reads: 1},
		"not fenced":        {epochs: account.Epochs{"aws": "1"}},
		"nothing":           {},
		"one is not fenced": {epochs: account.Epochs{"aws": one, "rt:1": "1"}, record: account.Epochs{"aws": one}, reads: 1},
		"not known":         {epochs: account.Epochs{"aws": one}, record: account.Epochs{"aws": one}, fails: broken, want: broken, reads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &record{now: c.record, err: c.fails}
				told := 0
				f := fence.New(r, observe.Observer{OnFence: func(_ context.Context, seen observe.Fence) {
					if told++; !errors.Is(seen.Err, c.want) || seen.Duration != time.Second {
						t.Errorf("told %+v", seen)
					}
				}})
				if err := f.InForce(t.Context(), c.epochs); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				if r.reads != c.reads || told != c.reads {
					t.Errorf("%d reads, %d told, want %d", r.reads, told, c.reads)
				}
			})
		})
	}
}

// TestLooksAreShared: one read serves all callers that were waiting when it began, but no later caller, who
// may have read the fence of its effect since.
func TestLooksAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &record{now: account.Epochs{"aws": one}}
		f := fence.New(r, observe.Observer{})
		results := make(chan error, 100)
		ask := func(n int) {
			for range n {
				go func() { results <- f.InForce(t.Context(), account.Epochs{"aws": one}) }()
			}
			synctest.Wait()
		}
		ask(1)
		r.set(account.Epochs{"aws": other}, nil)
		ask(50)
		gone, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- f.InForce(gone, account.Epochs{"aws": one}) }()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who has left is told %v", err)
		}
		if err := <-results; err != nil {
			t.Errorf("the first look: %v", err)
		}
		for range 50 {
			if err := <-results; !errors.Is(err, account.ErrNotInForce) {
				t.Errorf("a look that began after the change: %v", err)
			}
		}
		if r.reads != 2 {
			t.Errorf("the record was read %d times, want 2", r.reads)
		}
	})
}

// fallen is a record whose reading panics.
type fallen struct{}

func (fallen) Epochs(context.Context) (storage.EpochRecord, error) { panic("junk") }

// TestLookThatPanics: many callers share a look, outside of their goroutines, so a panic is an error of each.
func TestLookThatPanics(t *testing.T) {
	t.Parallel()
	err := fence.New(fallen{}, observe.Observer{}).Look(t.Context())(account.Epochs{"aws": one})
	if _, panicked := errors.AsType[*crash.Panic](err); !panicked {
		t.Errorf("%v, want the panic", err)
	}
}
