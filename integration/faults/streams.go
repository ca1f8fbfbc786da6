package faults

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
)

// toStreams manipulates the streams directly.
func (r *run) toStreams(a Action) bool {
	if !r.streamsBy.TryLock() {
		return false
	}
	defer r.streamsBy.Unlock()
	switch a.Kind {
	case ConsumerDeleted:
		err := r.js.DeleteConsumer(r.ctx, events.StreamEvents, events.ConsumerWorker)
		return err == nil // while NATS is down the consumer stays
	case DeadPurged:
		return r.purgeDead() == nil
	default:
		return r.scribble(a)
	}
}

// junkRuntime is the runtime of undecodable messages.
const junkRuntime = "rt-junk"

// scribble publishes messages that no worker can decode, and removes them after some time.
func (r *run) scribble(a Action) bool {
	request := fmt.Sprintf("junk-%d", a.At.Milliseconds())
	stored := map[string]string{ // stream by subject
		r.subjects.Reply(junkRuntime, request):                       events.StreamReplies,
		r.subjects.Waiting("aws", "one-0", junkRuntime, request):     events.StreamWaiting,
		r.subjects.Waiting("nowhere", "one-0", junkRuntime, request): events.StreamWaiting,
		r.subjects.Dead("of no type"):                                events.StreamDead,
	}
	for subject := range stored {
		msg := &nats.Msg{Subject: subject, Data: []byte(`{"specversion":"1.0","type":"hap.reply.v9"`)}
		if _, err := r.js.PublishMsg(r.ctx, msg); err != nil {
			delete(stored, subject)
		}
	}
	pause(r.ctx, a.For)
	for subject, name := range stored {
		for r.ctx.Err() == nil && r.purge(name, subject) != nil {
			pause(r.ctx, 200*time.Millisecond)
		}
	}
	return len(stored) > 0
}

// purgeDead purges the dead letters, and remembers their events. Nothing is derived from dead letters. Other
// streams are not purged: HAP_EVENTS and HAP_WAITING are the only record of unanswered requests, and
// HAP_REPLIES is the ledger.
func (r *run) purgeDead() error {
	stream, err := r.js.Stream(r.ctx, events.StreamDead)
	if err != nil {
		return err
	}
	last := stream.CachedInfo().State.LastSeq
	if err := r.remember(); err != nil {
		return err
	}
	return stream.Purge(r.ctx, jetstream.WithPurgeSequence(last+1))
}

func (r *run) purge(name, subject string) error {
	stream, err := r.js.Stream(r.ctx, name)
	if err != nil {
		return err
	}
	return stream.Purge(r.ctx, jetstream.WithPurgeSubject(subject))
}

// toConfig replaces the workers' configuration by a valid other one, then by an invalid one, and finally by
// the original.
func (r *run) toConfig(a Action) bool {
	if !r.configBy.TryLock() {
		return false
	}
	defer r.configBy.Unlock()
	first, err := os.ReadFile(r.stack.Config)
	r.must(err)
	other := bytes.Replace(first, []byte("timeout: 25s"), []byte("timeout: 9s"), 1)
	if bytes.Equal(first, other) {
		r.must(errors.New("the configuration does not say how long requests wait"))
		return false
	}
	r.must(replaceFile(r.stack.Config, other))
	pause(r.ctx, a.For/2)
	r.starts.Lock() // a worker that starts on half a configuration exits
	defer r.starts.Unlock()
	r.must(replaceFile(r.stack.Config, other[:len(other)/2]))
	pause(r.ctx, a.For/2)
	r.must(replaceFile(r.stack.Config, first))
	return true
}

// replaceFile replaces a file atomically.
func replaceFile(name string, content []byte) error {
	if err := os.WriteFile(name+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
