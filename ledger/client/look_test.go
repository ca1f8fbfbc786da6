package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// The consumers of a stream are limited, and all who read replies share them. A thousand requests that wait for
// stored replies at once, or for replies that never come, need only a few, and each finds what is there.
func TestLooksOfManyRequestsShareConsumers(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	const many, answered, most = 1000, 500, 70
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	limited := config(t, js, events.StreamReplies)
	limited.MaxConsumers = most
	if err := js.DeleteStream(within(t), events.StreamReplies); err != nil { // the limit of a stream cannot change
		t.Fatal(err)
	}
	if _, err := js.CreateStream(within(t), limited); err != nil {
		t.Fatal(err)
	}
	for n := range answered {
		store(t, ledger, assigned(fmt.Sprint(n)), 0)
	}
	c := client(t, srv.Connect())
	ctx, cancel := context.WithCancelCause(within(t))
	over := errors.New("all that is stored was found")
	var found, none errgroup.Group
	for n := range many {
		group := &found
		if n >= answered {
			group = &none
		}
		group.Go(func() error {
			reply, err := c.Await(ctx, fmt.Sprint("rt-", n), fmt.Sprint(n))
			if n < answered && (err != nil || reply.RequestID != fmt.Sprint(n)) || n >= answered && !errors.Is(err, over) {
				return fmt.Errorf("request %d: %+v, %w", n, reply, err)
			}
			return nil
		})
	}
	if err := found.Wait(); err != nil {
		t.Error(err)
	}
	// Another publisher still finds room for its own.
	other, err := requests.NewClient(srv.Connect(), requests.ClientOptions{Source: "/keb", LookAfter: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Await(ctx, "rt-1", "1"); err != nil {
		t.Error(err)
	}
	cancel(over)
	if err := none.Wait(); err != nil {
		t.Error(err)
	}
}
