package requests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
)

// waiter is a request that waits for replies on its subject. It keeps only the newest reply, as the
// stream does.
type waiter struct {
	subject   string
	id        string
	onWaiting func(events.Reply)
	arrived   chan struct{} // holds a token while there is something new
	relook    chan struct{} // holds a token while something may have been missed
	last      events.Reply  // the latest `waiting` reply
	event     *events.Event // the request, nil if only its id is known

	mu       sync.Mutex
	sequence uint64
	at       time.Time
	data     []byte
}

// offer keeps a message of the waiter's subject if it is newer than the one that is kept. In a recreated stream
// a newer message may have a lower sequence, but has a later time.
func (w *waiter) offer(facts *jetstream.MsgMetadata, data []byte) {
	w.mu.Lock()
	newer := facts.Sequence.Stream > w.sequence || facts.Timestamp.After(w.at)
	if newer {
		w.sequence, w.at, w.data = facts.Sequence.Stream, facts.Timestamp, data
	}
	w.mu.Unlock()
	if newer {
		signal(w.arrived)
	}
}

// signal puts a token into a channel of capacity one, unless it has one. It never blocks.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// read decodes the newest reply that has arrived, which may be a waiting or sealed one. Call it only after one
// has arrived. It returns the error of events.ReadStored for a message that cannot be read.
func (w *waiter) read() (events.Reply, error) {
	w.mu.Lock()
	sequence, data := w.sequence, w.data
	w.mu.Unlock()
	stored, err := events.ReadStored(events.StreamReplies, streams.Message{Subject: w.subject, Sequence: sequence, Data: data})
	return stored.Reply, err
}

// answered reports whether a reply to w.event has arrived that is not sealed. If so, the workers have handled the
// request. It is only for a waiter that has an event.
func (w *waiter) answered() bool {
	w.mu.Lock()
	seen := w.data != nil
	w.mu.Unlock()
	if !seen {
		return false
	}
	reply, err := w.read()
	return err == nil && reply.Status != events.StatusSealed && reply.Answers(*w.event)
}

// wait registers a waiter for the subject, and then makes sure that the Client follows the replies. In the other
// order watchReplies could stop following in between, since no request waits. Every reply that is stored on the
// subject after wait returns arrives at the waiter.
func (c *Client) wait(ctx context.Context, subject, id string, options []RequestOption) (*waiter, error) {
	var r request
	for _, option := range options {
		option(&r)
	}
	w := &waiter{subject: subject, id: id, onWaiting: r.waiting, arrived: make(chan struct{}, 1), relook: make(chan struct{}, 1)}
	c.mu.Lock()
	c.waiters[subject] = append(c.waiters[subject], w)
	c.mu.Unlock()
	if err := c.follow(ctx); err != nil {
		c.leave(w)
		return nil, fmt.Errorf("request %s: %w", id, err)
	}
	select {
	case <-w.relook: // of the follower that began here: await looks when it was told to
	default:
	}
	return w, nil
}

func (c *Client) leave(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := slices.DeleteFunc(c.waiters[w.subject], func(other *waiter) bool { return other == w })
	if len(rest) == 0 {
		delete(c.waiters, w.subject)
		return
	}
	c.waiters[w.subject] = rest
}

// follow makes sure that the consumer of all replies runs, and creates it if there is none. It retries until it
// succeeds, or ctx or the Client ends.
func (c *Client) follow(ctx context.Context) error {
	select {
	case c.starts <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.life.Done():
		return context.Cause(c.life)
	}
	defer func() { <-c.starts }()
	c.mu.Lock()
	running := c.following != nil
	c.mu.Unlock()
	if running {
		return nil
	}
	if err := c.retry(ctx, streams.APIPrefix(c.js), c.start); err != nil {
		return fmt.Errorf("following the replies in %s: %w", events.StreamReplies, err)
	}
	return nil
}

