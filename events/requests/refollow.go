package requests

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
)

// checkEvery is how often a Client with waiting requests checks whether the stream of the replies was
// recreated. The server does not tell clients that were disconnected when the stream was deleted.
const checkEvery = 10 * time.Second

// next returns the sequence to follow from: after the last message that was seen, or where the Client last
// began if it has seen none, or, in a stream that is new to the Client, after its present end. A stream that was
// restored from an older copy ends before the message that was seen: then it is followed from its end.
func (c *Client) next(info *jetstream.StreamInfo) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !info.Created.Equal(c.created) {
		c.created, c.from = info.Created, info.State.LastSeq+1
	} else {
		c.from = min(c.expected(), info.State.LastSeq+1)
	}
	c.newest = nil
	return c.from
}

// expected returns the sequence after the last message that was seen, c.from before the first one. The caller holds
// c.mu.
func (c *Client) expected() uint64 {
	if c.newest != nil {
		if facts, err := c.newest.Metadata(); err == nil {
			return facts.Sequence.Stream + 1
		}
	}
	return c.from
}

// watchReplies follows the replies again after the consumer or its stream is gone, if a request waits, until the
// Client ends. Waiting requests then look for replies that were stored meanwhile.
func (c *Client) watchReplies() {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		failed := false
		select {
		case <-c.life.Done():
			return
		case <-c.broken:
			failed = true
		case <-tick.C:
		}
		if !failed && !c.recreated() {
			continue
		}
		c.unfollow()
		if !c.awaited() {
			continue // the next request follows
		}
		_ = c.follow(c.life) // ends without success only with the Client
	}
}

// recreated reports whether the stream was deleted and created again, or restored from an older copy, since the
// Client began to follow it. It returns false if no request waits, if the Client does not follow, or if the server
// does not answer.
func (c *Client) recreated() bool {
	c.mu.Lock()
	following, created, expected := c.following != nil, c.created, c.expected()
	c.mu.Unlock()
	if !following || !c.awaited() {
		return false
	}
	info, err := streams.Info(c.life, c.js, events.StreamReplies)
	return err == nil && (!info.Created.Equal(created) || info.State.LastSeq+1 < expected)
}

// awaited reports whether a request waits for its reply.
func (c *Client) awaited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiters) > 0
}

func (c *Client) unfollow() {
	c.mu.Lock()
	now := c.following
	c.following = nil
	c.mu.Unlock()
	if now != nil {
		now.Stop()
	}
}
