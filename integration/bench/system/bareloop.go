package main

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// bareHandlers is the number of events that the bare loop handles concurrently.
const bareHandlers = 64

// runBare is the plain loop: each handler handles one event after the other, step by step.
func runBare(ctx context.Context, l *loop) error {
	messages, err := l.consumer.Messages(jetstream.PullMaxMessages(bareHandlers))
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, messages.Stop)()
	var all sync.WaitGroup
	failed := make(chan error, bareHandlers)
	for range bareHandlers {
		all.Go(func() {
			for {
				msg, err := messages.Next()
				if err != nil {
					return
				}
				if err := l.answerOne(context.WithoutCancel(ctx), msg); err != nil {
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

func (l *loop) answerOne(ctx context.Context, msg jetstream.Msg) error {
	runtime := l.runtimeOf(msg)
	if err := script.Run(ctx, l.redis, []string{l.word}, runtime, "assigned").Err(); err != nil {
		return err
	}
	reply, opts := l.answerTo(runtime)
	if _, err := l.js.PublishMsg(ctx, reply, opts...); err != nil {
		return err
	}
	return msg.Ack()
}
