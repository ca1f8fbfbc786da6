package requests

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// onDone is a context that calls looked each time that its end is asked for.
type onDone struct {
	context.Context
	looked func()
}

func (c onDone) Done() <-chan struct{} {
	c.looked()
	return c.Context.Done()
}

// watchReplies goes on following only while a request waits. So a request waits before it makes sure that the
// Client follows, and no longer if that fails.
func TestWaiterBeforeFollow(t *testing.T) {
	t.Parallel()
	c := &Client{starts: make(chan struct{}, 1), waiters: map[string][]*waiter{}, life: t.Context()}
	c.starts <- struct{}{} // another request begins to follow
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	awaited := false
	_, err := c.wait(onDone{ctx, func() { awaited = c.awaited() }}, "hap.v1.reply.rt-1.1", "1", nil)
	if !errors.Is(err, context.Canceled) || !awaited {
		t.Errorf("%v, the request waits: %t", err, awaited)
	}
	if c.awaited() {
		t.Error("a request waits that has failed")
	}
}

// A stream that was restored from an older copy is as old as before, and ends before the last reply that was seen.
func TestFollowsARestoredStream(t *testing.T) {
	t.Parallel()
	created := time.Now()
	c := &Client{created: created, from: 12}
	for _, info := range []struct{ last, want uint64 }{{20, 12}, {11, 12}, {4, 5}, {9, 5}} {
		got := c.next(&jetstream.StreamInfo{Created: created, State: jetstream.StreamState{LastSeq: info.last}})
		if got != info.want {
			t.Errorf("a stream that ends at %d is followed from %d, want %d", info.last, got, info.want)
		}
	}
}
