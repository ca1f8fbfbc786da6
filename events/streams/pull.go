package streams

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Consumer is a consumer of a work-queue stream, from which messages are pulled.
type Consumer interface {
	// Info returns the present state of the consumer. Errors: jetstream.ErrConsumerNotFound,
	// jetstream.ErrStreamNotFound.
	Info(ctx context.Context) (*jetstream.ConsumerInfo, error)
	// CachedInfo returns the last result of Info.
	CachedInfo() *jetstream.ConsumerInfo
	// Messages returns an iterator that requests up to atOnce messages in advance.
	Messages(atOnce int) (Messages, error)
}

// Messages iterates over the messages of a consumer. Next must be called from one goroutine only.
type Messages interface {
	// Next blocks until there is a message. After jetstream.ErrConsumerDeleted and
	// jetstream.ErrMsgIteratorClosed there are no more; all other errors are transient.
	Next() (jetstream.Msg, error)
	// Stop ends the iterator. Messages that have arrived are left to their redelivery.
	Stop()
	// Drain requests no more messages, and ends the iterator once Next has returned those that have arrived.
	Drain()
}

// PullConsumer returns a consumer of the server. Errors: jetstream.ErrConsumerNotFound,
// jetstream.ErrStreamNotFound.
func PullConsumer(ctx context.Context, js jetstream.JetStream, stream, name string) (Consumer, error) {
	consumer, err := js.Consumer(ctx, stream, name)
	if err != nil {
		return nil, err
	}
	return pullConsumer{consumer, js, APIPrefix(js) + "CONSUMER.MSG.NEXT." + stream + "." + name}, nil
}

type pullConsumer struct {
	jetstream.Consumer

	js   jetstream.JetStream
	next string // subject of requests
}

// A request ends after expires. The server sends a heartbeat when it had nothing to send for the time
// heartbeat. If nothing arrives for twice that time, the request or the server is taken for lost.
const (
	expires   = 30 * time.Second
	heartbeat = 5 * time.Second
)

// Messages implements Consumer. It does what the iterator of jetstream does, but for one thing: jetstream takes a
// message without data and with the header Status for a control message of the server, and believes the header
// Nats-Pin-Id of any message. So a publisher could send events that never reach a worker, but count against the
// consumer's limit of pending messages: at that limit the server delivers nothing more (ADR 18).
func (c pullConsumer) Messages(atOnce int) (Messages, error) {
	nc := c.js.Conn()
	p := &pulled{
		js: c.js, subject: c.next, most: atOnce, ended: make(chan struct{}), silence: time.NewTimer(2 * heartbeat),
		// Room for two requests at a time, the older of which was taken for lost, and for control messages.
		arrived: make(chan *nats.Msg, 2*atOnce+64),
	}
	inbox, err := nc.ChanSubscribe(nc.NewInbox(), p.arrived)
	if err != nil {
		return nil, err
	}
	p.inbox, p.connected = inbox, nc.StatusChanged(nats.CONNECTED)
	inbox.SetClosedHandler(func(string) { p.end.Do(func() { close(p.ended) }) }) // may be called twice
	if !inbox.IsValid() {                                                        // closed with the connection, before there was a handler
		return nil, nats.ErrConnectionClosed
	}
	return p, nil
}

// pulled is the Messages of a server.
type pulled struct {
	js        jetstream.JetStream
	subject   string // of requests
	most      int    // messages to request in advance
	inbox     *nats.Subscription
	arrived   chan *nats.Msg
	connected chan nats.Status
	ended     chan struct{} // closed when nothing more arrives
	end       sync.Once
	stopped   atomic.Bool

	// Only the goroutine that calls Next uses these.
	owed    int // messages that are requested and have not arrived
	silence *time.Timer
}

func (p *pulled) Next() (jetstream.Msg, error) {
	p.silence.Reset(2 * heartbeat)
	connected := p.connected
	for {
		if err := p.request(); err != nil {
			return nil, err
		}
		select {
		case msg := <-p.arrived:
			p.silence.Reset(2 * heartbeat)
			if msg, err := p.received(msg); msg != nil || err != nil {
				return msg, err
			}
		case _, open := <-connected: // again: the server has forgotten the requests
			if p.owed = 0; !open {
				connected = nil // the iterator or the connection ends
			}
		case <-p.silence.C:
			p.silence.Reset(2 * heartbeat)
			if p.js.Conn().IsConnected() {
				p.owed = 0
				return nil, jetstream.ErrNoHeartbeat
			}
		case <-p.ended:
			return p.rest()
		}
	}
}

// request requests messages if fewer than half of p.most are owed.
func (p *pulled) request() error {
	if p.owed >= (p.most+1)/2 || !p.js.Conn().IsConnected() || p.inbox.IsDraining() || !p.inbox.IsValid() {
		return nil
	}
	request, err := json.Marshal(struct {
		Batch     int   `json:"batch"`
		Expires   int64 `json:"expires"`        // in nanoseconds
		Heartbeat int64 `json:"idle_heartbeat"` // in nanoseconds
	}{p.most - p.owed, int64(expires), int64(heartbeat)})
	if err != nil {
		return err
	}
	if err := p.js.Conn().PublishRequest(p.subject, p.inbox.Subject, request); err != nil {
		return fmt.Errorf("requesting messages: %w", err)
	}
	p.owed = p.most
	return nil
}

// received returns the message, or neither a message nor an error if it is a control message after which the
// iterator goes on. Only deliveries have a reply subject: publishers cannot set it, since streams do not store it.
func (p *pulled) received(msg *nats.Msg) (jetstream.Msg, error) {
	if p.stopped.Load() {
		return nil, jetstream.ErrMsgIteratorClosed
	}
	if msg.Reply != "" {
		p.owed = max(0, p.owed-1)
		return &delivery{msg: msg, js: p.js}, nil
	}
	switch status, description := msg.Header.Get(StatusHeader), msg.Header.Get("Description"); {
	case status == "100": // heartbeat
	case status == "408": // the request has expired
		left, _ := strconv.Atoi(msg.Header.Get("Nats-Pending-Messages"))
		p.owed = max(0, p.owed-left)
	case description == "Leadership Change": // the server has forgotten the requests
		p.owed = 0
	case description == "Server Shutdown": // requests have no answer until there is another leader or connection
	case description == "Consumer Deleted":
		p.Stop()
		return nil, jetstream.ErrConsumerDeleted
	default: // the next request follows after the time of two heartbeats
		return nil, fmt.Errorf("the server delivers no messages: %s %s", status, description)
	}
	return nil, nil
}

// rest returns a message that had arrived when the iterator ended, or jetstream.ErrMsgIteratorClosed.
func (p *pulled) rest() (jetstream.Msg, error) {
	for !p.stopped.Load() && len(p.arrived) > 0 {
		if msg := <-p.arrived; msg.Reply != "" {
			return &delivery{msg: msg, js: p.js}, nil
		}
	}
	return nil, jetstream.ErrMsgIteratorClosed
}

func (p *pulled) Stop() {
	p.stopped.Store(true)
	_ = p.inbox.Unsubscribe() // fails only if it was closed before
	p.js.Conn().RemoveStatusListener(p.connected)
}

func (p *pulled) Drain() {
	_ = p.inbox.Drain()
	p.js.Conn().RemoveStatusListener(p.connected)
}
