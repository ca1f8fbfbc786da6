package streams

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

type messageResponse struct {
	Error   *jetstream.APIError `json:"error"`
	Message *struct {
		Subject  string    `json:"subject"`
		Sequence uint64    `json:"seq"`
		Header   []byte    `json:"hdrs"`
		Data     []byte    `json:"data"`
		Time     time.Time `json:"time"`
	} `json:"message"`
}

// Message reads one message from the stream's leader. On a stream that allows direct reads, nats.go
// would read from any replica, which may lag behind.
func (s server) Message(ctx context.Context, stream string, q Query) (Message, error) {
	ask, err := json.Marshal(q)
	if err != nil {
		return Message{}, err
	}
	ctx, cancel := Bounded(ctx, s.js)
	defer cancel()
	answer, err := s.js.Conn().RequestWithContext(ctx, APIPrefix(s.js)+"STREAM.MSG.GET."+stream, ask)
	if err != nil {
		return Message{}, err
	}
	var response messageResponse
	if err := json.Unmarshal(answer.Data, &response); err != nil {
		return Message{}, fmt.Errorf("answer of the server: %w", err)
	}
	switch {
	case response.Error != nil && response.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return Message{}, jetstream.ErrMsgNotFound
	case response.Error != nil:
		return Message{}, response.Error
	case response.Message == nil:
		return Message{}, jetstream.ErrInvalidJetStreamResponse
	}
	m := response.Message
	return Message{Subject: m.Subject, Sequence: m.Sequence, Header: decodeHeader(m.Header), Data: m.Data, Time: m.Time}, nil
}

// decodeHeader reads the header of a stored message, nil for none.
func decodeHeader(raw []byte) nats.Header {
	if len(raw) == 0 {
		return nil
	}
	header, err := nats.DecodeHeadersMsg(raw)
	if err != nil { // the server keeps only headers that it could read
		return nil
	}
	return header
}

// Info returns the present state and configuration of a stream. Error: jetstream.ErrStreamNotFound.
func Info(ctx context.Context, js jetstream.JetStream, stream string) (*jetstream.StreamInfo, error) {
	ctx, cancel := Bounded(ctx, js)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", stream, err)
	}
	return s.CachedInfo(), nil
}

// more reports whether the stream has a message after the sequence.
func more(ctx context.Context, streams Streams, stream string, after uint64) (bool, error) {
	_, err := streams.Message(ctx, stream, Query{Sequence: after + 1, NextFor: ">"})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	return err == nil, err
}

// APIPrefix returns the prefix of the subjects of js's requests to the server, with the trailing dot.
func APIPrefix(js jetstream.JetStream) string {
	switch o := js.Options(); {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	default:
		return jetstream.DefaultAPIPrefix
	}
}

// Bounded limits one request to the server to js's own time-out, 5 s by default. A request that is
// lost in a reconnect is never answered; the caller can then repeat it before ctx ends.
func Bounded(ctx context.Context, js jetstream.JetStream) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, js.Options().DefaultTimeout)
}
