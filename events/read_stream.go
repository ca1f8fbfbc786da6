package events

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

// messageRequest asks for one message of a stream: the last on a subject, or the
// first from a sequence on whose subject matches NextFor.
type messageRequest struct {
	Sequence uint64 `json:"seq,omitzero"`
	LastFor  string `json:"last_by_subj,omitzero"`
	NextFor  string `json:"next_by_subj,omitzero"`
}

type messageResponse struct {
	Error   *jetstream.APIError `json:"error"`
	Message *storedMessage      `json:"message"`
}

type storedMessage struct {
	Subject  string    `json:"subject"`
	Sequence uint64    `json:"seq"`
	Header   []byte    `json:"hdrs"`
	Data     []byte    `json:"data"`
	Time     time.Time `json:"time"`
}

// getMessage reads one message from the stream's leader. The read of nats.go would
// go to any replica, which may lag behind, on a stream that allows direct reads;
// this one never does. Errors: jetstream.ErrMsgNotFound.
func getMessage(ctx context.Context, js jetstream.JetStream, stream string, request messageRequest) (*storedMessage, error) {
	ask, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx, js)
	defer cancel()
	answer, err := js.Conn().RequestWithContext(ctx, apiPrefix(js)+"STREAM.MSG.GET."+stream, ask)
	if err != nil {
		return nil, err
	}
	var response messageResponse
	if err := json.Unmarshal(answer.Data, &response); err != nil {
		return nil, fmt.Errorf("answer of the server: %w", err)
	}
	switch {
	case response.Error != nil && response.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, jetstream.ErrMsgNotFound
	case response.Error != nil:
		return nil, response.Error
	case response.Message == nil:
		return nil, jetstream.ErrInvalidJetStreamResponse
	}
	return response.Message, nil
}

// eachMessage visits the messages on the subjects of filter in the order of the stream,
// up to its end when the first was found, each read from the leader. It needs no
// consumer, and one small read where there is nothing: every deprovision looks whether
// its runtime waits. It ends with the first error of visit.
func eachMessage(ctx context.Context, js jetstream.JetStream, stream, filter string, visit func(*storedMessage) error) error {
	last := uint64(0)
	for next := uint64(1); ; {
		msg, err := getMessage(ctx, js, stream, messageRequest{Sequence: next, NextFor: filter})
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return nil
		case err != nil:
			return fmt.Errorf("reading %s from sequence %d: %w", stream, next, err)
		}
		if last == 0 {
			if last, err = lastSequence(ctx, js, stream); err != nil {
				return err
			}
		}
		if msg.Sequence > last {
			return nil
		}
		if err := visit(msg); err != nil {
			return err
		}
		next = msg.Sequence + 1
	}
}

func (m *storedMessage) header() nats.Header {
	if len(m.Header) == 0 {
		return nil
	}
	header, err := nats.DecodeHeadersMsg(m.Header)
	if err != nil { // the server keeps only headers that it could read
		return nil
	}
	return header
}

// lastSequence is the highest sequence that the stream ever gave.
func lastSequence(ctx context.Context, js jetstream.JetStream, stream string) (uint64, error) {
	state, err := streamState(ctx, js, stream)
	return state.LastSeq, err
}

func streamState(ctx context.Context, js jetstream.JetStream, stream string) (jetstream.StreamState, error) {
	ctx, cancel := bounded(ctx, js)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return jetstream.StreamState{}, fmt.Errorf("stream %s: %w", stream, err)
	}
	return s.CachedInfo().State, nil
}

// more reports whether the stream holds anything after the sequence.
func more(ctx context.Context, js jetstream.JetStream, stream string, after uint64) (bool, error) {
	_, err := getMessage(ctx, js, stream, messageRequest{Sequence: after + 1, NextFor: ">"})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	return err == nil, err
}

func apiPrefix(js jetstream.JetStream) string {
	switch o := js.Options(); {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	default:
		return jetstream.DefaultAPIPrefix
	}
}

// bounded gives one request to the server js's own time-out, 5 s unless set, even
// where ctx has longer: a request that a reconnect has swallowed is never answered,
// and the caller can repeat it.
func bounded(ctx context.Context, js jetstream.JetStream) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, js.Options().DefaultTimeout)
}
