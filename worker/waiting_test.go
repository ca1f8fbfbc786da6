package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
)

// Who waits is served as Redis says; who only waits for Gardener has no place
// there and comes after, the oldest first.
func TestInOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, requests, queue, want string }{
		{"nobody", "", "", ""},
		{"as the queue says", "a b c", "c a b", "c a b"},
		{"unknown ones by their age, after the others", "x a y b", "b a", "b a x y"},
		{"nobody is known", "x y z", "", "x y z"},
		{"the queue knows more than the room", "a b", "z b y a", "b a"},
		{"one runtime under two requests", "a b a", "b a", "b a a"},
	} {
		var requests []events.WaitingRequest
		for id := range strings.FieldsSeq(c.requests) {
			requests = append(requests, events.WaitingRequest{Event: events.Event{RuntimeID: id}})
		}
		var queue []account.Waiter
		for id := range strings.FieldsSeq(c.queue) {
			queue = append(queue, account.Waiter{Runtime: id})
		}
		inOrder(requests, places(queue), nil)
		var got []string
		for _, r := range requests {
			got = append(got, r.Event.RuntimeID)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// What took one request's time is no reason to keep the others waiting; what
// concerns all of them ends the round.
func TestSlow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		slow bool
	}{
		{"nothing", nil, false},
		{"Gardener does not serve", fmt.Errorf("claim: %w", engine.ErrUnavailable), true},
		{"its time is up", fmt.Errorf("read: %w", context.DeadlineExceeded), true},
		{"the worker stops", context.Canceled, false},
		{"the pool is not built", account.ErrNotBuilt, false},
		{"the pool was rebuilt", account.ErrRebuilt, false},
		{"a lost connection", errors.New("broken pipe"), false},
	} {
		if got := slow(c.err); got != c.slow {
			t.Errorf("%s: %t, want %t", c.name, got, c.slow)
		}
	}
}
