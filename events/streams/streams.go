// Package streams defines the JetStream operations on which ledger, waiting room and dead letters are
// built, and implements them for a NATS server.
package streams

import (
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Message is a message of a stream.
type Message struct {
	Subject  string
	Sequence uint64 // of the stream
	Header   nats.Header
	Data     []byte
	Time     time.Time // when the stream stored it
}

// Query asks for one message of a stream: the last on the subject LastFor, or the first
// from Sequence on whose subject matches NextFor, or without either the one at Sequence.
type Query struct {
	Sequence uint64 `json:"seq,omitzero"`
	LastFor  string `json:"last_by_subj,omitzero"`
	NextFor  string `json:"next_by_subj,omitzero"`
}

// Everything stands for no bound where Purge is passed a sequence: all messages on the subjects are deleted.
const Everything = math.MaxUint64

// Streams are the operations on streams that the ledger, the waiting room and the dead
// letters are made of. Their errors wrap those of jetstream, nats and the context.
type Streams interface {
	// Message reads one message from the stream's leader: after a Publish was refused for another message, such
	// as one on the same subject, it finds that one. Error: jetstream.ErrMsgNotFound.
	Message(ctx context.Context, stream string, q Query) (Message, error)
	// State returns the state of a stream. Error: jetstream.ErrStreamNotFound.
	State(ctx context.Context, stream string) (jetstream.StreamState, error)
	// Subjects returns the subjects of a stream that match a filter and have messages, with the number
	// of messages on each. Error: jetstream.ErrStreamNotFound.
	Subjects(ctx context.Context, stream, filter string) (map[string]uint64, error)
	// Walk visits the messages after a sequence in order, until the stream has no more, including
	// messages that are stored meanwhile. It ends with the first error of visit, and returns it.
	Walk(ctx context.Context, stream string, after uint64, visit func(Message) error) error
	// Publish stores a message in the stream of its subject. Its headers carry the conditions: the
	// expected stream, the expected last sequence of the subject, and a message id, of which the stream
	// stores one message within the duplicate window. It returns a *Full if the stream has no room.
	Publish(ctx context.Context, msg *nats.Msg) (*jetstream.PubAck, error)
	// Purge deletes the messages on matching subjects up to and including a sequence (see Everything).
	Purge(ctx context.Context, stream, subjects string, upTo uint64) error
	// Send sends a message to whatever subscribes to its subject, and stores nothing.
	Send(msg *nats.Msg) error
	// Replicas returns how many servers keep a stream.
	Replicas(ctx context.Context, stream string) (int, error)
	// Metadata returns the metadata of a stream's configuration.
	Metadata(ctx context.Context, stream string) (map[string]string, error)
	// SetMetadata sets one value of the metadata of a stream's configuration, and keeps the rest of the
	// configuration.
	SetMetadata(ctx context.Context, stream, key, value string) error
}

// server is the Streams of a NATS server.
type server struct{ js jetstream.JetStream }

// New returns the streams of the server that js is connected to.
func New(js jetstream.JetStream) Streams { return server{js} }

func (s server) State(ctx context.Context, stream string) (jetstream.StreamState, error) {
	info, err := Info(ctx, s.js, stream)
	if err != nil {
		return jetstream.StreamState{}, err
	}
	return info.State, nil
}

func (s server) Subjects(ctx context.Context, name, filter string) (map[string]uint64, error) {
	ctx, cancel := Bounded(ctx, s.js)
	defer cancel()
	stream, err := s.js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, fmt.Errorf("the subjects of stream %s: %w", name, err)
	}
	return info.State.Subjects, nil
}

func (s server) Walk(ctx context.Context, stream string, after uint64, visit func(Message) error) error {
	if progressOf(ctx) != nil {
		state, err := s.State(ctx, stream)
		if err != nil {
			return err
		}
		watched, end := watch(ctx, stream, max(after, max(state.FirstSeq, 1)-1), state.LastSeq, visit)
		defer end()
		visit = watched
	}
	return walker{s, stream}.walk(ctx, after, func(msg jetstream.Msg, facts *jetstream.MsgMetadata) error {
		return visit(Message{
			Subject: msg.Subject(), Sequence: facts.Sequence.Stream, Header: msg.Headers(), Data: msg.Data(), Time: facts.Timestamp,
		})
	})
}

func (s server) Publish(ctx context.Context, msg *nats.Msg) (*jetstream.PubAck, error) {
	ctx, cancel := Bounded(ctx, s.js)
	defer cancel()
	ack, err := s.js.PublishMsg(ctx, msg)
	return ack, Explained(msg.Header.Get(jetstream.ExpectedStreamHeader), msg.Subject, err)
}

func (s server) Purge(ctx context.Context, name, subjects string, upTo uint64) error {
	ctx, cancel := Bounded(ctx, s.js)
	defer cancel()
	stream, err := s.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	options := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(subjects)}
	if upTo != Everything {
		options = append(options, jetstream.WithPurgeSequence(upTo+1))
	}
	return stream.Purge(ctx, options...)
}

func (s server) Send(msg *nats.Msg) error { return s.js.Conn().PublishMsg(msg) }

func (s server) Replicas(ctx context.Context, stream string) (int, error) {
	info, err := Info(ctx, s.js, stream)
	if err != nil {
		return 0, err
	}
	return info.Config.Replicas, nil
}

func (s server) Metadata(ctx context.Context, stream string) (map[string]string, error) {
	info, err := Info(ctx, s.js, stream)
	if err != nil {
		return nil, err
	}
	return info.Config.Metadata, nil
}

// SetMetadata sends the rest of the configuration back unchanged, including fields of newer servers.
func (s server) SetMetadata(ctx context.Context, stream, key, value string) error {
	var info struct {
		Config map[string]jsontext.Value `json:"config"`
	}
	if err := s.api(ctx, "STREAM.INFO.", stream, nil, &info); err != nil {
		return err
	}
	metadata := map[string]string{}
	if held := info.Config["metadata"]; len(held) > 0 {
		if err := json.Unmarshal(held, &metadata); err != nil {
			return fmt.Errorf("stream %s: the metadata in its configuration is not a JSON object of strings: %w", stream, err)
		}
	}
	changed := maps.Clone(metadata)
	changed[key] = value
	if maps.Equal(metadata, changed) {
		return nil
	}
	held, err := json.Marshal(changed)
	if err != nil {
		return err
	}
	info.Config["metadata"] = held
	config, err := json.Marshal(info.Config)
	if err != nil {
		return err
	}
	return s.api(ctx, "STREAM.UPDATE.", stream, config, nil)
}

// api sends the JetStream request what, such as "STREAM.INFO.", for a stream. It decodes the answer into the
// value that into points to; nil discards the answer. It returns the error that the answer contains, if any.
func (s server) api(ctx context.Context, what, stream string, request []byte, into any) error {
	ctx, cancel := Bounded(ctx, s.js)
	defer cancel()
	answer, err := s.js.Conn().RequestWithContext(ctx, APIPrefix(s.js)+what+stream, request)
	if err != nil {
		return fmt.Errorf("stream %s: %w", stream, err)
	}
	var refused struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &refused); err != nil {
		return fmt.Errorf("stream %s: answer of the server: %w", stream, err)
	}
	if refused.Error != nil {
		return fmt.Errorf("stream %s: %w", stream, refused.Error)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer.Data, into)
}
