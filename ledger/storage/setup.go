package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events/streams"

	"github.com/hap-worker/hap-worker/events"
)

const (
	duplicateWindow = 2 * time.Minute
	deadLetterAge   = 30 * 24 * time.Hour
	comparisonAge   = 90 * 24 * time.Hour
)

// Options say how streams and consumer are set up.
type Options struct {
	// Prefix of the subjects. Defaults to events.DefaultPrefix.
	Prefix string
	// Shadow sets up the streams of a shadow instead of the workers'. Their subjects begin with Prefix and the
	// token shadow.
	Shadow bool
	// Manage creates missing streams and a missing consumer. Without it, a missing one is an error.
	Manage bool
	// Replicas of every stream, 1 or 3. Defaults to 1.
	Replicas int
	// MaxBytes bounds the size of HAP_EVENTS in bytes: a publication beyond it is refused. Defaults to 1 GiB.
	MaxBytes int64
	// MaxAckPending is how many events may be delivered and not yet acknowledged, for all workers
	// together. Defaults to 1000.
	MaxAckPending int
	// AckWait is how long the server waits for an acknowledgement or a progress report before it
	// delivers an event again. Defaults to 30 s.
	AckWait time.Duration
}

// WithDefaults returns o with the default of each field that is not set.
func (o Options) WithDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = events.DefaultPrefix
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 30
	}
	if o.MaxAckPending == 0 {
		o.MaxAckPending = 1000
	}
	if o.AckWait == 0 {
		o.AckWait = 30 * time.Second
	}
	return o
}

// Validate returns all faults of o, joined.
func (o Options) Validate() error {
	var faults []error
	if _, err := events.NewSubjects(o.Prefix); err != nil {
		faults = append(faults, err)
	}
	if o.Replicas != 1 && o.Replicas != 3 {
		faults = append(faults, fmt.Errorf("replicas is %d, must be 1 or 3", o.Replicas))
	}
	if o.MaxBytes <= 0 {
		faults = append(faults, fmt.Errorf("max bytes is %d, must be positive", o.MaxBytes))
	}
	if o.MaxAckPending <= 0 {
		faults = append(faults, fmt.Errorf("max ack pending is %d, must be positive", o.MaxAckPending))
	}
	if o.AckWait <= 0 {
		faults = append(faults, fmt.Errorf("ack wait is %s, must be positive", o.AckWait))
	}
	return errors.Join(faults...)
}

// Streams returns the definitions of the four streams, or of five for a shadow. The first is that of the events.
func (o Options) Streams() ([]jetstream.StreamConfig, error) {
	o = o.WithDefaults()
	subjects, err := o.subjects()
	if err != nil {
		return nil, err
	}
	common := jetstream.StreamConfig{
		Storage: jetstream.FileStorage, Replicas: o.Replicas, Duplicates: duplicateWindow,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1, MaxMsgsPerSubject: -1,
	}
	requests, replies, waiting, dead := common, common, common, common

	requests.Name, requests.Subjects = subjects.Stream(events.StreamEvents), subjects.Events()
	requests.Description = "requests that are not settled yet"
	requests.Retention, requests.Discard, requests.MaxBytes = jetstream.WorkQueuePolicy, jetstream.DiscardNew, o.MaxBytes

	replies.Name, replies.Subjects = subjects.Stream(events.StreamReplies), []string{subjects.Replies()}
	replies.Description = "the ledger: the reply to every request"
	replies.MaxMsgsPerSubject = 1

	waiting.Name, waiting.Subjects = subjects.Stream(events.StreamWaiting), []string{subjects.AllWaiting()}
	waiting.Description = "requests that wait for an account or a network range"
	waiting.Retention = jetstream.WorkQueuePolicy

	dead.Name, dead.Subjects = subjects.Stream(events.StreamDead), []string{subjects.AllDead()}
	dead.Description = "events that can never be processed, for 30 days"
	dead.MaxAge = deadLetterAge

	if !o.Shadow {
		return []jetstream.StreamConfig{requests, replies, waiting, dead}, nil
	}
	compared := common
	compared.Name, compared.Subjects = events.StreamComparisons, []string{subjects.AllCompared()}
	compared.Description = "what KEB chose beside what the shadow would have, for 90 days"
	compared.MaxMsgsPerSubject, compared.MaxAge = 1, comparisonAge
	return []jetstream.StreamConfig{requests, replies, waiting, dead, compared}, nil
}

func (o Options) subjects() (events.Subjects, error) {
	subjects, err := events.NewSubjects(o.Prefix)
	if o.Shadow {
		subjects = subjects.Shadow()
	}
	return subjects, err
}

// Consumer is the definition of the workers' consumer.
func (o Options) Consumer() jetstream.ConsumerConfig {
	o = o.WithDefaults()
	return jetstream.ConsumerConfig{
		Durable: events.ConsumerWorker, Description: "shared by all workers",
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: o.AckWait,
		MaxDeliver: -1, MaxAckPending: o.MaxAckPending,
	}
}

// Setup ensures that the streams and the workers' consumer exist. It never changes an existing stream or
// consumer: a difference from its definition is a line of the result, or an error if a worker cannot work
// with it. Without Manage it creates nothing, and a missing stream or consumer is an error that names it.
// With Manage it deletes the consumer of a shadow that is in the way of the workers'. While a cluster has
// no leader, no server answers, and Setup fails with js's time-out; the caller may repeat it.
func Setup(ctx context.Context, js jetstream.JetStream, o Options) (differences []string, err error) {
	o = o.WithDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	defined, err := o.Streams()
	if err != nil {
		return nil, err
	}
	subjects, err := o.subjects()
	if err != nil {
		return nil, err
	}
	for _, want := range defined {
		if o.Manage && want.Name == subjects.Stream(events.StreamEvents) {
			if want.FirstSeq, err = firstSequence(ctx, js, subjects); err != nil {
				return nil, err
			}
		}
		found, err := streams.Ensure(ctx, js, want, o.Manage)
		if err != nil {
			return nil, err
		}
		differences = append(differences, found...)
	}
	found, err := streams.EnsureConsumer(ctx, js, subjects.Stream(events.StreamEvents), subjects.Events(), o.Consumer(), o.Manage, events.ConsumerShadow)
	if err != nil {
		return nil, err
	}
	differences = append(differences, found...)
	if most := js.Conn().MaxPayload(); most > 0 && most < minPayload {
		differences = append(differences, fmt.Sprintf("the server takes messages of at most %d bytes (max_payload): a reply or dead letter of a large event needs up to %d", most, minPayload))
	}
	return differences, nil
}

// minPayload is the size of the longest message that a worker writes, in bytes, rounded up: a reply
// with the cluster of its event, or a dead letter with the event and its headers.
const minPayload = 512 << 10

// firstSequence returns the first sequence of a new stream of events: 0 (the server's default, 1) if
// there is no ledger, otherwise a number above all sequences of an earlier stream. An acknowledgement
// carries only names and numbers: if a new message had the number of a message of the deleted stream, an
// acknowledgement of the old message would settle the new one. The number is the server's time in
// microseconds, since the clocks of workers differ.
func firstSequence(ctx context.Context, js jetstream.JetStream, subjects events.Subjects) (uint64, error) {
	ctx, cancel := streams.Bounded(ctx, js)
	defer cancel()
	replies, err := js.Stream(ctx, subjects.Stream(events.StreamReplies))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	now := replies.CachedInfo().TimeStamp
	if now.IsZero() { // before nats-server 2.10
		now = time.Now()
	}
	return uint64(now.UnixMicro()), nil
}
