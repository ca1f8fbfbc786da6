package main

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

const (
	// tunedTasks is the number of concurrent tasks: while one waits for Redis or NATS, the others go on.
	tunedTasks = 4
	// tunedBatch is the maximal number of events in flight in a task.
	tunedBatch = 256
)

// runTuned is the fastest loop that we know: a task takes the available events, up to a batch, runs their
// scripts in one pipeline, publishes all replies before it waits for the first acknowledgement, and then
// acknowledges each event whose reply is stored.
func runTuned(ctx context.Context, l *loop) error {
	come := make(chan jetstream.Msg, tunedTasks*tunedBatch)
	consuming, err := l.consumer.Consume(func(m jetstream.Msg) {
		select {
		case come <- m:
		case <-ctx.Done():
		}
	}, jetstream.PullMaxMessages(tunedTasks*tunedBatch))
	if err != nil {
		return err
	}
	defer consuming.Stop()
	tasks, ctx := errgroup.WithContext(ctx)
	for range tunedTasks {
		tasks.Go(func() error {
			batch := make([]jetstream.Msg, 0, tunedBatch)
			for {
				if batch = gather(ctx, come, batch[:0]); len(batch) == 0 {
					return nil
				}
				if err := l.answerAll(context.WithoutCancel(ctx), batch); err != nil {
					return err
				}
			}
		})
	}
	return tasks.Wait()
}

// gather waits for an event, and adds further available ones. It returns none if ctx ends first.
func gather(ctx context.Context, come <-chan jetstream.Msg, batch []jetstream.Msg) []jetstream.Msg {
	select {
	case <-ctx.Done():
		return nil
	case m := <-come:
		batch = append(batch, m)
	}
	for len(batch) < cap(batch) {
		select {
		case m := <-come:
			batch = append(batch, m)
		default:
			return batch
		}
	}
	return batch
}

func (l *loop) answerAll(ctx context.Context, batch []jetstream.Msg) error {
	pipeline := l.redis.Pipeline()
	for _, msg := range batch {
		script.EvalSha(ctx, pipeline, []string{l.word}, l.runtimeOf(msg), "assigned")
	}
	if _, err := pipeline.Exec(ctx); err != nil {
		return err
	}
	stored := make([]jetstream.PubAckFuture, len(batch))
	for i, msg := range batch {
		reply, opts := l.answerTo(l.runtimeOf(msg))
		var err error
		if stored[i], err = l.js.PublishMsgAsync(reply, opts...); err != nil {
			return err
		}
	}
	var errs []error
	for i, msg := range batch {
		select {
		case <-stored[i].Ok():
			errs = append(errs, msg.Ack())
		case err := <-stored[i].Err():
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