// start creates the consumer of all replies. It begins at a sequence, not at new messages: a consumer
// that is recreated after a reconnect, before its first message, would miss the replies in between.
func (c *Client) start(ctx context.Context) error {
	info, err := streams.Info(ctx, c.js, events.StreamReplies)
	if err != nil {
		return err
	}
	consumer, err := c.js.OrderedConsumer(ctx, events.StreamReplies, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: c.next(info),
		// By default the library retries without end to go on after its last message, whose sequence a recreated
		// stream may not reach. After one attempt that fails it reports an error, and watchReplies starts anew.
		MaxResetAttempts: 1,
	})
	if err != nil {
		return err
	}
	// The library holds a lock while it calls the error handler, which therefore must not block.
	consuming, err := consumer.Consume(c.dispatch, jetstream.ConsumeErrHandler(func(jetstream.ConsumeContext, error) { signal(c.broken) }))
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil { // closed meanwhile
		consuming.Stop()
		return backoff.Permanent(context.Cause(c.life))
	}
	c.following = consuming
	for _, waiting := range c.waiters { // their replies may have been stored before
		for _, w := range waiting {
			signal(w.relook)
		}
	}
	return nil
}

// dispatch passes a reply to the requests that wait on its subject. It decodes nothing.
func (c *Client) dispatch(msg jetstream.Msg) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = msg
	waiting := c.waiters[msg.Subject()]
	if len(waiting) == 0 {
		return
	}
	facts, err := msg.Metadata()
	if err != nil { // the consumer has read it from this message before
		return
	}
	for _, w := range waiting {
		w.offer(facts, msg.Data())
	}
}

// await waits for the final reply. After lookAfter it also looks, with backoff, for a reply that was
// stored before the Client followed.
func (c *Client) await(ctx context.Context, w *waiter, lookAfter time.Duration) (events.Reply, error) {
	look := time.NewTimer(lookAfter)
	defer look.Stop()
	pause := c.options.LookAfter
	var looked <-chan struct{} // nil between looks
	for {
		select {
		case <-w.arrived:
			if reply, done, err := w.advance(); done {
				return reply, err
			}
		case <-look.C:
			looked = c.lookSoon(w)
		case <-looked:
			looked = nil
			look.Reset(pause + rand.N(pause/4+1))
			pause = min(2*pause, rarest)
		case <-w.relook:
			pause, looked = c.options.LookAfter, nil
			look.Reset(rand.N(pause + 1)) // not all requests at once
		case <-ctx.Done():
			return w.last, w.unanswered(context.Cause(ctx))
		case <-c.life.Done():
			return w.last, w.unanswered(context.Cause(c.life))
		}
	}
}

// heard reports whether any message of the subject has arrived, also a sealed or unreadable one.
func (w *waiter) heard() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sequence > 0
}

// advance evaluates the newest reply. done is true for a final reply and for an error. A `waiting` reply is kept
// in w.last and passed to onWaiting; after it, after a sealed one, and after a message that a reply may replace,
// done is false.
func (w *waiter) advance() (reply events.Reply, done bool, err error) {
	reply, err = w.read()
	found, foreign := events.ForeignOf(err)
	switch {
	case foreign && !found.Reply:
		return events.Reply{}, false, nil // a reply will replace it
	case err != nil:
		return events.Reply{}, true, err
	case reply.Status == events.StatusSealed:
		return events.Reply{}, false, nil
	case w.event != nil && !reply.Answers(*w.event):
		return events.Reply{}, true, ErrForeignReply
	case reply.Status == events.StatusRejected:
		return reply, true, &Rejected{Reply: reply}
	case reply.Final():
		return reply, true, nil
	}
	w.last = reply
	if w.onWaiting != nil {
		w.onWaiting(reply)
	}
	return events.Reply{}, false, nil
}

func (w *waiter) unanswered(cause error) error {
	state := "no worker has said anything of it so far"
	switch {
	case w.last.Waiting != nil:
		state = fmt.Sprintf("waits (%s)", w.last.Waiting.Reason)
	case w.heard():
		state = "is in work"
	}
	return fmt.Errorf("request %s has no final reply yet and %s; ask again under the same id, or await it: %w", w.id, state, cause)
}
