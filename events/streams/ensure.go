package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Ensure ensures that a stream exists, and creates a missing one if create is true; otherwise a missing one is
// an error. It never changes an existing stream: each line of differences names a setting that differs from
// want. A stream that workers cannot use, or another stream that has its subjects, is an error that says whose
// it is, what differs and which command helps.
func Ensure(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, create bool) (differences []string, err error) {
	have, err := stream(ctx, js, want, create)
	if err != nil {
		return nil, err
	}
	return streamDifferences(want, have.Config), unusable(&want, have)
}

// EnsureConsumer is Ensure for a durable consumer of a stream. If create is true and the server allows no
// second consumer, it first deletes the consumer with the name yields. A consumer that loses messages of
// the subjects, delivers them to several workers at once or cannot be pulled from is an error, as for
// Ensure.
func EnsureConsumer(ctx context.Context, js jetstream.JetStream, stream string, subjects []string, want jetstream.ConsumerConfig, create bool, yields string) (differences []string, err error) {
	have, err := consumer(ctx, js, stream, want, create, yields)
	if err != nil {
		return nil, err
	}
	return consumerDifferences(want, have.Config), unfit(have, Use{Subjects: subjects})
}

// stream returns the present state of a stream, and creates a missing stream if create is true.
func stream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, create bool) (*jetstream.StreamInfo, error) {
	asking, cancel := Bounded(ctx, js)
	defer cancel()
	found, err := js.Stream(asking, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) && create {
		found, err = js.CreateStream(asking, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another worker was first, with other settings
			found, err = js.Stream(asking, want.Name)
		}
	}
	switch {
	case overlaps(err):
		return nil, overlapped(ctx, js, &want, err)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("stream %s is missing; create it as docs/messages.md says, or let the worker do it with nats.manage: true: %w", want.Name, err)
	case err != nil:
		return nil, fmt.Errorf("stream %s: %w", want.Name, err)
	}
	return found.CachedInfo(), nil
}

// consumer returns the present state of the workers' consumer, and creates a missing one if create is true.
func consumer(ctx context.Context, js jetstream.JetStream, stream string, want jetstream.ConsumerConfig, create bool, yields string) (*jetstream.ConsumerInfo, error) {
	asking, cancel := Bounded(ctx, js)
	defer cancel()
	found, err := js.Consumer(asking, stream, want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) && create {
		found, err = createConsumer(asking, js, stream, want, yields)
	}
	switch {
	case errors.Is(err, jetstream.ErrNotPullConsumer):
		pushed, err := js.PushConsumer(asking, stream, want.Durable)
		if err != nil {
			return nil, fmt.Errorf("consumer %s of stream %s: %w", want.Durable, stream, err)
		}
		return pushed.CachedInfo(), nil
	case TakenByOther(err):
		return nil, occupied(ctx, js, stream, want.Durable, err)
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return nil, fmt.Errorf("consumer %s of stream %s is missing; create it as docs/messages.md says, or let the worker do it with nats.manage: true: %w", want.Durable, stream, err)
	case err != nil:
		return nil, fmt.Errorf("consumer %s of stream %s: %w", want.Durable, stream, err)
	}
	return found.CachedInfo(), nil
}

// createConsumer creates the workers' consumer. If the server refuses it because of another consumer, it deletes
// the consumer named by yields, and tries once more.
func createConsumer(ctx context.Context, js jetstream.JetStream, stream string, want jetstream.ConsumerConfig, yields string) (jetstream.Consumer, error) {
	created, err := js.CreateConsumer(ctx, stream, want)
	switch {
	case errors.Is(err, jetstream.ErrConsumerExists):
		return js.Consumer(ctx, stream, want.Durable)
	case TakenByOther(err):
		// A shadow took the events while there was no worker. It listens from now on.
		if err := js.DeleteConsumer(ctx, stream, yields); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return nil, err
		}
		return js.CreateConsumer(ctx, stream, want) // refused again if the consumer in the way is another application's
	}
	return created, err
}

// TakenByOther reports whether a work-queue stream refused a second consumer.
func TakenByOther(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == 10099 || api.ErrorCode == 10100)
}

// WrongLastSequence reports whether a message was refused because its subject has another last sequence
// than the message expects. Servers use two codes for that.
func WrongLastSequence(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// Refused reports whether the client or the server refused a message because of its size. A retry
// would fail, too.
func Refused(err error) bool {
	if errors.Is(err, nats.ErrMaxPayload) {
		return true
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == codeMessageTooLong || api.ErrorCode == codeHeaderTooLong)
}

// The codes with which a server refuses a message for its size, which jetstream does not name.
const (
	codeMessageTooLong = 10054
	codeHeaderTooLong  = 10097
)
