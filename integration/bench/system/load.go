package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/bench/publishing"
)

// publishAhead is how many published events may be without the stream's acknowledgement.
const publishAhead = 256

// publisher publishes events, and waits until all are answered.
type publisher struct {
	js       *publishing.Publisher
	subjects events.Subjects
}

// event is one message to publish.
type event struct {
	subject, id string
	reply       string // subject of its reply
	data        []byte
	replies     int // the number of replies until it is answered
}

// provision returns the provision of a runtime.
func (p *publisher) provision(runtime, tenant string) (event, error) {
	return p.provisionIn(runtime, tenant, "cf-eu10")
}

func (p *publisher) provisionIn(runtime, tenant, region string) (event, error) {
	return p.provisionOf("aws", runtime, tenant, region)
}

func (p *publisher) provisionOf(plan, runtime, tenant, region string) (event, error) {
	e := events.Event{Type: events.TypeProvision, ID: "p-" + runtime, Source: "/bench", RuntimeID: runtime, Provision: &events.Provision{
		RuntimeID: runtime, GlobalAccountID: tenant, Plan: plan, PlatformRegion: region, HyperscalerRegion: "eu-central-1",
		ShootName: "c-" + runtime,
	}}
	data, err := events.EncodeEvent(e)
	return event{subject: p.subjects.Provision(tenant), id: "provision/" + e.ID, reply: e.ReplySubject(p.subjects), data: data, replies: 1}, err
}

// deprovision returns the deprovision of a runtime.
func (p *publisher) deprovision(runtime, tenant string) (event, error) {
	e := events.Event{Type: events.TypeDeprovision, ID: "d-" + runtime, Source: "/bench", RuntimeID: runtime, Deprovision: &events.Deprovision{
		RuntimeID: runtime, GlobalAccountID: tenant,
	}}
	data, err := events.EncodeEvent(e)
	// Two replies: a worker first stores a sealed one, which reserves the id in the ledger (rule 11).
	return event{subject: p.subjects.Deprovision(tenant), id: "deprovision/" + e.ID, reply: e.ReplySubject(p.subjects), data: data, replies: 2}, err
}

// answered publishes the events as fast as possible. It returns the time until the stream of replies has all
// answers.
func (p *publisher) answered(ctx context.Context, replies string, batch []event) (time.Duration, error) {
	stream, err := p.js.Stream(ctx, replies)
	if err != nil {
		return 0, err
	}
	before := stream.CachedInfo().State.LastSeq
	begin := time.Now()
	if err := p.publish(ctx, batch); err != nil {
		return 0, err
	}
	n := 0
	for _, e := range batch {
		n += e.replies
	}
	err = stored(ctx, stream, before, n)
	return time.Since(begin), err
}

// whileStopped stops the processes that answer, and publishes the events. After resume, each process takes as
// many events at once as it can, however fast it is.
func (p *publisher) whileStopped(ctx context.Context, pids []int, batch []event) (resume func() error, err error) {
	resume = func() error { return signalAll(pids, syscall.SIGCONT) }
	if err := errors.Join(signalAll(pids, syscall.SIGSTOP), p.publish(ctx, batch)); err != nil {
		return nil, errors.Join(err, resume())
	}
	return resume, nil
}

func signalAll(pids []int, s syscall.Signal) error {
	var errs []error
	for _, pid := range pids {
		errs = append(errs, syscall.Kill(pid, s))
	}
	return errors.Join(errs...)
}

// publish publishes the events, and waits until the stream has stored them all.
func (p *publisher) publish(ctx context.Context, batch []event) error {
	for _, e := range batch {
		if _, err := p.js.PublishMsgAsync(e.message(), jetstream.WithStallWait(time.Minute)); err != nil {
			return fmt.Errorf("publish %s: %w", e.id, err)
		}
	}
	return p.js.Published(ctx)
}

// stored waits until a stream has stored n messages after the sequence before.
func stored(ctx context.Context, stream jetstream.Stream, before uint64, n int) error {
	every := time.NewTicker(2 * time.Millisecond)
	defer every.Stop()
	for {
		info, err := stream.Info(ctx)
		if err != nil {
			return err
		}
		if info.State.LastSeq >= before+uint64(n) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d events are answered: %w", info.State.LastSeq-before, n, context.Cause(ctx))
		case <-every.C:
		}
	}
}

// paced publishes the events at a steady rate. It returns the time from each publish until a subscriber gets
// the reply. If ctx ends before all are answered, it returns the times of the answered events, and an error.
func (p *publisher) paced(ctx context.Context, replies string, batch []event, perSecond float64) ([]time.Duration, error) {
	nc := p.js.Conn()
	sent, seen := make(map[string]time.Time, len(batch)), make(chan *nats.Msg, 4*len(batch)+100_000)
	own := make(map[string]bool, len(batch))
	for _, e := range batch {
		own[e.reply] = true
	}
	sub, err := nc.ChanSubscribe(replies, seen)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.Flush(); err != nil {
		return nil, err
	}
	type arrival struct {
		subject string
		at      time.Time
	}
	arrivals := make(chan []arrival, 1)
	go func() {
		var got []arrival
		for len(got) < len(batch) {
			select {
			case msg := <-seen:
				if own[msg.Subject] { // replies to other events arrive, too
					got = append(got, arrival{msg.Subject, time.Now()})
				}
			case <-ctx.Done():
				arrivals <- got
				return
			}
		}
		arrivals <- got
	}()
	// Due events are published every millisecond: a timer for each event would use as much CPU as the events
	// themselves.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	for i := 0; i < len(batch); {
		<-tick.C
		for due := int(time.Since(begin).Seconds() * perSecond); i < min(due, len(batch)); i++ {
			sent[batch[i].reply] = time.Now()
			if _, err := p.js.PublishMsgAsync(batch[i].message(), jetstream.WithStallWait(time.Minute)); err != nil {
				return nil, fmt.Errorf("publish %s: %w", batch[i].id, err)
			}
		}
	}
	if err := p.js.Published(ctx); err != nil {
		return nil, err
	}
	var took []time.Duration
	for _, a := range <-arrivals {
		if at, ok := sent[a.subject]; ok {
			took = append(took, a.at.Sub(at))
		}
	}
	if len(took) < len(batch) {
		return took, fmt.Errorf("%d of %d events are answered: %w", len(took), len(batch), context.Cause(ctx))
	}
	return took, nil
}

func (e event) message() *nats.Msg {
	return &nats.Msg{Subject: e.subject, Data: e.data, Header: nats.Header{
		"Content-Type": {events.ContentType}, "Nats-Msg-Id": {e.id},
	}}
}
