package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
)

// loopCommand is the first argument of an anchor's process. The others are the anchor's word and the URLs of NATS and
// Redis.
const loopCommand = "loop"

// anchor is a reference loop: it does the minimum of any consumer that keeps its state in Redis and answers
// on a stream. It takes an event, runs a script of two commands, publishes a reply under the expected last
// sequence of its subject, waits for the stream's acknowledgement, and acknowledges the event. It decodes and
// decides nothing.
type anchor struct {
	name string // in the report
	word string // of its streams, its subjects and its hash
	run  func(context.Context, *loop) error
}

var (
	bareAnchor  = anchor{nameBare, "bare", runBare}
	tunedAnchor = anchor{nameTuned, "tuned", runTuned}
)

func anchorOf(word string) (anchor, error) {
	for _, a := range []anchor{bareAnchor, tunedAnchor} {
		if a.word == word {
			return a, nil
		}
	}
	return anchor{}, fmt.Errorf("no loop is named %q", word)
}

// events and replies are the names of the loop's streams.
func (a anchor) events() string  { return strings.ToUpper(a.word) + "_EVENTS" }
func (a anchor) replies() string { return strings.ToUpper(a.word) + "_REPLIES" }

// subject is the subject of a runtime's event; "*" matches all.
func (a anchor) subject(runtime string) string { return a.word + ".event." + runtime }

// reply is the subject of the reply to an event.
func (a anchor) reply(runtime string) string { return a.word + ".reply." + runtime }

// loop is the process of an anchor.
type loop struct {
	anchor
	js       jetstream.JetStream
	redis    *redis.Client
	consumer jetstream.Consumer
	answer   []byte
}

// script is a loop's decision: the same two commands for every event.
var script = redis.NewScript(`
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.call('HINCRBY', KEYS[1], 'seq', 1)
`)

// runLoop answers events until SIGTERM or until one fails. Like a worker, it has a separate process. It writes a line
// to ready before it takes the first event.
func runLoop(a anchor, natsURL, redisURL string, answer []byte, ready io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(natsURL)
	if err != nil {
		return err
	}
	defer nc.Close()
	l := &loop{anchor: a, answer: answer}
	if l.js, err = jetstream.New(nc); err != nil {
		return err
	}
	o, err := redis.ParseURL(redisURL)
	if err != nil {
		return err
	}
	l.redis = redis.NewClient(o)
	defer func() { _ = l.redis.Close() }()
	if err := script.Load(ctx, l.redis).Err(); err != nil {
		return err
	}
	if l.consumer, err = l.js.Consumer(ctx, a.events(), a.word); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(ready, "ready")
	return a.run(ctx, l)
}

// runtimeOf returns the runtime of an event.
func (l *loop) runtimeOf(msg jetstream.Msg) string {
	return strings.TrimPrefix(msg.Subject(), l.subject(""))
}

// answerTo returns the reply to a runtime's event, and the expectations under which it is published.
func (l *loop) answerTo(runtime string) (*nats.Msg, []jetstream.PublishOpt) {
	return &nats.Msg{Subject: l.reply(runtime), Data: l.answer},
		[]jetstream.PublishOpt{jetstream.WithExpectStream(l.replies()), jetstream.WithExpectLastSequencePerSubject(0)}
}
