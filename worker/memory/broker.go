package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// usualPayload is the default of max_payload in nats-server: bytes of header and data.
const usualPayload = 1 << 20

// Broker stores streams and the workers' consumer, like a NATS server with JetStream. It is safe for
// concurrent use.
type Broker struct {
	options    storage.Options
	maxPayload atomic.Int64

	mu        sync.Mutex
	streams   map[string]*stream
	listeners []*listener // in the order in which they were added
	latest    time.Time   // last result of instant
	given     uint64      // highest sequence of all deleted streams
	closed    bool
}

// listener receives every message that is sent to a matching subject.
type listener struct {
	subject string
	hear    func(*nats.Msg)
}

var _ streams.Streams = (*Broker)(nil)

// NewBroker returns a broker with the streams and the consumer of the options. It ignores Manage and
// Replicas.
func NewBroker(o storage.Options) (*Broker, error) {
	o = o.WithDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b := &Broker{options: o, streams: map[string]*stream{}}
	b.SetMaxPayload(usualPayload)
	return b, b.Setup()
}

// SetMaxPayload sets the maximum number of bytes of a message's header and data.
func (b *Broker) SetMaxPayload(bytes int64) { b.maxPayload.Store(bytes) }

// Setup creates missing streams and a missing consumer, like storage.Setup.
func (b *Broker) Setup() error {
	configs, err := b.options.Streams()
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.streams[configs[1].Name] != nil { // the streams were created before: a missing stream of events was deleted
		configs[0].FirstSeq = max(uint64(b.instant().UnixMicro()), b.given+1) // above given too, since virtual time may stand still
	}
	for _, config := range configs {
		if b.streams[config.Name] == nil {
			b.streams[config.Name] = newStream(config)
		}
	}
	requests := b.streams[configs[0].Name]
	if config := b.options.Consumer(); requests.consumers[config.Durable] == nil {
		requests.consumers[config.Durable] = newConsumer(b, requests, config)
	}
	return nil
}

// instant returns the current time, or a later one so that all results differ: the time of creation
// distinguishes two consumers of the same name.
func (b *Broker) instant() time.Time {
	now := time.Now().Round(0).UTC()
	if !now.After(b.latest) {
		now = b.latest.Add(time.Nanosecond)
	}
	b.latest = now
	return now
}

// Close ends all iterators. Later calls that use a stream, or send a message, return nats.ErrConnectionClosed.
func (b *Broker) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, s := range b.streams {
		for _, c := range s.consumers {
			c.end(jetstream.ErrMsgIteratorClosed)
		}
	}
}

// DeleteStream deletes a stream with its messages and consumers, and ends their iterators.
func (b *Broker) DeleteStream(name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.stream(name)
	if err != nil {
		return err
	}
	for _, c := range s.consumers {
		c.end(jetstream.ErrConsumerDeleted)
	}
	b.given = max(b.given, s.last)
	delete(b.streams, name)
	return nil
}

// DeleteConsumer deletes a consumer and ends its iterators. The messages stay.
func (b *Broker) DeleteConsumer(stream, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, err := b.consumer(stream, name)
	if err != nil {
		return err
	}
	c.end(jetstream.ErrConsumerDeleted)
	delete(c.stream.consumers, name)
	return nil
}

// stream returns a stream, without the messages that are older than its MaxAge. The caller holds the lock.
func (b *Broker) stream(name string) (*stream, error) {
	if b.closed {
		return nil, nats.ErrConnectionClosed
	}
	s := b.streams[name]
	if s == nil {
		return nil, fmt.Errorf("stream %s: %w", name, jetstream.ErrStreamNotFound)
	}
	s.expire(time.Now())
	return s, nil
}

func (b *Broker) consumer(stream, name string) (*consumer, error) {
	s, err := b.stream(stream)
	if err != nil {
		return nil, err
	}
	if s.consumers[name] == nil {
		return nil, fmt.Errorf("consumer %s of stream %s: %w", name, stream, jetstream.ErrConsumerNotFound)
	}
	return s.consumers[name], nil
}

// Publish stores a message in the stream of its subject, and passes it to the listeners.
func (b *Broker) Publish(ctx context.Context, msg *nats.Msg) (*jetstream.PubAck, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for name := range msg.Header {
		if !streams.Publishable(name) {
			return nil, nats.ErrBadHeaderMsg
		}
	}
	if size(msg) > b.maxPayload.Load() {
		return nil, nats.ErrMaxPayload
	}
	ack, heard, err := b.store(msg)
	if err == nil {
		hear(heard, msg)
	}
	return ack, err
}

