package simulation

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	eventstreams "github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/worker/simulation/gate"
)

// server is NATS as one process sees it. It implements streams.Streams.
type server struct{ p *process }

var _ eventstreams.Streams = server{}

func (s server) Message(ctx context.Context, stream string, q eventstreams.Query) (eventstreams.Message, error) {
	about := q.LastFor + q.NextFor
	if q.Sequence > 0 {
		about += " from " + strconv.FormatUint(q.Sequence, 10)
	}
	return ask(ctx, s.p, call{Port: gate.NATS, Op: "read " + stream, Arg: about}, func(ctx context.Context) (eventstreams.Message, error) {
		return s.p.world.broker.Message(ctx, stream, q)
	})
}

func (s server) State(ctx context.Context, stream string) (jetstream.StreamState, error) {
	return ask(ctx, s.p, call{Port: gate.NATS, Op: opState, Arg: stream}, func(ctx context.Context) (jetstream.StreamState, error) {
		return s.p.world.broker.State(ctx, stream)
	})
}

func (s server) Subjects(ctx context.Context, stream, filter string) (map[string]uint64, error) {
	return ask(ctx, s.p, call{Port: gate.NATS, Op: "subjects of", Arg: stream}, func(ctx context.Context) (map[string]uint64, error) {
		return s.p.world.broker.Subjects(ctx, stream, filter)
	})
}

// Walk reads a few messages a call, so it also visits messages that are stored while it walks, as on a server.
func (s server) Walk(ctx context.Context, stream string, after uint64, visit func(eventstreams.Message) error) error {
	const piece = 8
	for next := after + 1; ; {
		read, err := ask(ctx, s.p, call{Port: gate.NATS, Op: "walk " + stream, Arg: "from " + strconv.FormatUint(next, 10)}, func(ctx context.Context) ([]eventstreams.Message, error) {
			var read []eventstreams.Message
			for from := next; len(read) < piece; {
				m, err := s.p.world.broker.Message(ctx, stream, eventstreams.Query{Sequence: from, NextFor: ">"})
				if errors.Is(err, jetstream.ErrMsgNotFound) {
					break
				}
				if err != nil {
					return nil, err
				}
				read, from = append(read, m), m.Sequence+1
			}
			return read, nil
		})
		if err != nil || len(read) == 0 {
			return err
		}
		for _, m := range read {
			if err := visit(m); err != nil {
				return err
			}
			next = m.Sequence + 1
		}
		if len(read) < piece {
			return nil
		}
	}
}

func (s server) Publish(ctx context.Context, msg *nats.Msg) (*jetstream.PubAck, error) {
	return ask(ctx, s.p, call{Port: gate.NATS, Op: "publish", Arg: msg.Subject}, func(ctx context.Context) (*jetstream.PubAck, error) {
		return s.p.world.store(ctx, msg)
	})
}

func (s server) Purge(ctx context.Context, stream, subjects string, upTo uint64) error {
	_, err := ask(ctx, s.p, call{Port: gate.NATS, Op: "purge " + stream, Arg: subjects}, func(ctx context.Context) (any, error) {
		err := s.p.world.broker.Purge(ctx, stream, subjects, upTo)
		if stream == events.StreamReplies && err == nil {
			s.p.world.forgotten(ctx, subjects)
		}
		return nil, err
	})
	return err
}

// Send is fire and forget: it returns nil also if the process is dead or NATS is down, so that the message is lost.
func (s server) Send(msg *nats.Msg) error {
	if s.p.dead.Load() || s.p.world.gate.IsDown(s.p, gate.NATS) {
		return nil
	}
	return s.p.world.broker.Send(msg)
}

func (s server) Replicas(ctx context.Context, stream string) (int, error) {
	return s.p.world.broker.Replicas(ctx, stream)
}

func (s server) Metadata(ctx context.Context, stream string) (map[string]string, error) {
	return s.p.world.broker.Metadata(ctx, stream)
}

func (s server) SetMetadata(ctx context.Context, stream, key, value string) error {
	return s.p.world.broker.SetMetadata(ctx, stream, key, value)
}

// consumer is the workers' consumer as one process sees it.
type consumer struct {
	eventstreams.Consumer

	p *process
}

// Info is called every ten seconds, as are the in-progress signals of events. The gate orders it after them
// if both are due at the same instant.
func (c consumer) Info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	return ask(gate.As(ctx, c.p.name+" watches"), c.p, call{Port: gate.NATS, Op: opInfo}, c.Consumer.Info)
}

func (c consumer) Messages(atOnce int) (eventstreams.Messages, error) {
	inner, err := c.Consumer.Messages(atOnce)
	if err != nil {
		return nil, err
	}
	i := &iterator{Messages: inner, p: c.p}
	c.p.iterator = i
	return i, nil
}

// iterator delivers messages when the scheduler permits it.
type iterator struct {
	eventstreams.Messages

	p *process
}

func (i *iterator) Next() (jetstream.Msg, error) {
	ctx := gate.As(context.Background(), i.p.name+" takes")
	// The scheduler decides in which order processes pull: several may be ready at the same instant.
	_, _ = ask(ctx, i.p, call{Port: gate.NATS, Op: opAsk}, func(context.Context) (any, error) { return nil, nil })
	msg, err := i.Messages.Next()
	if i.p.dead.Load() {
		<-i.p.world.gate.Over()
	}
	if err != nil {
		i.p.world.gate.Returned(i.p.name + " takes") // the pause before the consumer is reopened begins now
		return nil, err
	}
	_, _ = ask(ctx, i.p, call{Port: gate.NATS, Op: opDeliver, Arg: msg.Subject()}, func(context.Context) (any, error) { return nil, nil })
	return &message{Msg: msg, p: i.p}, nil
}

// message is a delivery to a process. An acknowledgement that does not reach NATS returns no error.
type message struct {
	jetstream.Msg

	p *process
}

func (m *message) say(op string, do func() error) error {
	facts, _ := m.Metadata()
	ctx := gate.As(context.Background(), m.p.name+" settles "+strconv.FormatUint(facts.Sequence.Stream, 10)+" of delivery "+strconv.FormatUint(facts.NumDelivered, 10))
	_, err := ask(ctx, m.p, call{Port: gate.NATS, Op: op, Arg: m.Subject()}, func(context.Context) (any, error) { return nil, do() })
	if errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) {
		return nil
	}
	return err
}

func (m *message) Ack() error { return m.say(opAck, m.Msg.Ack) }
func (m *message) Nak() error { return m.say(opNak, m.Msg.Nak) }
func (m *message) NakWithDelay(delay time.Duration) error {
	return m.say(opNak, func() error { return m.Msg.NakWithDelay(delay) })
}

func (m *message) TermWithReason(reason string) error {
	return m.say(opTerm, func() error { return m.Msg.TermWithReason(reason) })
}

func (m *message) InProgress() error {
	if m.p.dead.Load() || m.p.world.gate.IsDown(m.p, gate.NATS) || m.p.world.gate.Held(m.p) {
		return nil
	}
	return m.Msg.InProgress()
}
