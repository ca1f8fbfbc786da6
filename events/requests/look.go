package requests

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/hap-worker/hap-worker/events"
)

// rarest is the longest pause between two looks of a request, unless LookAfter is longer. A random part of up to a
// quarter is added.
const rarest = 30 * time.Second

// A look needs a consumer, which a publisher has no right to delete: the server keeps it for leftover. The
// consumers of a stream are limited, and all publishers share them. So a Client makes up to looksAtOnce looks without
// a pause, and looksPerSecond after that: its looks have some looksAtOnce + leftover*looksPerSecond consumers at
// most, however many requests wait.
const (
	leftover       = 2 * time.Second
	looksAtOnce    = 20
	looksPerSecond = 20
)

// A look at several subjects costs the server more than one at a single subject, up to 30 times in a stream of
// 200,000 replies. If more than fewLooks are due, they share looks at mostSubjects each.
const (
	fewLooks     = 64
	mostSubjects = 256
)

// look is a waiter that is due.
type look struct {
	*waiter
	done chan struct{} // closed after the look
}

// lookSoon requests a look for a reply on the waiter's subject, and returns a channel that is closed after the look,
// also after a failed one, but not if the Client ends before. A reply that was found has arrived at the waiter by then.
func (c *Client) lookSoon(w *waiter) <-chan struct{} {
	done := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks = append(c.looks, look{w, done})
	signal(c.due)
	return done
}

// takeLooks takes the looks that are due, one after another, until the Client ends.
func (c *Client) takeLooks() {
	pace := rate.NewLimiter(looksPerSecond, looksAtOnce)
	for {
		select {
		case <-c.due:
		case <-c.life.Done():
			return
		}
		c.mu.Lock()
		due := c.looks
		c.looks = nil
		c.mu.Unlock()
		together := 1
		if len(due) > fewLooks {
			together = mostSubjects
		}
		for some := range slices.Chunk(due, together) {
			if pace.Wait(c.life) != nil {
				return
			}
			c.lookAt(some)
			for _, l := range some {
				close(l.done)
			}
		}
	}
}

// lookAt reads the replies that are stored on the waiters' subjects now, and passes them on.
func (c *Client) lookAt(due []look) {
	bySubject := map[string][]look{}
	var subjects []string
	for _, l := range due {
		if bySubject[l.subject] == nil {
			subjects = append(subjects, l.subject)
		}
		bySubject[l.subject] = append(bySubject[l.subject], l)
	}
	ctx, cancel := context.WithTimeout(c.life, tryFor)
	defer cancel()
	consumer, err := c.js.CreateConsumer(ctx, events.StreamReplies, jetstream.ConsumerConfig{
		FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: leftover,
	})
	if err != nil {
		return
	}
	batch, err := consumer.FetchNoWait(len(subjects))
	if err != nil {
		return
	}
	for msg := range batch.Messages() {
		facts, err := msg.Metadata()
		if err != nil {
			continue // no message of a consumer
		}
		for _, l := range bySubject[msg.Subject()] {
			l.offer(facts, msg.Data())
		}
	}
}