func (b *Broker) store(msg *nats.Msg) (*jetstream.PubAck, []*listener, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil, nats.ErrConnectionClosed
	}
	for _, name := range slices.Sorted(maps.Keys(b.streams)) {
		if !b.streams[name].takes(msg.Subject) {
			continue
		}
		s, err := b.stream(name)
		if err != nil {
			return nil, nil, err
		}
		ack, err := s.publish(msg, time.Now())
		if err != nil {
			return nil, nil, err
		}
		for _, c := range s.consumers {
			c.dispatch()
		}
		return ack, b.listening(msg.Subject), nil
	}
	return nil, nil, jetstream.ErrNoStreamResponse
}

// Send passes a message to the listeners of its subject, and does not store it.
func (b *Broker) Send(msg *nats.Msg) error {
	if size(msg) > b.maxPayload.Load() {
		return nats.ErrMaxPayload
	}
	b.mu.Lock()
	closed, heard := b.closed, b.listening(msg.Subject)
	b.mu.Unlock()
	if closed {
		return nats.ErrConnectionClosed
	}
	hear(heard, msg)
	return nil
}

// Listen calls hear with each message that is sent to a matching subject, on the goroutine of its sender,
// until stop is called.
func (b *Broker) Listen(subject string, hear func(*nats.Msg)) (stop func()) {
	l := &listener{subject: subject, hear: hear}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = append(b.listeners, l)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.listeners = slices.DeleteFunc(slices.Clone(b.listeners), func(o *listener) bool { return o == l })
	}
}

func (b *Broker) listening(subject string) (found []*listener) {
	for _, l := range b.listeners {
		if matches(l.subject, subject) {
			found = append(found, l)
		}
	}
	return found
}

func hear(listeners []*listener, msg *nats.Msg) {
	for _, l := range listeners {
		l.hear(&nats.Msg{Subject: msg.Subject, Header: onWire(msg.Header), Data: slices.Clone(msg.Data)})
	}
}

// Message reads the one message that the query selects: the last or the next one on a subject, or the one with a
// sequence. The error is jetstream.ErrMsgNotFound if there is none.
func (b *Broker) Message(ctx context.Context, stream string, q streams.Query) (streams.Message, error) {
	if err := ctx.Err(); err != nil {
		return streams.Message{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.stream(stream)
	if err != nil {
		return streams.Message{}, err
	}
	var m *stored
	switch {
	case q.LastFor != "":
		m = s.lastOn(q.LastFor)
	case q.NextFor != "":
		m = s.next(cmp.Or(q.Sequence, 1), q.NextFor)
	default:
		m = s.at(q.Sequence)
	}
	if m == nil {
		return streams.Message{}, jetstream.ErrMsgNotFound
	}
	return m.read(), nil
}

// State returns the state of a stream.
func (b *Broker) State(ctx context.Context, stream string) (jetstream.StreamState, error) {
	if err := ctx.Err(); err != nil {
		return jetstream.StreamState{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.stream(stream)
	if err != nil {
		return jetstream.StreamState{}, err
	}
	return s.state(), nil
}

// Subjects returns the number of messages by subject, for subjects that match filter.
func (b *Broker) Subjects(ctx context.Context, stream, filter string) (map[string]uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.stream(stream)
	if err != nil {
		return nil, err
	}
	found := map[string]uint64{}
	for subject, on := range s.bySubject {
		if matches(filter, subject) {
			found[subject] = uint64(len(on))
		}
	}
	return found, nil
}

// Walk visits the messages after a sequence in order. visit may use the broker.
func (b *Broker) Walk(ctx context.Context, stream string, after uint64, visit func(streams.Message) error) error {
	for next := after + 1; ; {
		m, err := b.Message(ctx, stream, streams.Query{Sequence: next, NextFor: ">"})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err == nil {
			err = visit(m)
		}
		if err != nil {
			return err
		}
		next = m.Sequence + 1
	}
}

// Purge deletes the messages on matching subjects up to a sequence.
func (b *Broker) Purge(ctx context.Context, stream, subjects string, upTo uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.stream(stream)
	if err != nil {
		return err
	}
	s.purge(subjects, upTo)
	for _, c := range s.consumers {
		c.dispatch() // the purge may have freed places below MaxAckPending
	}
	return nil
}

// Replicas returns 1.
func (b *Broker) Replicas(ctx context.Context, _ string) (int, error) { return 1, ctx.Err() }

// Metadata returns the metadata of a stream.
func (b *Broker) Metadata(ctx context.Context, stream string) (map[string]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.stream(stream)
	if err != nil {
		return nil, err
	}
	return maps.Clone(s.config.Metadata), nil
}

// SetMetadata sets one value of a stream's metadata.
func (b *Broker) SetMetadata(ctx context.Context, stream, key, value string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.stream(stream)
	if err != nil {
		return err
	}
	if s.config.Metadata == nil {
		s.config.Metadata = map[string]string{}
	}
	s.config.Metadata[key] = value
	return nil
}
