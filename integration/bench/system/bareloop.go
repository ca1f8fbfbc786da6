package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"sync"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
)

// The streams and the consumer of the bare loop, beside those of the worker.
const (
	bareEvents   = "BARE_EVENTS"
	bareReplies  = "BARE_REPLIES"
	bareConsumer = "bare"
	bareSubject  = "bare.event."
	bareAnswer   = "bare.reply."

	// bareHandlers is how many events the loop has in work at once.
	bareHandlers = 64
)

// bareScript is the loop's decision: two commands, whatever was asked.
var bareScript = redis.NewScript(`
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.call('HINCRBY', KEYS[1], 'seq', 1)
`)

// bareLoop is what any consumer of events costs that keeps its state in Redis and
// answers on a stream: it takes an event, runs a script of two commands, publishes
// a reply under the expected last sequence of its subject, waits for the stream's
// acknowledgement and settles. It decodes nothing and decides nothing. It is a
// process of its own, as the worker is, and ends with SIGTERM.
func bareLoop(natsURL, redisURL string, reply []byte, ready io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(natsURL)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	o, err := redis.ParseURL(redisURL)
	if err != nil {
		return err
	}
	client := redis.NewClient(o)
	defer func() { _ = client.Close() }()
	if err := bareScript.Load(ctx, client).Err(); err != nil {
		return err
	}
	consumer, err := js.Consumer(ctx, bareEvents, bareConsumer)
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(bareHandlers))
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, messages.Stop)()
	_, _ = fmt.Fprintln(ready, "ready")
	var all sync.WaitGroup
	failed := make(chan error, bareHandlers)
	for range bareHandlers {
		all.Go(func() {
			for {
				msg, err := messages.Next()
				if err != nil {
					return
				}
				if err := bareAnswerTo(context.WithoutCancel(ctx), client, js, msg, reply); err != nil {
					failed <- err
					messages.Stop()
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func bareAnswerTo(ctx context.Context, client *redis.Client, js jetstream.JetStream, msg jetstream.Msg, reply []byte) error {
	id := msg.Subject()[len(bareSubject):]
	if err := bareScript.Run(ctx, client, []string{"bare"}, id, "assigned").Err(); err != nil {
		return err
	}
	_, err := js.PublishMsg(ctx, &nats.Msg{Subject: bareAnswer + id, Data: reply},
		jetstream.WithExpectStream(bareReplies), jetstream.WithExpectLastSequencePerSubject(0))
	if err != nil {
		return err
	}
	return msg.Ack()
}
