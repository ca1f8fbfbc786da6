package streams

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// shortestAckWait is the shortest ack wait within which a worker can report progress three times, even
// on a busy machine.
const shortestAckWait = time.Second

// AckWait returns how long the server waits for an acknowledgement or a progress report before it
// delivers a message of the consumer again. A backoff list replaces the ack wait; the result is then
// its shortest entry.
func AckWait(c *jetstream.ConsumerConfig) time.Duration {
	if len(c.BackOff) > 0 {
		return slices.Min(c.BackOff)
	}
	return c.AckWait
}

// Use is how workers use their consumer.
type Use struct {
	Subjects []string // of the events
	Batch    int      // messages that a worker asks for at once, 0 if unknown
}

// Hindrance returns why workers get no messages of an existing consumer, or cannot use it safely, with a
// command that helps; nil if workers can use it.
func Hindrance(info *jetstream.ConsumerInfo, use Use) error {
	if info.Paused {
		return fmt.Errorf("consumer %s of stream %s is paused for another %s; to end that: nats consumer resume %s %s",
			info.Name, info.Stream, info.PauseRemaining.Round(time.Second), info.Stream, info.Name)
	}
	if info.Cluster != nil && info.Cluster.Name != "" && info.Cluster.Leader == "" {
		return fmt.Errorf("consumer %s of stream %s has no leader; nats consumer report %s tells which servers are away", info.Name, info.Stream, info.Stream)
	}
	return unfit(info, use)
}

// pullWait is how long a worker's request for messages stays with the server: expires in pull.go.
const pullWait = 30 * time.Second

// unfit returns why workers cannot use a consumer, with the command that edits or deletes it; nil if they can.
func unfit(info *jetstream.ConsumerInfo, use Use) error {
	c := &info.Config
	wait, explicit := AckWait(c), c.AckPolicy == jetstream.AckExplicitPolicy
	var left []string
	if filter := filters(*c); len(filter) > 0 {
		left = uncovered(use.Subjects, filter)
	}
	return existingConsumer(info).refuse([]fault{
		{c.MaxDeliver > 0, fmt.Sprintf("max deliver is %d, must be -1: an event that has failed that many times is never answered", c.MaxDeliver), "--max-deliver=-1"},
		{explicit && wait < shortestAckWait, fmt.Sprintf("the ack wait (or the shortest backoff) is %s, must be at least %s: an event would be delivered again while a worker handles it", wait, shortestAckWait), "--wait=30s"},
		{!explicit, fmt.Sprintf("ack policy is %s, must be %s", c.AckPolicy, jetstream.AckExplicitPolicy), ""},
		{c.HeadersOnly, "headers only is true, must be false", ""},
		{len(left) > 0, "filter is " + listed(filters(*c)) + ", must be none: it leaves out " + listed(left), "--filter='" + strings.Join(use.Subjects, "' --filter='") + "'"},
		{c.DeliverSubject != "", "it pushes to " + OneLine(c.DeliverSubject, mostText) + ", must be one that workers pull from", ""},
		{len(c.PriorityGroups) > 0, "priority groups is " + listed(c.PriorityGroups) + ", must be none: workers ask in the name of no group", ""},
		{c.MaxRequestBatch > 0 && c.MaxRequestBatch < use.Batch, fmt.Sprintf("max pull batch is %d, a worker asks for %d and gets none", c.MaxRequestBatch, use.Batch), fmt.Sprintf("--max-pull-batch=%d", use.Batch)},
		{c.MaxRequestExpires > 0 && c.MaxRequestExpires < pullWait, fmt.Sprintf("max pull expire is %s, a worker asks for %s and gets none", c.MaxRequestExpires, pullWait), "--max-pull-expire=" + pullWait.String()},
	})
}
