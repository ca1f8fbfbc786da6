package streams

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// shortestAckWait is the shortest wait in which a worker can tell progress three times, also
// on a busy machine.
const shortestAckWait = time.Second

// AckWait returns how long the server waits for a sign of life before it delivers a message
// of the consumer again. A back-off replaces the ack wait, by the number of the delivery; the
// result is the shortest.
func AckWait(c *jetstream.ConsumerConfig) time.Duration {
	if len(c.BackOff) > 0 {
		return slices.Min(c.BackOff)
	}
	return c.AckWait
}

// Hindrance returns why no worker gets messages of a consumer that exists, or why some would
// be lost with it, with the command that changes this; nil if a worker can use it.
func Hindrance(info *jetstream.ConsumerInfo) error {
	if info.Paused {
		return fmt.Errorf("consumer %s of stream %s is paused for another %s; to end that: nats consumer resume %s %s",
			info.Name, info.Stream, info.PauseRemaining.Round(time.Second), info.Stream, info.Name)
	}
	if info.Cluster != nil && info.Cluster.Name != "" && info.Cluster.Leader == "" {
		return fmt.Errorf("consumer %s of stream %s has no leader; nats consumer report %s tells which servers are away", info.Name, info.Stream, info.Stream)
	}
	return unfit(info.Stream, &info.Config)
}

// unfit returns why a consumer cannot be that of the workers, with the command that mends it.
func unfit(stream string, c *jetstream.ConsumerConfig) error {
	change := func(what, flag string) error {
		return fmt.Errorf("consumer %s of stream %s: %s; to change that: nats consumer edit %s %s %s", c.Durable, stream, what, stream, c.Durable, flag)
	}
	var faults []error
	if c.MaxDeliver > 0 {
		faults = append(faults, change(fmt.Sprintf("max deliver is %d: an event that fails as often is never answered", c.MaxDeliver), "--max-deliver=-1"))
	}
	if wait := AckWait(c); c.AckPolicy == jetstream.AckExplicitPolicy && wait < shortestAckWait {
		faults = append(faults, change(fmt.Sprintf("an event comes again after %s without a sign of life, less than %s: several workers would handle it", wait, shortestAckWait), "--wait=30s"))
	}
	if c.AckPolicy != jetstream.AckExplicitPolicy || c.HeadersOnly {
		faults = append(faults, fmt.Errorf("consumer %s of stream %s: ack policy is %s and headers only is %t, must be %s and false; delete it, and a worker with nats.manage: true creates it: nats consumer rm %s %s",
			c.Durable, stream, c.AckPolicy, c.HeadersOnly, jetstream.AckExplicitPolicy, stream, c.Durable))
	}
	return errors.Join(faults...)
}
